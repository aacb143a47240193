//! `tenure elect`.

use std::{ffi::OsString, time::Duration};

use clap::Args;

use super::{Running, duration};
use crate::settings::Where;

/// `tenure elect`.
#[derive(Debug, Args)]
#[allow(clippy::struct_excessive_bools, reason = "as many switches as there are")]
pub(crate) struct Elect {
    /// What observers see, such as an address. Who it is, as JSON, unless set: host, pid, program, since.
    #[arg(long, value_name = "TEXT")]
    pub(crate) value: Option<String>,

    /// End after one term, as tenure lock does: with the code of the command, or 76 if the leadership was lost.
    #[arg(long)]
    pub(crate) once: bool,

    /// When the command ends by itself: resign, pause (1 s, and twice as long each time up to 30 s), and campaign again.
    ///
    /// Without it tenure resigns and exits with the code of the command. A command that INT, QUIT or HUP has ended is never restarted: that is
    /// how a terminal ends it.
    #[arg(long, conflicts_with = "once")]
    pub(crate) restart: bool,

    /// How long the command may take to end when the leadership is given up in good order: after TERM or INT to tenure, when it is asked to
    /// resign, or when it is not well. It gets TERM at the beginning, and KILL when the time is over.
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "10s")]
    pub(crate) drain: Duration,

    /// Prefer this candidate over those with a lower number.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) priority: u32,

    /// How long it must have waited, and the other one led, before preference moves the leadership.
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "30s", requires = "priority")]
    pub(crate) hysteresis: Duration,

    /// Stand in line and lead only while this shell command exits with 0.
    ///
    /// It is run every --health-period and has as long for it; then it is killed with all it started. After two failures in a row the
    /// leadership is given up. It finds TENURE_NAME and, only while this candidate leads, TENURE_TOKEN in its environment: while it waits, it
    /// cannot ask a command that is not running. Its stdin is empty and its stdout goes nowhere.
    #[arg(long, value_name = "COMMAND")]
    pub(crate) health_cmd: Option<OsString>,

    /// See --health-cmd.
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "5s", requires = "health_cmd")]
    pub(crate) health_period: Duration,

    /// Keep a history of the terms beside the election, for tenure observe --history: who, when, with which token, and why it ended.
    ///
    /// Give it to all candidates. It is at its best effort: no term begins later for it, and none ends more than half a second later. Refused on
    /// a backend that keeps no data behind a fence (use etcd, zk or sqlite).
    #[arg(long)]
    pub(crate) history: bool,

    /// Answer HTTP on this address, such as 127.0.0.1:8080 or just a port: /leader, /healthz and /metrics.
    ///
    /// With it, the command may be left out. Port 0: any free one, which is told on stderr.
    #[cfg(feature = "http")]
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    pub(crate) http: Option<std::net::SocketAddr>,

    /// Let --http be an address that other hosts can reach. There is no authentication.
    #[cfg(feature = "http")]
    #[arg(long, requires = "http")]
    pub(crate) http_public: bool,

    #[command(flatten)]
    pub(crate) running: Running,

    #[command(flatten)]
    pub(crate) backend: Where,

    /// The election: 1 to 512 bytes of UTF-8. The same queue as that of tenure lock NAME.
    pub(crate) name: String,

    /// The command, and all that belongs to it. A `--` before it may be left out.
    #[cfg_attr(feature = "http", arg(required_unless_present = "http"))]
    #[cfg_attr(not(feature = "http"), arg(required = true))]
    #[arg(trailing_var_arg = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

pub(super) const ABOUT: &str = "\
Run a command whenever this candidate leads.

Waits until it leads, runs the command, and ends it with the term: when the leadership is lost, when somebody asks it to resign (tenure \
resign), when a preferred candidate has waited for long enough, or when it is not well. Then it campaigns again, behind the others, and \
the command is started anew in the next term. When the command ends by itself, tenure resigns and exits with its code. The command \
gets stdin, stdout, stderr and the environment of tenure, and in addition TENURE_NAME and TENURE_TOKEN: a number that grows from leader to \
leader.";

pub(super) const MORE: &str = "\
What is guaranteed:
  While the command runs, no other candidate leads, and nobody holds the lock
  NAME. Nothing of the command is left when tenure resigns. As for tenure lock,
  a watchdog ends it with all its descendants before the deadline, also if tenure
  itself is killed or stopped: TERM at the deadline less the grace, KILL at the
  deadline. In each term the command starts once, with a higher token.

What is not:
  A command can be paused for any time, and what it has sent arrive later: have
  the receiver refuse a TENURE_TOKEN lower than the highest it has seen. See
  tenure lock --help for what cannot be killed. While the leader is dead and its
  ttl not over, nobody leads. After an operator has removed the leader's entry, the
  next one may start up to a second before the command is gone. Only a `tenure
  elect` obeys a request to resign, or makes room for one that is chosen or
  preferred: not a tenure lock or an etcdctl.

Signals:
  TERM, INT and QUIT go to the command, which has the --drain time; then tenure
  resigns and exits as tenure lock does. HUP, USR1, USR2 only go to the command.
  While waiting, TERM, INT and QUIT give up the candidacy. HUP does nothing then,
  so that all replicas can be told to reload; but with a terminal it ends the
  waiting, since the terminal has hung up.

HTTP, for other programs on this host:
  /leader   who leads, whether it is us, our token, the time to our deadline; 503
            while that is not known, since the backend is away
  /healthz  200 while the session is held, as leader or candidate; else 503
  /metrics  for Prometheus
  It is served beside the election, and cannot delay it. What it says may be over
  when it is read: who must not be wrong has to check tokens.

Settings and exit codes: as tenure lock. An election that goes on has none: while
the backend is away it waits, apart from the very first connection (69).

Examples:
  tenure elect scheduler -- ./scheduler
  tenure elect scheduler --value 10.0.0.7:9000 --priority 5 -- ./scheduler
  tenure elect scheduler --health-cmd 'curl -fs localhost:9000/ok' -- ./run
  tenure elect --http 8080 scheduler            lead, and tell others";

impl Elect {
    pub(super) fn check(&self) -> Result<(), String> {
        #[cfg(feature = "http")]
        if let Some(http) = self.http.filter(|http| !http.ip().is_loopback() && !self.http_public) {
            return Err(format!(
                "--http {http} can be reached by other hosts, and anybody there may ask: write 127.0.0.1:{}, or add --http-public",
                http.port()
            ));
        }
        if self.health_period.is_zero() {
            return Err("--health-period 0 leaves no time for an answer: write 1s or more".to_owned());
        }
        Ok(())
    }
}

#[cfg(feature = "http")]
fn address(text: &str) -> Result<std::net::SocketAddr, String> {
    let port = text.parse().map(|port: u16| (std::net::Ipv4Addr::LOCALHOST, port).into());
    port.or_else(|_| text.parse()).map_err(|_| format!("'{text}' is no address: write it like 127.0.0.1:8080 or 8080"))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::{Cli, Command};

    fn parsed(words: &[&str]) -> Result<Elect, String> {
        let cli = Cli::try_parse_from([&["tenure", "elect"], words].concat()).map_err(|error| error.to_string())?;
        let Command::Elect(elect) = cli.command else { panic!("{words:?}") };
        elect.check().map(|()| *elect)
    }

    #[test]
    fn a_command_is_needed() {
        assert_eq!(parsed(&["job", "--", "ls", "-n"]).expect("good").command, ["ls", "-n"]);
        assert_eq!(parsed(&["job", "ls", "--once"]).expect("good").command, ["ls", "--once"]);
        assert!(parsed(&["job"]).is_err());
        assert!(parsed(&["--once", "--restart", "job", "ls"]).is_err());
        assert!(parsed(&["--hysteresis", "1s", "job", "ls"]).is_err(), "it says nothing without a priority");
        assert!(parsed(&["--health-period", "1s", "job", "ls"]).is_err());
    }

    #[cfg(feature = "http")]
    #[test]
    fn other_hosts_are_let_in_only_on_demand() {
        for good in ["8080", "127.0.0.1:8080", "[::1]:8080", "127.3.2.1:0"] {
            assert!(parsed(&["--http", good, "job"]).expect("good").command.is_empty(), "{good}");
        }
        for public in ["0.0.0.0:8080", "[::]:8080", "10.0.0.7:8080", "[::ffff:10.0.0.7]:80"] {
            assert!(parsed(&["--http", public, "job"]).expect_err("refused").contains("--http-public"), "{public}");
            assert!(parsed(&["--http", public, "--http-public", "job"]).is_ok(), "{public}");
        }
        for bad in ["", ":8080", "localhost:8080", "70000"] {
            assert!(parsed(&["--http", bad, "job"]).is_err(), "{bad}");
        }
    }
}
