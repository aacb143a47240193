//! `tenure once`.

use std::{ffi::OsString, time::Duration};

use clap::Args;

use super::{Running, duration};
use crate::{outcome::code, settings::Where};

/// `tenure once`.
#[derive(Debug, Args)]
#[command(
    override_usage = "tenure once [OPTIONS] KEY [--] COMMAND...\n       tenure once --status [--json] KEY\n       tenure once --forget KEY"
)]
#[allow(clippy::struct_excessive_bools, reason = "as many switches as there are")]
pub(crate) struct Once {
    /// Forget a success after this long (90s, 23h, 7d): then the command is run again.
    ///
    /// No wall clock is asked. A host forgets once its own clock since boot has counted this long since it first knew of the success: the
    /// host that ran the command counts from its end, any other one from its first tenure once --expire for that key after it, and each one
    /// anew after a restart. So never sooner, but perhaps later. For a daily job of cron say less than a day: 23h.
    #[arg(long, value_name = "TIME", value_parser = duration, conflicts_with_all = ["status", "forget"])]
    pub(crate) expire: Option<Duration>,

    /// Tell whether it was done, and run nothing: a line with TOKEN TIME HOST PROGRAM, and exit with 0; or exit with 1.
    #[arg(long, conflicts_with_all = ["forget", "nonblock", "wait", "command"])]
    pub(crate) status: bool,

    /// Write what --status tells as a JSON object.
    #[arg(long, requires = "status", conflicts_with = "command")]
    pub(crate) json: bool,

    /// Forget that it was done, and run nothing. Exit with 0, or with 1 if there was nothing to forget. Waits while the command runs.
    #[arg(long, conflicts_with = "command")]
    pub(crate) forget: bool,

    /// Do not wait: exit with 75 if somebody else runs it, or holds the lock of that name for something else.
    #[arg(short = 'n', long, visible_alias = "nb", conflicts_with_all = ["wait", "forget"])]
    pub(crate) nonblock: bool,

    /// Wait no longer than this (5, 1.5, 10s, 2m), then exit with 75.
    #[arg(short = 'w', long, visible_alias = "timeout", value_name = "SECONDS", value_parser = duration)]
    pub(crate) wait: Option<Duration>,

    /// The exit code when somebody else runs it, and it was not waited for.
    #[arg(short = 'E', long, value_name = "CODE", default_value_t = code::NOT_ACQUIRED)]
    pub(crate) conflict_exit_code: u8,

    #[command(flatten)]
    pub(crate) running: Running,

    #[command(flatten)]
    pub(crate) backend: Where,

    /// What is to be done once: 1 to 512 bytes of UTF-8. The same queue as that of tenure lock KEY.
    #[arg(value_name = "KEY")]
    pub(crate) name: String,

    /// The command, and all that belongs to it. A `--` before it may be left out.
    #[arg(required_unless_present_any = ["status", "forget"], trailing_var_arg = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

pub(super) const ABOUT: &str = "\
Run a command until it has succeeded once, over all hosts: at most one recorded success for each KEY, and at least one run.

Runs the command under the lock KEY, as tenure lock does. If it exits with 0, that is recorded in the service, while the lock is still \
held; from then on tenure once KEY exits with 0 at once, on every host, and runs nothing. If it fails, or dies, the next one may try.";

pub(super) const MORE: &str = "\
What is guaranteed:
  Of all runs for one KEY at most one is recorded as its success, and none begins
  after that until it is forgotten. The record is a write that the service itself
  refuses once the lock has passed on, however late it comes. Two runs never
  overlap, as far as tenure lock guarantees that. Exit code 0 means: it is
  recorded, now or before. Wall clocks decide nothing.

What is not:
  Whoever dies in the middle may have done it all: the order is that the command
  exits with 0, then that is recorded, then tenure exits with 0. If tenure is
  killed, the lock lost or the service away between the first two, the command has
  succeeded, that is not recorded, and it runs again. So let the command bear being
  repeated, or have the receiver refuse a TENURE_TOKEN lower than the highest it
  has seen, and remember what was done (docs/no-lock.md). A restore of the service
  from a backup forgets what was recorded since.

Waiting: several at once wait for each other, first come first served; when one
succeeds, the others exit with 0. When one fails, it exits with the code of the
command, and the next one runs it.

Exit codes:
  0   it is recorded as done, now or before (--result-file tells which)
  n   the command exited with n, or 128+n for a signal: it may be run again
  75  somebody else runs it (-n, -w)
  76  the lock was lost: what the command did is not recorded, even if it exited
      with 0, and it will be run again
  69  the backend cannot be reached; if the command had exited with 0, the message
      says whether that may be recorded: run the same again, or see --status
  78  configuration; or the backend keeps no data behind a fence (use etcd, sqlite)
  else as tenure lock, with the same settings and signals.

Examples:
  tenure once migrate-2026-03 -- ./migrate          on every host, at its start
  tenure once --expire 23h daily-report -- ./report from cron, on many hosts
  tenure once --status migrate-2026-03              who did it, and when
  tenure once --forget migrate-2026-03              do it again";

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::{Cli, Command};

    fn parsed(words: &[&str]) -> Result<Once, String> {
        let cli = Cli::try_parse_from([&["tenure", "once"], words].concat()).map_err(|error| error.to_string())?;
        let Command::Once(once) = cli.command else { panic!("{words:?}") };
        Ok(*once)
    }

    #[test]
    fn a_command_is_needed_unless_nothing_is_run() {
        assert_eq!(parsed(&["key", "--", "ls", "-n"]).expect("good").command, ["ls", "-n"]);
        assert_eq!(parsed(&["--expire", "7d", "key", "ls", "--forget"]).expect("good").command, ["ls", "--forget"]);
        for good in [&["--status", "key"][..], &["--status", "--json", "key"], &["--forget", "-w", "5", "key"]] {
            assert!(parsed(good).expect("good").command.is_empty(), "{good:?}");
        }
        for bad in [
            &["key"][..],
            &["--json", "key", "ls"],
            &["--status", "key", "ls"],
            &["--forget", "key", "ls"],
            &["--forget", "--status", "key"],
            &["--forget", "--expire", "1s", "key"],
            &["-n", "-w", "5", "key", "ls"],
        ] {
            assert!(parsed(bad).is_err(), "{bad:?}");
        }
    }
}
