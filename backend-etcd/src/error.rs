//! What etcd, its client and TLS say, as one sentence that says what to do.

use std::{error::Error as StdError, time::Duration};

use etcd_client::Error as ClientError;
use tenure_core::{Error, ErrorKind, LossReason};
use tonic::{Code, Status};

const FULL: &str = "the database of etcd is full: compact and defragment it, then run `etcdctl alarm disarm`";

/// What a failure is put down to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Blame {
    /// Every server would say the same.
    Request,
    /// Another server may do better.
    Server,
    /// Another server may do better, and this one only by a new connection, with a new login.
    Connection,
}

/// Why an attempt on one server failed.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) kind: ErrorKind,
    pub(crate) blame: Blame,
    message: String,
    cause: Option<String>,
    loss: LossReason,
}

impl Failure {
    fn new(kind: ErrorKind, blame: Blame, message: impl Into<String>) -> Self {
        Self { kind, blame, message: message.into(), cause: None, loss: LossReason::SessionEnded }
    }

    /// The session is over.
    fn lost(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::SessionLost, Blame::Request, message)
    }

    /// Nothing that was granted can be relied on any more.
    pub(crate) fn replaced(message: impl Into<String>) -> Self {
        Self { loss: LossReason::DataReplaced, ..Self::lost(message) }
    }

    /// Whether a server has said no: what was asked of it is done or will never be, and does not happen later.
    pub(crate) fn is_settled(&self) -> bool {
        self.blame == Blame::Request
    }

    /// Whether there is no room for what was asked.
    pub(crate) fn is_full(&self) -> bool {
        self.message == FULL
    }

    /// The server at `host` has not answered in time: whatever was asked of it may still happen.
    pub(crate) fn silent(host: &str, limit: Duration) -> Self {
        Self::new(
            ErrorKind::Unavailable,
            Blame::Connection,
            format!("etcd at {host} did not answer within {} ms", limit.as_millis()),
        )
    }

    /// A stream of the server at `host` has come to its end.
    pub(crate) fn ended(host: &str, stream: &str, why: &str) -> Self {
        let failure =
            Self::new(ErrorKind::Unavailable, Blame::Server, format!("etcd at {host} has ended the {stream}"));
        if why.is_empty() { failure } else { Self { cause: Some(why.to_owned()), ..failure } }
    }

    /// What the client library reported about the server at `host`.
    pub(crate) fn of(error: &ClientError, host: &str) -> Self {
        let chain = chain(error);
        if let Some(failure) = trust(&chain, host) {
            return failure;
        }
        match error {
            ClientError::GRpcStatus(status) => told(status, host),
            ClientError::LeaseKeepAliveError(text) if text.contains("lease not found") => session_over(),
            ClientError::InvalidUri(_) | ClientError::InvalidArgs(_) => Self::new(
                ErrorKind::Config,
                Blame::Request,
                format!("'{host}' is no address of a server: write host or host:port"),
            ),
            _ => Self::new(ErrorKind::Unavailable, Blame::Connection, format!("cannot reach etcd at {host}")),
        }
        .because(chain)
    }

    /// The last text of a chain of causes says most; those before it say "transport error".
    fn because(self, chain: Vec<String>) -> Self {
        let cause = chain.into_iter().next_back().filter(|cause| !cause.is_empty());
        Self { cause, ..self }
    }

    /// Adds what is likely the matter if a first connection is closed at once. Which end the alert of a failed handshake reaches is a matter
    /// of luck: often the connection is seen to be closed before the alert is read.
    pub(crate) fn at_first(mut self, tls: bool) -> Self {
        let closed = ["connection closed", "connection reset", "broken pipe"];
        let cause = self.cause.as_deref().unwrap_or_default().to_lowercase();
        if closed.iter().any(|text| cause.contains(text)) {
            self.message.push_str(if tls {
                "; if it asks for a certificate, write cert and key of one that it trusts and that has not expired"
            } else {
                "; if it uses TLS, write etcds:// or ca"
            });
        }
        self
    }

    pub(crate) fn into_error(self) -> Error {
        let error = Error::new(self.kind, self.message).with_loss(self.loss);
        match self.cause {
            Some(cause) => error.with_source(cause),
            None => error,
        }
    }
}

/// As [`Failure::into_error`] for a session that is open: one server with a bad certificate does not make the settings wrong.
impl From<Failure> for Error {
    fn from(mut failure: Failure) -> Self {
        if failure.blame != Blame::Request {
            failure.kind = ErrorKind::Unavailable;
        }
        failure.into_error()
    }
}

/// The texts of an error and its causes. What gRPC calls a status is told by its message: its `Display` has the metadata too.
fn chain(error: &ClientError) -> Vec<String> {
    let (first, mut cause): (String, Option<&dyn StdError>) = match error {
        ClientError::GRpcStatus(status) => (status.message().to_owned(), status.source()),
        ClientError::TransportError(transport) => (transport.to_string(), transport.source()),
        other => (other.to_string(), None),
    };
    let mut chain = vec![first];
    while let Some(error) = cause {
        chain.push(error.to_string());
        cause = error.source();
    }
    chain
}

/// What a failed handshake says about certificates.
fn trust(chain: &[String], host: &str) -> Option<Failure> {
    let text = chain.join(": ");
    let (kind, message) = if let Some((_, complaint)) = text.split_once("invalid peer certificate: ") {
        let message = if complaint.starts_with("Expired") || complaint.contains("certificate expired") {
            format!("the certificate of etcd at {host} has expired: renew it")
        } else if complaint.starts_with("NotValidForName") || complaint.contains("not valid for name") {
            format!("the certificate of etcd at {host} is made for other names: write a host that it names")
        } else {
            format!(
                "the certificate of etcd at {host} is from an authority that is not trusted: write ca = the file of its authority"
            )
        };
        (ErrorKind::Config, message)
    } else if text.contains("InvalidContentType") {
        (ErrorKind::Config, format!("etcd at {host} does not speak TLS: write etcd:// and leave out ca, cert and key"))
    } else if text.contains("tls handshake eof") {
        let message = format!(
            "etcd at {host} broke off the TLS handshake: if it does not use TLS, write etcd:// and leave out ca, cert and key"
        );
        (ErrorKind::Unavailable, message)
    } else if text.contains("fatal alert") {
        let message = format!(
            "etcd at {host} refuses our certificate: write cert and key of one that it trusts and that has not expired"
        );
        (ErrorKind::Denied, message)
    } else {
        return None;
    };
    Some(Failure::new(kind, Blame::Connection, message).because(chain.to_vec()))
}

/// What etcd itself answers. Its errors have no types on the wire, only codes that several share, so the text decides.
fn told(status: &Status, host: &str) -> Failure {
    let text = status.message();
    let says = |part: &str| text.contains(part);
    if let Some(failure) = access(status, host) {
        return failure;
    }
    let (kind, blame, message) = match status.code() {
        _ if says("lease not found") => return session_over(),
        // Until an operator has made room: what holds goes on to hold, releases work, and what enters is tried on.
        _ if says("database space exceeded") => (ErrorKind::Unavailable, Blame::Request, FULL.to_owned()),
        Code::ResourceExhausted => (ErrorKind::Unavailable, Blame::Request, format!("etcd at {host} is overloaded")),
        Code::InvalidArgument | Code::FailedPrecondition | Code::OutOfRange | Code::NotFound | Code::Unimplemented => {
            (ErrorKind::Unexpected, Blame::Request, format!("etcd at {host} does not do what was asked of it"))
        }
        Code::Unavailable if says("connect error") || says("transport error") => {
            (ErrorKind::Unavailable, Blame::Connection, format!("cannot reach etcd at {host}"))
        }
        // Timeouts, no leader, a server that stops: ambiguous, all of them, and so is a connection that broke.
        _ if text.starts_with("etcdserver:") => {
            (ErrorKind::Unavailable, Blame::Server, format!("etcd at {host} cannot serve now"))
        }
        _ => (ErrorKind::Unavailable, Blame::Connection, format!("etcd at {host} cannot serve now")),
    };
    Failure::new(kind, blame, message)
}

/// What etcd answers about who asks.
fn access(status: &Status, host: &str) -> Option<Failure> {
    let says = |part: &str| status.message().contains(part);
    if says("invalid auth token") || says("revision of auth store is old") {
        let message = format!("the login at etcd at {host} has to be renewed");
        return Some(Failure::new(ErrorKind::Unavailable, Blame::Connection, message));
    }
    let (kind, message) = if says("authentication failed") {
        (ErrorKind::Denied, format!("etcd at {host} refuses user and password: write the right ones"))
    } else if says("user name is empty") {
        (ErrorKind::Denied, format!("etcd at {host} asks who we are: write user and password"))
    } else if says("authentication is not enabled") {
        (ErrorKind::Config, format!("etcd at {host} has no users: leave out user and password"))
    } else if status.code() == Code::PermissionDenied {
        let role = "a role that may read and write the namespace as a prefix";
        (ErrorKind::Denied, format!("etcd at {host} does not allow it: grant the user {role}"))
    } else {
        return None;
    };
    Some(Failure::new(kind, Blame::Request, message))
}

fn session_over() -> Failure {
    Failure::lost("the session is over: its lease has expired, or was revoked")
}

pub(crate) fn lost(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::SessionLost, message)
}

pub(crate) fn config(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Config, message)
}

pub(crate) fn no_header() -> Failure {
    Failure::new(ErrorKind::Unexpected, Blame::Request, "etcd sent an answer without a header")
}

pub(crate) fn unexpected(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Unexpected, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(code: Code, text: &str) -> Failure {
        Failure::of(&ClientError::GRpcStatus(Status::new(code, text)), "h1:2379")
    }

    #[test]
    fn every_answer_has_a_kind_and_a_sentence() {
        use Blame::{Connection, Request, Server};
        use ErrorKind::{Config, Denied, SessionLost, Unavailable, Unexpected};
        for (code, text, kind, blame, says) in [
            (Code::NotFound, "etcdserver: requested lease not found", SessionLost, Request, "is over"),
            (Code::Unavailable, "etcdserver: request timed out", Unavailable, Server, "h1:2379"),
            (Code::Unavailable, "etcdserver: leader changed", Unavailable, Server, "cannot serve"),
            (Code::Unavailable, "etcdserver: no leader", Unavailable, Server, "cannot serve"),
            (Code::Unavailable, "tcp connect error", Unavailable, Connection, "cannot reach"),
            (Code::Unknown, "h2 protocol error", Unavailable, Connection, "h1:2379"),
            (Code::Cancelled, "Timeout expired", Unavailable, Connection, "h1:2379"),
            (Code::DeadlineExceeded, "context deadline exceeded", Unavailable, Connection, "h1:2379"),
            (
                Code::ResourceExhausted,
                "etcdserver: mvcc: database space exceeded",
                Unavailable,
                Request,
                "alarm disarm",
            ),
            (
                Code::Unknown,
                "failed to grant lease (etcdserver: mvcc: database space exceeded)",
                Unavailable,
                Request,
                "full",
            ),
            (Code::ResourceExhausted, "etcdserver: too many requests", Unavailable, Request, "overloaded"),
            (Code::Unauthenticated, "etcdserver: invalid auth token", Unavailable, Connection, "renewed"),
            (Code::InvalidArgument, "etcdserver: revision of auth store is old", Unavailable, Connection, "renewed"),
            (
                Code::InvalidArgument,
                "etcdserver: authentication failed, invalid user ID or password",
                Denied,
                Request,
                "refuses user and password",
            ),
            (Code::InvalidArgument, "etcdserver: user name is empty", Denied, Request, "write user"),
            (Code::PermissionDenied, "etcdserver: permission denied", Denied, Request, "role"),
            (Code::FailedPrecondition, "etcdserver: authentication is not enabled", Config, Request, "leave out user"),
            (Code::InvalidArgument, "etcdserver: duplicate key given in txn request", Unexpected, Request, "h1:2379"),
        ] {
            let failure = of(code, text);
            assert_eq!((failure.kind, failure.blame), (kind, blame), "{text}");
            assert!(failure.message.contains(says), "{text}: {}", failure.message);
        }
    }

    #[test]
    fn certificates_have_sentences_and_do_not_end_a_session() {
        for (text, kind, says) in [
            ("invalid peer certificate: Expired", ErrorKind::Config, "has expired"),
            ("invalid peer certificate: certificate expired: verification time ..", ErrorKind::Config, "has expired"),
            ("invalid peer certificate: UnknownIssuer", ErrorKind::Config, "write ca"),
            ("invalid peer certificate: certificate not valid for name \"h1\"", ErrorKind::Config, "other names"),
            ("received fatal alert: BadCertificate", ErrorKind::Denied, "refuses our certificate"),
            ("received corrupt message of type InvalidContentType", ErrorKind::Config, "does not speak TLS"),
        ] {
            let failure = of(Code::Unavailable, text);
            assert_eq!((failure.kind, failure.blame), (kind, Blame::Connection), "{text}");
            assert!(failure.message.contains(says), "{text}: {}", failure.message);
            assert_eq!(Error::from(failure).kind(), ErrorKind::Unavailable);
        }
    }

    #[test]
    fn a_first_connection_that_is_closed_gets_a_hint() {
        for (tls, says) in [(true, "write cert and key"), (false, "write etcds://")] {
            let failure = of(Code::Unavailable, "connection closed").at_first(tls);
            assert!(failure.message.contains(says), "{}", failure.message);
            let other = of(Code::Unavailable, "etcdserver: no leader").at_first(tls);
            assert!(!other.message.contains("write"), "{}", other.message);
        }
    }

    #[test]
    fn a_report_is_one_sentence_with_the_last_cause() {
        let report = of(Code::Unavailable, "tcp connect error").into_error().report();
        assert_eq!(report, "cannot reach etcd at h1:2379: tcp connect error");
    }
}
