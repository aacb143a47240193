//! Fences at the resource: they refuse a holder whose lock is over, however long it was paused before its write arrives.
//!
//! Whoever passes one of these fences with a token keeps everybody with a lower one out from then on. **They protect what goes through
//! them**, reads as well as writes: a read either raises the fence, or remembers the version that the write then compares; with a fence on
//! writes alone, an older holder's late write slips in between a newer holder's read and its write, and is lost.
//!
//! | resource | module, feature | a read | what it costs |
//! |---|---|---|---|
//! | Postgres | [`postgres`] (tokio-postgres); any language: [`SQL`] | raises the fence | no round trip, if it is sent with the write |
//! | Postgres | [`sqlx`] | raises the fence | a round trip in each transaction |
//! | HTTP service | [`http`] | raises the fence | one write to disk for each new holder |
//! | object store | [`object`], feature `object-store` | remembers the version | a read before a write |
//! | local file | [`file`](mod@file) | raises the fence | one write to disk for each new holder |
//!
//! # What the token must be
//! The fence knows a resource by its name and holders by their numbers, nothing more. So for one resource all tokens have to come from
//! **one lock**, that is one name in one namespace of one service: the number of another name's lock says nothing here, and one that is too
//! high keeps the right holders out. A waiter has no token before it is granted. After the lock's service was restored from a backup, or
//! replaced, its numbers begin again below the marks and the fences refuse everybody: set `token_base` above the highest mark.
//!
//! ```
//! use tenure_core::FencingToken;
//! use tenure_fence::file::FencedFile;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! let file = FencedFile::new(folder.path().join("total"));
//! let (old, new) = (FencingToken::new(7), FencingToken::new(8)); // `guard.token()`
//!
//! file.read(old)?;
//! file.read(new)?;
//! file.write(new, b"2")?;
//! let fenced = file.write(old, b"1").unwrap_err().fenced().expect("it is too old");
//! assert_eq!(fenced.winner, new);
//! # Ok(())
//! # }
//! ```

use std::{error::Error as StdError, fmt};

use tenure_core::{Error, ErrorKind, FencingToken};

pub mod file;
#[cfg(feature = "http")]
pub mod http;
#[cfg(feature = "object-store")]
pub mod object;
#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(feature = "sqlx")]
pub mod sqlx;

/// What is installed in a Postgres database once: the schema `tenure` with the function `tenure.fence(resource, token)`, for programs in
/// any language. Installing it again is harmless. The text begins with what it guarantees and with the rights to grant.
pub const SQL: &str = include_str!("../sql/tenure_fence.sql");

/// The SQLSTATE of a refusal by [`SQL`]. The winning token is the DETAIL of the error.
pub const SQLSTATE: &str = "TF001";

/// A holder with a higher token has been at the resource: ours is over, and nothing was done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fenced {
    /// Where.
    pub resource: String,
    /// Ours.
    pub token: FencingToken,
    /// The highest one seen there.
    pub winner: FencingToken,
}

impl fmt::Display for Fenced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { resource, token, winner } = self;
        write!(f, "token {token} is too old for '{resource}': a holder with token {winner} has been there")
    }
}

impl StdError for Fenced {}

impl From<Fenced> for Error {
    fn from(fenced: Fenced) -> Self {
        Self::new(ErrorKind::SessionLost, fenced.to_string())
    }
}

/// Why nothing was done: the fence refused, or something failed.
#[derive(Debug)]
pub enum Refusal<E> {
    /// Stop this work: somebody else does it now.
    Fenced(Fenced),
    /// What the resource, or the way to it, says.
    Failed(E),
}

impl<E> Refusal<E> {
    /// What the fence says, if it was the fence.
    pub fn fenced(self) -> Option<Fenced> {
        match self {
            Self::Fenced(fenced) => Some(fenced),
            Self::Failed(_) => None,
        }
    }
}

impl<E> From<E> for Refusal<E> {
    fn from(error: E) -> Self {
        Self::Failed(error)
    }
}

impl<E: fmt::Display> fmt::Display for Refusal<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fenced(fenced) => fenced.fmt(f),
            Self::Failed(error) => error.fmt(f),
        }
    }
}

impl<E: StdError + 'static> StdError for Refusal<E> {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Self::Fenced(_) => None,
            Self::Failed(error) => error.source(),
        }
    }
}
