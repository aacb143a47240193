//! What can go wrong, sorted by what the caller can do about it.

use std::{error::Error as StdError, fmt};

use crate::{keeper::LossReason, token::FencingToken};

/// Shorthand for a result with Tenure's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What a caller can do about an [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Try again: network, overload, a change of leader, a timeout. The request may or may not have taken effect.
    Unavailable,
    /// The session is over: what was bound to it is gone, or soon will be.
    SessionLost,
    /// Credentials or permissions.
    Denied,
    /// What the user wrote cannot work; the message says what to write.
    Config,
    /// This backend cannot do that.
    Unsupported,
    /// The service has refused a write of somebody who is not, or not any more, the holder: it has not happened, and will not.
    /// [`Error::winner`] tells who may write, or else who has written since, if that is known.
    Fenced,
    /// A write that may or may not have taken effect, and is not repeated because that could do it twice. The message says how to find out.
    Unknown,
    /// A reply that the contract rules out: a bug, here or there.
    Unexpected,
}

/// A failure: a kind to decide on, a sentence to read, a source to dig in.
///
/// Contention and loss are no errors: the first is an `Option`, the second an event of the guard.
pub struct Error(Box<Inner>);

struct Inner {
    kind: ErrorKind,
    message: String,
    source: Option<Box<dyn StdError + Send + Sync>>,
    winner: Option<FencingToken>,
    loss: LossReason,
}

impl Error {
    /// An error whose `message` says what failed, on which name, and what to do; lower case, without a full stop.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        let (message, loss) = (message.into(), LossReason::SessionEnded);
        Self(Box::new(Inner { kind, message, source: None, winner: None, loss }))
    }

    /// Attaches the cause. Its text must not be repeated in the message.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.0.source = Some(source.into());
        self
    }

    /// Says, for an error of the kind `SessionLost`, why that is, if a backend knows more than that the session has ended.
    #[must_use]
    pub fn with_loss(mut self, reason: LossReason) -> Self {
        self.0.loss = reason;
        self
    }

    /// What everything that is bound to the session is lost by, if the error is `SessionLost`.
    pub fn loss(&self) -> LossReason {
        self.0.loss
    }

    /// Names the holder that a refused write lost to.
    #[must_use]
    pub(crate) fn with_winner(mut self, winner: Option<FencingToken>) -> Self {
        self.0.winner = winner;
        self
    }

    /// The token of who holds the lock by now, if the error is `Fenced` and somebody does.
    pub fn winner(&self) -> Option<FencingToken> {
        self.0.winner
    }

    /// What the caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Whether the same call may succeed later without anybody changing anything.
    pub fn is_retryable(&self) -> bool {
        self.0.kind == ErrorKind::Unavailable
    }

    /// The message and those of all causes, joined for people: `cannot open x: disk full`.
    pub fn report(&self) -> String {
        let mut text = self.to_string();
        let mut cause = StdError::source(self);
        while let Some(error) = cause {
            text.push_str(": ");
            text.push_str(&error.to_string());
            cause = error.source();
        }
        text
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("Error");
        out.field("kind", &self.0.kind).field("message", &self.0.message);
        if let Some(source) = &self.0.source {
            out.field("source", source);
        }
        out.finish()
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source.as_deref().map(|source| source as _)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_joins_all_causes_and_only_unavailable_is_retryable() {
        let error =
            Error::new(ErrorKind::Unavailable, "cannot reach it").with_source(std::io::Error::other("no route"));
        assert_eq!(error.report(), "cannot reach it: no route");
        assert_eq!(error.to_string(), "cannot reach it");
        assert!(error.is_retryable());
        assert!(!Error::new(ErrorKind::SessionLost, "gone").is_retryable());
        assert_eq!(size_of::<Error>(), size_of::<usize>());
    }
}
