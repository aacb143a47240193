//! What SQLite and the operating system say, as one sentence that says what to do.

use std::{io, path::Path};

use rusqlite::{ErrorCode, ffi};
use tenure_core::{Error, ErrorKind};

/// Why a transaction was given up.
#[derive(Debug)]
pub(crate) enum Failure {
    /// SQLite could not do it; [`Failure::on`] finds the words.
    Sql(rusqlite::Error),
    /// We have the words already.
    Told(Error),
}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sql(error)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Told(error)
    }
}

impl Failure {
    /// Whether another connection was in the way: worth another try at once.
    pub(crate) fn is_busy(&self) -> bool {
        let Self::Sql(error) = self else { return false };
        matches!(
            error.sqlite_error_code(),
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::FileLockingProtocolFailed)
        )
    }

    /// The sentence for the file it happened on.
    pub(crate) fn on(self, path: &Path) -> Error {
        match self {
            Self::Told(error) => error,
            Self::Sql(error) => {
                let (kind, message) = sentence(&error, &path.display().to_string());
                Error::new(kind, message).with_source(error)
            }
        }
    }
}

fn sentence(error: &rusqlite::Error, path: &str) -> (ErrorKind, String) {
    let extended = error.sqlite_extended_error_code();
    let full = format!("cannot write to {path}: the disk is full; make room on it");
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::FileLockingProtocolFailed) => {
            (ErrorKind::Unavailable, format!("cannot write to {path}: another process is writing to it for too long"))
        }
        Some(ErrorCode::DiskFull) => (ErrorKind::Unavailable, full),
        // The shared-memory file beside the database could not grow.
        Some(ErrorCode::SystemIoFailure) if extended == Some(ffi::SQLITE_IOERR_SHMSIZE) => {
            (ErrorKind::Unavailable, full)
        }
        Some(ErrorCode::SystemIoFailure | ErrorCode::OutOfMemory | ErrorCode::CannotOpen) => {
            (ErrorKind::Unavailable, format!("cannot use {path}: the operating system reports an error"))
        }
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => (
            ErrorKind::Denied,
            format!("{path} may only be read: make it and its directory writable, or write another path"),
        ),
        Some(ErrorCode::NotADatabase) => {
            (ErrorKind::Config, format!("{path} is no SQLite database: write the path of a new file"))
        }
        Some(ErrorCode::DatabaseCorrupt) => (
            ErrorKind::Unexpected,
            format!(
                "{path} is damaged: stop its users, move it away, and start anew with a token_base above the highest token"
            ),
        ),
        _ => (ErrorKind::Unexpected, format!("SQLite cannot do what was asked of {path}")),
    }
}

/// The sentence for something that the operating system refused.
pub(crate) fn refused(doing: &str, path: &Path, error: io::Error) -> Error {
    let path = path.display();
    let (kind, message) = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            (ErrorKind::Unavailable, format!("cannot {doing} {path}: the disk is full; make room on it"))
        }
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => (
            ErrorKind::Denied,
            format!("cannot {doing} {path}: make its directory writable for this user, or write another path"),
        ),
        io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists => {
            (ErrorKind::Config, format!("cannot {doing} {path}: a part of the path is a file, write another path"))
        }
        _ => (ErrorKind::Unavailable, format!("cannot {doing} {path}")),
    };
    Error::new(kind, message).with_source(error)
}

pub(crate) fn config(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Config, message)
}

pub(crate) fn session_over() -> Error {
    Error::new(ErrorKind::SessionLost, "the session is over: its time has passed, or it was closed")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(code: i32) -> Error {
        Failure::from(rusqlite::Error::SqliteFailure(ffi::Error::new(code), None)).on(Path::new("/x.db"))
    }

    #[test]
    fn every_failure_of_sqlite_has_a_kind_and_a_sentence() {
        for (code, kind, says) in [
            (ffi::SQLITE_BUSY, ErrorKind::Unavailable, "another process"),
            (ffi::SQLITE_BUSY_SNAPSHOT, ErrorKind::Unavailable, "another process"),
            (ffi::SQLITE_LOCKED, ErrorKind::Unavailable, "another process"),
            (ffi::SQLITE_FULL, ErrorKind::Unavailable, "the disk is full"),
            (ffi::SQLITE_IOERR_SHMSIZE, ErrorKind::Unavailable, "the disk is full"),
            (ffi::SQLITE_IOERR_FSYNC, ErrorKind::Unavailable, "operating system"),
            (ffi::SQLITE_READONLY, ErrorKind::Denied, "writable"),
            (ffi::SQLITE_NOTADB, ErrorKind::Config, "no SQLite database"),
            (ffi::SQLITE_CORRUPT, ErrorKind::Unexpected, "damaged"),
            (ffi::SQLITE_CONSTRAINT, ErrorKind::Unexpected, "/x.db"),
        ] {
            let error = told(code);
            assert_eq!(error.kind(), kind, "{error}");
            assert!(error.to_string().contains(says), "{error}");
        }
    }
}
