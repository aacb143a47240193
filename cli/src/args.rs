//! The command line.

use std::{path::PathBuf, process::ExitCode, time::Duration};

use clap::{Args, CommandFactory, Parser, Subcommand, error::ErrorKind};

pub(crate) use self::{
    elect::Elect,
    leaders::{Observe, Resign},
    lock::Lock,
    once::Once,
    verify::Verify,
};
use crate::{outcome::code, say};

mod elect;
mod leaders;
mod lock;
mod once;
mod verify;

/// Distributed locks and leader election, over a backend that configuration chooses.
#[derive(Debug, Parser)]
#[command(name = "tenure", version, subcommand_required = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a command while holding a lock.
    #[command(long_about = lock::ABOUT, after_long_help = lock::MORE)]
    Lock(Box<Lock>),
    /// Run a command until it has succeeded once, over all hosts.
    #[command(long_about = once::ABOUT, after_long_help = once::MORE)]
    Once(Box<Once>),
    /// Run a command whenever this candidate leads.
    #[command(long_about = elect::ABOUT, after_long_help = elect::MORE)]
    Elect(Box<Elect>),
    /// Tell who leads, now and after each change.
    #[command(long_about = leaders::OBSERVE_ABOUT, after_long_help = leaders::OBSERVE_MORE)]
    Observe(Box<Observe>),
    /// Ask the leader to resign, in favour of the next in line or of one that is chosen.
    #[command(long_about = leaders::RESIGN_ABOUT, after_long_help = leaders::RESIGN_MORE)]
    Resign(Box<Resign>),
    /// Tell by the exit code whether a token is that of the present holder.
    #[command(long_about = verify::ABOUT, after_long_help = verify::MORE)]
    Verify(Box<Verify>),
}

/// How a command is run, for whatever reason.
#[derive(Debug, Args)]
pub(crate) struct Running {
    /// How long before the deadline the command gets TERM, and how long what it left behind has to end. The smaller of 3s and what
    /// fits into the ttl unless set.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) grace: Option<Duration>,

    /// Write the outcome to this file, as one line of JSON.
    ///
    /// The exit code alone cannot tell a command that exits with 75 from a lock that was not acquired. The file is emptied at the start.
    #[arg(long, value_name = "FILE")]
    pub(crate) result_file: Option<PathBuf>,
}

/// Reads the command line. `Err`: there is nothing to do but to exit, since help was shown, or a complaint.
pub(crate) fn parse() -> Result<Command, ExitCode> {
    let command = Cli::try_parse().map(|cli| cli.command).map_err(|error| {
        if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
            let _ = error.print();
            return ExitCode::SUCCESS;
        }
        if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
            say("there is nothing to do: write tenure lock NAME -- COMMAND, and see tenure lock --help");
            return ExitCode::from(code::USAGE);
        }
        let text = error.to_string();
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("For more"));
        let text = lines.collect::<Vec<_>>().join("; ").replace(":; ", ": ");
        say(&format!("{}; see {} --help", text.trim_start_matches("error: "), asked_for()));
        ExitCode::from(code::USAGE)
    })?;
    let complaint = match &command {
        Command::Lock(lock) => lock.check(),
        Command::Elect(elect) => elect.check(),
        Command::Once(_) | Command::Observe(_) | Command::Resign(_) | Command::Verify(_) => Ok(()),
    };
    complaint.map_err(|complaint| {
        say(&complaint);
        ExitCode::from(code::USAGE)
    })?;
    Ok(command)
}

/// The command whose help may help.
fn asked_for() -> String {
    let word = std::env::args_os().nth(1).unwrap_or_default();
    match Cli::command().find_subcommand(word) {
        Some(command) => format!("tenure {}", command.get_name()),
        None => "tenure".to_owned(),
    }
}

/// No clock counts much further.
const LONGEST: Duration = Duration::from_secs(100 * 31_557_600);

/// A number of seconds, or a number with a unit.
fn duration(text: &str) -> Result<Duration, String> {
    let complaint = || format!("'{text}' is no duration: write it like 5, 1.5, 10s or 2m");
    let duration = match text.parse::<f64>() {
        Ok(seconds) if seconds > LONGEST.as_secs_f64() => LONGEST + Duration::from_secs(1),
        Ok(seconds) => Duration::try_from_secs_f64(seconds).map_err(|_| complaint())?,
        Err(_) => humantime::parse_duration(text).map_err(|_| complaint())?,
    };
    if duration > LONGEST {
        return Err(format!("'{text}' is more than a hundred years: write less"));
    }
    Ok(duration)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_with_and_without_a_unit() {
        for (text, millis) in [
            ("5", 5000),
            ("1.5", 1500),
            ("10s", 10_000),
            ("0", 0),
            ("200ms", 200),
            ("1m30s", 90_000),
            ("100years", 3_155_760_000_000),
        ] {
            assert_eq!(duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for text in ["", "-1", "x", "nan", "-inf", "5 parsecs"] {
            assert!(duration(text).expect_err(text).contains("is no duration: write it like"), "{text}");
        }
        for text in ["1e10", "1e99", "inf", "101years", "18446744073709551615"] {
            assert!(duration(text).expect_err(text).contains("more than a hundred years: write less"), "{text}");
        }
    }

    #[test]
    fn the_definition_is_consistent() {
        Cli::command().debug_assert();
    }
}
