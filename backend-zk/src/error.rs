//! What ZooKeeper, the way to it and TLS say, as one sentence that says what to do.

use std::time::Duration;

use tenure_core::{Error, ErrorKind};

/// A definite answer of a server: what was asked has not happened, and will not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    NoNode,
    NodeExists,
    BadVersion,
    NoRights,
    /// Nodes that only their creator may use were asked for, by nobody in particular.
    NoLogin,
    NoRoom,
    Overloaded,
    Other(String),
}

/// Why a request came to nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    Refused(Refusal),
    /// The session is over.
    Expired,
    /// The servers do not let us in.
    NoLogin,
    /// The connection is of no use any more, and what was asked may or may not happen.
    Broken(String),
}

/// What a failure is put down to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Blame {
    /// Every server would say the same.
    Request,
    /// Another server may do better.
    Server,
}

/// Why one server could not be used.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) kind: ErrorKind,
    pub(crate) blame: Blame,
    message: String,
    cause: Option<String>,
}

impl Failure {
    pub(crate) fn new(kind: ErrorKind, blame: Blame, message: impl Into<String>) -> Self {
        Self { kind, blame, message: message.into(), cause: None }
    }

    pub(crate) fn server(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Unavailable, Blame::Server, message)
    }

    /// The server at `host` has not answered in time: whatever was asked of it may still happen.
    pub(crate) fn silent(host: &str, limit: Duration) -> Self {
        Self::server(format!("ZooKeeper at {host} did not answer within {} ms", limit.as_millis()))
    }

    /// The session is over, as a server says.
    pub(crate) fn expired() -> Self {
        Self::new(ErrorKind::SessionLost, Blame::Request, "the session is over: ZooKeeper has ended it")
    }

    /// What a server answers while a session is opened, or taken up again.
    pub(crate) fn of(fault: Fault, host: &str, path: &str) -> Self {
        let error = match fault {
            Fault::Broken(why) => return Self::broken(host, &why),
            Fault::Expired => return Self::expired(),
            Fault::NoLogin => {
                let message = format!("ZooKeeper at {host} refuses user and password: write those of a user it knows");
                return Self::new(ErrorKind::Denied, Blame::Request, message);
            }
            Fault::Refused(refusal) => refusal.into_error(path),
        };
        Self::new(error.kind(), Blame::Request, error.to_string())
    }

    /// The connection to the server at `host` has come to its end.
    pub(crate) fn broken(host: &str, why: &str) -> Self {
        Self::server(format!("the connection to ZooKeeper at {host} broke")).because(why)
    }

    pub(crate) fn because(self, cause: impl Into<String>) -> Self {
        Self { cause: Some(cause.into()), ..self }
    }

    pub(crate) fn into_error(self) -> Error {
        let error = Error::new(self.kind, self.message);
        match self.cause {
            Some(cause) => error.with_source(cause),
            None => error,
        }
    }

    /// As [`Failure::into_error`] for a session that is open: one server with a bad certificate, or with a grant of its own, does not make
    /// the settings wrong.
    pub(crate) fn in_session(mut self) -> Error {
        if self.blame != Blame::Request || self.kind == ErrorKind::Config {
            self.kind = ErrorKind::Unavailable;
        }
        self.into_error()
    }
}

impl Refusal {
    /// As an error, where nothing better can be made of it.
    pub(crate) fn into_error(self, path: &str) -> Error {
        let (kind, message) = match self {
            Self::NoNode => (ErrorKind::Unavailable, format!("the node {path} of ZooKeeper was removed meanwhile")),
            Self::NodeExists => return used_up(path),
            Self::BadVersion => (ErrorKind::Unavailable, format!("the node {path} of ZooKeeper was changed meanwhile")),
            Self::NoRights => (
                ErrorKind::Denied,
                format!(
                    "ZooKeeper grants no right to {path}: write user and password of one who has it, or change its ACL"
                ),
            ),
            Self::NoLogin => (
                ErrorKind::Denied,
                "ZooKeeper takes acl = creator only with a login: write user and password".to_owned(),
            ),
            Self::NoRoom => (
                ErrorKind::Unavailable,
                format!("the quota of ZooKeeper for {path} is used up: raise it with setquota"),
            ),
            Self::Overloaded => (ErrorKind::Unavailable, "ZooKeeper is overloaded".to_owned()),
            Self::Other(why) => {
                let error = unexpected(format!("ZooKeeper does not do what was asked of it for {path}"));
                return error.with_source(why);
            }
        };
        Error::new(kind, message)
    }
}

/// Sorts a definite answer from what is none.
pub(crate) fn settled<T>(answer: Result<T, Fault>) -> Result<Result<T, Refusal>, Fault> {
    match answer {
        Ok(answer) => Ok(Ok(answer)),
        Err(Fault::Refused(refusal)) => Ok(Err(refusal)),
        Err(fault) => Err(fault),
    }
}

/// That something is missing is an answer too.
pub(crate) fn if_there<T>(answer: Result<T, Fault>) -> Result<Option<T>, Fault> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(Fault::Refused(Refusal::NoNode)) => Ok(None),
        Err(fault) => Err(fault),
    }
}

pub(crate) fn lost(why: impl Into<String>) -> Error {
    Error::new(ErrorKind::SessionLost, why)
}

/// There is no number any more by which an entry of this queue would come after all others.
pub(crate) fn used_up(queue: &str) -> Error {
    unexpected(format!(
        "the counter of the node {queue} of ZooKeeper is used up: remove the node once nobody is in it, and enter again; tokens go on rising"
    ))
}

pub(crate) fn config(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Config, message)
}

pub(crate) fn unexpected(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Unexpected, message)
}
