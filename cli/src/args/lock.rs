//! `tenure lock`.

use std::{ffi::OsString, num::NonZeroU32, time::Duration};

use clap::Args;

use super::{Running, duration};
use crate::{outcome::code, settings::Where};

/// `tenure lock`.
#[derive(Debug, Args)]
pub(crate) struct Lock {
    /// Do not wait: exit with 75 if somebody else holds the lock or waits for it.
    #[arg(short = 'n', long, visible_alias = "nb", conflicts_with = "wait")]
    pub(crate) nonblock: bool,

    /// Wait for the lock no longer than this (5, 1.5, 10s, 2m), then exit with 75.
    #[arg(short = 'w', long, visible_alias = "timeout", value_name = "SECONDS", value_parser = duration)]
    pub(crate) wait: Option<Duration>,

    /// The exit code when the lock was not acquired.
    #[arg(short = 'E', long, value_name = "CODE", default_value_t = code::NOT_ACQUIRED)]
    pub(crate) conflict_exit_code: u8,

    /// Share the lock with others that share it. There is no fencing token then.
    #[arg(short = 's', long, conflicts_with_all = ["exclusive", "permits"])]
    pub(crate) shared: bool,

    /// Hold the lock alone. This is the default.
    #[arg(short = 'x', short_alias = 'e', long, conflicts_with = "permits")]
    pub(crate) exclusive: bool,

    /// Let up to N hold it at the same time. There is no fencing token then.
    #[arg(long, value_name = "N")]
    pub(crate) permits: Option<NonZeroU32>,

    /// Hold the lock for at least this long after it was granted, even if the command ends sooner.
    ///
    /// For jobs that cron starts on several hosts whose clocks differ by seconds. Only together with -n or a shorter -w, since whoever
    /// waited longer would run the job again. TERM or INT during the hold releases at once. After kill -9 of tenure only the ttl holds.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) hold_at_least: Option<Duration>,

    #[command(flatten)]
    pub(crate) running: Running,

    #[command(flatten)]
    pub(crate) backend: Where,

    /// What to lock: 1 to 512 bytes of UTF-8.
    pub(crate) name: String,

    /// The command, and all that belongs to it. A `--` before it may be left out.
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

pub(super) const ABOUT: &str = "\
Run a command while holding a lock.

Waits until nobody else holds NAME, runs the command, and releases NAME when the command and everything it started have ended. The \
command gets stdin, stdout, stderr and the environment of tenure, and in addition TENURE_NAME and, for an exclusive lock, TENURE_TOKEN: \
a number that grows from holder to holder.";

pub(super) const MORE: &str = "\
What is guaranteed:
  While the command runs, nobody else is granted NAME. If the lock cannot be
  renewed in time, the command's process group gets TERM at the deadline less
  the grace, and KILL at the deadline: before anybody else can be granted NAME.
  This holds for all descendants, daemons and those in sessions of their own
  included, and also if tenure itself is killed or stopped: a watchdog process
  sees to it. A command that was told to end has the grace and no longer, even
  if the lock is renewed after all. Whatever the command leaves behind in the
  background gets TERM when the command ends, and KILL after the grace, before
  the lock is released. INT, TERM, HUP, QUIT, USR1, USR2 are forwarded to the
  command; while waiting, the first four give up the place in the queue.

What is not:
  A kill -9 of both tenure and its watchdog leaves the command running.
  Processes that others start on the command's behalf (systemd, docker, at) and
  processes of other users (sudo) cannot be killed. What a command sent before
  its end may arrive after it: have the receiver refuse a TENURE_TOKEN lower
  than the highest it has seen. After kill -9 of tenure the lock is free when
  its ttl is over.

Where the settings come from, each key from the first that has it:
  --url, --set; the environment: TENURE_URL, or TENURE_BACKEND, TENURE_HOSTS,
  TENURE_NAMESPACE, TENURE_TTL and so on for every key; the file that --config
  or TENURE_CONFIG names, else ./tenure.toml, else
  $XDG_CONFIG_HOME/tenure/tenure.toml (or ~/.config/tenure/tenure.toml), with
  the profile that --profile or TENURE_PROFILE names; else an SQLite file in the
  user's state folder, for the processes of one host. Whatever names the backend
  says the whole place: of weaker ones only ttl, connect_timeout and require
  count then. A tenure.toml reads: url = \"sqlite:/var/lib/jobs.db?ttl=15s\"

Exit codes:
  that of the command; 128+n if signal n ended it, or ended the waiting
   64  usage                           75  not acquired (another one with -E)
   69  the backend cannot be reached   76  lost while the command ran
   70  an unexpected failure           78  configuration
  126  the command cannot be run      127  the command was not found

Examples:
  tenure lock nightly-invoices -- ./send-invoices
  tenure lock -n backup -- pg_dump -f all.sql             skip if one runs
  tenure lock -w 30 deploy ./deploy.sh --to production    wait for up to 30 s
  tenure lock --permits 3 downloads -- curl -O \"$URL\"     three at a time
  tenure lock -n --hold-at-least 30s report ./report      from cron, many hosts";

impl Lock {
    pub(super) fn check(&self) -> Result<(), String> {
        let Some(hold) = self.hold_at_least else { return Ok(()) };
        let given_up_before = self.nonblock || self.wait.is_some_and(|wait| wait < hold);
        if given_up_before {
            return Ok(());
        }
        let hold = humantime::format_duration(hold);
        Err(format!(
            "--hold-at-least {hold} keeps others from running the job a second time, but whoever waits that long would run it again: \
             write -n, or -w with less than {hold}"
        ))
    }
}

#[cfg(test)]
mod tests {
    use clap::{Parser, error::ErrorKind};

    use super::*;
    use crate::args::{Cli, Command};

    fn parsed(words: &[&str]) -> Lock {
        let cli = Cli::try_parse_from([&["tenure", "lock"], words].concat()).unwrap_or_else(|error| panic!("{error}"));
        let Command::Lock(lock) = cli.command else { panic!("{words:?}") };
        *lock
    }

    #[test]
    fn the_command_owns_everything_after_it() {
        for (words, command) in [
            (&["job", "ls", "-n", "--url", "x"][..], &["ls", "-n", "--url", "x"][..]),
            (&["job", "--", "ls", "-n"], &["ls", "-n"]),
            (&["job", "ls", "--", "-n"], &["ls", "--", "-n"]),
            (&["job", "--", "ls", "--", "-n"], &["ls", "--", "-n"]),
            (&["job", "ls", "--help"], &["ls", "--help"]),
            (&["-w", "5", "job", "sh", "-c", "exit 7"], &["sh", "-c", "exit 7"]),
            (&["job", "--", "--odd", "-n"], &["--odd", "-n"]),
            (&["job", "--url", "etcd://h/b?ttl=9s", "--", "ls", "-n"], &["ls", "-n"]),
            (&["job", "--url", "etcd://h/b?ttl=9s", "ls", "-n"], &["ls", "-n"]),
        ] {
            let lock = parsed(words);
            assert_eq!((lock.name.as_str(), lock.nonblock), ("job", false), "{words:?}");
            assert_eq!(lock.command, command, "{words:?}");
        }
    }

    #[test]
    fn options_stand_before_and_after_the_name() {
        assert!(parsed(&["-n", "job", "ls"]).nonblock);
        assert!(parsed(&["job", "-n", "--", "ls"]).nonblock);
        assert!(parsed(&["job", "-n", "ls"]).nonblock);
        assert_eq!(parsed(&["job", "--url", "etcd://h/b", "--", "ls"]).backend.url.as_deref(), Some("etcd://h/b"));
    }

    /// Or a slip of the pen would be run as a command, under another lock than was meant.
    #[test]
    fn an_unknown_option_is_no_command() {
        for words in [&["job", "--ulr", "x", "--", "ls"][..], &["job", "--ulr=x", "ls"], &["job", "-z", "ls"]] {
            let refused = Cli::try_parse_from([&["tenure", "lock"], words].concat()).expect_err("no such option");
            assert_eq!(refused.kind(), ErrorKind::UnknownArgument, "{words:?}");
        }
    }
}
