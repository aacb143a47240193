//! What `tenure` and its watchdog say to each other: a line of JSON each, over a socket that ends when either of them does.

use std::time::Duration;

use rustix::process::WaitStatus;
use serde::{Deserialize, Serialize};

/// From `tenure` to the watchdog. Instants are times since boot, suspended time included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Order {
    /// Start the command, unless less than the grace is left. Always the first order, so there is no child without a deadline.
    Start { deadline: Duration, grace: Duration },
    /// The lock was renewed.
    Deadline(Duration),
    /// Send this signal to the command's process group.
    Signal(i32),
    /// The lock is to be given up: pass this signal on, and kill what is left at that instant.
    End { signal: i32, limit: Duration },
    /// Somebody else may hold the lock already.
    Kill,
}

/// From the watchdog to `tenure`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Report {
    /// The command runs, in this process group.
    Started { group: i32 },
    /// The command cannot be run: 126 or 127, and why.
    NotStarted { code: u8, why: String },
    /// There was no time left to start the command.
    TooLate,
    /// The new deadline has been heard of.
    Noted,
    /// The command was stopped by this signal.
    Stopped { signal: i32 },
    /// The lock was not renewed in time: the command has been told to end.
    Warned,
    /// The command has ended; its descendants may be left.
    Ended { end: End, cause: Cause },
    /// These do not die, though they were killed.
    Stuck { processes: Vec<i32> },
    /// Nothing of the command is left, but for processes that this user may not signal.
    Gone { untouchable: Vec<i32> },
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum End {
    /// It exited.
    Code(i32),
    /// A signal killed it.
    Signal(i32),
}

impl End {
    /// `None`: it has not ended, but stopped.
    pub(crate) fn of(status: WaitStatus) -> Option<Self> {
        status.exit_status().map(Self::Code).or_else(|| status.terminating_signal().map(Self::Signal))
    }
}

/// Why a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Cause {
    /// For reasons of its own, before the deadline.
    Itself,
    /// It had been told to end, since the lock was about to be lost.
    Warning,
    /// It had been told to end, since the lock was to be given up.
    Told,
    /// The lock was lost.
    Loss,
}

/// A message as it is sent.
pub(crate) fn line(message: &impl Serialize) -> Vec<u8> {
    let mut line = serde_json::to_vec(message).unwrap_or_default();
    line.push(b'\n');
    line
}
