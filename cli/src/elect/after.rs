//! What comes after a term.

use rustix::process::Signal;

use super::Due;
use crate::{args::Elect, outcome::Outcome, protocol::End, run::Finished};

/// Whether to go on.
#[derive(Debug)]
pub(super) enum After {
    /// No.
    Exits(Outcome),
    /// Yes.
    Campaigns { why: String, pause: Pause },
}

/// How long to wait before that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pause {
    /// Not at all.
    None,
    /// For a moment: what has failed was not the command, and may fail again at once.
    Short,
    /// Longer each time: the command may fail again at once.
    Growing,
}

impl After {
    /// Decides.
    pub(super) fn of(finished: Finished<Due>, elect: &Elect) -> Self {
        let why = why(&finished);
        let Finished { outcome, stopped, told } = finished;
        let says_more = matches!(outcome, Outcome::Completed(_) | Outcome::Lost { .. } | Outcome::Failed { .. });
        if told.is_none() && !says_more {
            return Self::Exits(outcome);
        }
        let by_itself = told.is_none() && matches!(outcome, Outcome::Completed(_));
        let pause = match outcome {
            Outcome::Failed { .. } | Outcome::Lost { .. } => Pause::Short,
            _ if by_itself => Pause::Growing,
            _ => Pause::None,
        };
        if stopped || elect.once || (by_itself && !(elect.restart && may_restart(&outcome))) {
            return Self::Exits(unless_unwell(outcome, told));
        }
        Self::Campaigns { why, pause }
    }
}

/// Why a term has ended, for people.
pub(super) fn why(finished: &Finished<Due>) -> String {
    match (&finished.outcome, finished.told) {
        (Outcome::Lost { reason, .. }, _) => format!("it was lost: {reason}"),
        (_, Some(Due::Asked)) => "it was asked to resign".to_owned(),
        (_, Some(Due::Unwell)) => "it is not well".to_owned(),
        _ if finished.stopped => "it was told to stop".to_owned(),
        (Outcome::Completed(End::Code(code)), None) => format!("the command has exited with {code}"),
        (Outcome::Completed(End::Signal(signal)), None) => format!("signal {signal} has ended the command"),
        (Outcome::NotStarted { why, .. }, None) => format!("the command {why}"),
        (Outcome::Failed { why, .. }, _) => why.clone(),
        _ => "it has ended".to_owned(),
    }
}

/// A terminal has ended it: Ctrl-C, or its own end.
fn may_restart(outcome: &Outcome) -> bool {
    let Outcome::Completed(End::Signal(signal)) = outcome else { return true };
    ![Signal::INT, Signal::QUIT, Signal::HUP].map(Signal::as_raw).contains(signal)
}

/// The work was not done: somebody has to know.
fn unless_unwell(outcome: Outcome, told: Option<Due>) -> Outcome {
    match (outcome, told) {
        (Outcome::Completed(end), Some(Due::Unwell)) => {
            Outcome::Lost { reason: "it was given up, since it is not well".to_owned(), end: Some(end) }
        }
        (outcome, _) => outcome,
    }
}
