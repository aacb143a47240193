//! What a coordination service does so that data in it is safe from a holder who has lost the lock and does not know it: each write is
//! checked by the service itself, in the transaction that makes it.
//!
//! The data of a name is no part of its queue. It may be written by the first entry of that queue and by nobody else; it outlives entries
//! and sessions, and anybody may read it.

use std::{fmt, sync::Arc};

use async_trait::async_trait;

pub use self::holder::Fenced;
use crate::{
    error::{Error, ErrorKind, Result},
    keeper::Keeper,
    queue::{Contender, ContenderId, QueueName, Version, checked, escaped, random_hex},
    token::FencingToken,
};

mod holder;

/// What a datum is called within its name; the rules are those of [`QueueName`].
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DataKey(Arc<str>);

impl DataKey {
    /// Checks a key.
    ///
    /// # Errors
    /// `Config` if it is empty, longer than 512 bytes, or has a NUL.
    pub fn new(key: &str) -> Result<Self> {
        checked("key", key).map(Self)
    }

    /// A key of ours: no user's key is equal to it, since it has a NUL.
    pub(crate) fn reserved(what: &str) -> Self {
        Self(format!("\0{what}").into())
    }

    /// The key as it was given.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The key as one plain part of a path: see [`QueueName::escaped`].
    pub fn escaped(&self) -> String {
        escaped(&self.0)
    }
}

impl fmt::Display for DataKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.trim_start_matches('\0'))
    }
}

impl fmt::Debug for DataKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", &*self.0)
    }
}

/// A datum as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// At most [`MAX_VALUE`](crate::MAX_VALUE) bytes.
    pub value: Vec<u8>,
    /// Of this write. A version of a key is never given again, not even after the key was deleted.
    pub version: Version,
    /// Of the holder that wrote it.
    pub token: FencingToken,
}

/// Names one edit, so that a repeat of it can be told from another one with the same value.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct EditId(Arc<str>);

impl EditId {
    /// A new id that nobody else has: 32 lower-case hexadecimal digits.
    pub fn random() -> Self {
        Self(random_hex().into())
    }

    /// The id as a backend read it.
    pub fn from_backend(id: impl Into<Arc<str>>) -> Self {
        Self(id.into())
    }

    /// The id as a backend stores it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// All that a backend keeps of a datum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Datum {
    /// What users see.
    pub stored: Stored,
    /// Which edit wrote it.
    pub edit: EditId,
}

impl Datum {
    /// For services that store bytes: a line that tells token and edit, then the value as it is.
    pub fn to_bytes(token: FencingToken, edit: &EditId, value: &[u8]) -> Vec<u8> {
        let mut bytes = format!("tenure {token} {}\n", edit.as_str()).into_bytes();
        bytes.extend_from_slice(value);
        bytes
    }

    /// The reverse; the version is told by the service.
    ///
    /// # Errors
    /// `Unexpected` if something else wrote it.
    pub fn from_bytes(bytes: &[u8], version: Version) -> Result<Self> {
        let parse = || {
            let end = bytes.iter().position(|byte| *byte == b'\n')?;
            let (token, edit) = str::from_utf8(&bytes[..end]).ok()?.strip_prefix("tenure ")?.split_once(' ')?;
            let stored = Stored { value: bytes[end + 1..].to_vec(), version, token: token.parse().ok()? };
            Some(Self { stored, edit: EditId::from_backend(edit) })
        };
        parse().ok_or_else(|| Error::new(ErrorKind::Unexpected, "a datum was not written by tenure: write it anew"))
    }
}

/// What an edit asks of the datum as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// Nothing. Such an edit is never repeated unless it is certain that it has not taken effect.
    Anything,
    /// There is none.
    Absent,
    /// It has this version.
    Version(Version),
}

/// One change of a datum.
#[derive(Clone, Copy, Debug)]
pub struct Edit<'a> {
    /// Which one.
    pub key: &'a DataKey,
    /// What it asks of the datum.
    pub expect: Expect,
    /// What it is to be, or `None` to delete it.
    pub value: Option<&'a [u8]>,
    /// The same for all repeats.
    pub id: &'a EditId,
}

/// Whose turn it has to be for an edit to take effect.
#[derive(Clone, Copy, Debug)]
pub struct Fence<'a> {
    /// The name whose data it is.
    pub queue: &'a QueueName,
    /// The writer's entry, as a snapshot of that queue showed it.
    pub entry: &'a Contender,
    /// The entry's number, as the backend counts.
    pub token: FencingToken,
    /// The same as its holder knows it, with the `token_base`: to be stored beside the value.
    pub raised: FencingToken,
}

/// How the service has answered an edit.
#[derive(Debug)]
pub enum Outcome {
    /// It has taken effect; the version of what was written, if it was no deletion. Deleting what is not there takes effect, unless a
    /// version was asked for.
    Done(Option<Version>),
    /// The datum is not as expected: this is what it is. The edit has not taken effect.
    Conflict(Option<Datum>),
    /// The writer's entry has gone, or is not the first. The edit has not taken effect.
    Fenced {
        /// Who is first, with its number as the backend counts.
        first: Option<(ContenderId, FencingToken)>,
        /// The datum, if it is there.
        now: Option<Datum>,
    },
    /// It has not taken effect and never will, for another reason.
    Refused(Error),
}

/// Data that the service guards, seen through a session.
///
/// # Contract
/// 1. *Fence.* An edit takes effect only if, in the same transaction, the writer's entry (id and token, made by this session) is there and is
///    the first of its queue. An entry that was seen to be the first stays so until it goes, so that may be remembered.
/// 2. *Whole or not at all.* Value, token and edit id are written together; versions are never used again and rise with each write of a key.
/// 3. *Freshness.* `get` sees all that was answered before it was called, whoever wrote it.
/// 4. *Once.* One call of `edit` makes one attempt, and repeats it only after the service has said that it did not take effect.
/// 5. *Given up is dead.* Once a later call (`get` or `edit`) of this session on the same key has been answered, no earlier edit that failed or was
///    dropped may take effect, however late a server gets to it.
///
/// Every call must end by itself within a time that the backend states, whatever its server does. Dropping any future is allowed.
#[async_trait]
pub trait FencedStore: Send + Sync {
    /// The datum, or `None`.
    ///
    /// # Errors
    /// As those of a [`Session`](crate::Session).
    async fn get(&self, queue: &QueueName, key: &DataKey) -> Result<Option<Datum>>;

    /// One attempt to change a datum. That the session is over is no error: then the entry has gone.
    ///
    /// # Errors
    /// `Denied`, `Config` and `Unsupported`: it has not taken effect. All others: it may have, or may yet. What is certain not to take effect
    /// for other reasons is [`Outcome::Refused`].
    async fn edit(&self, fence: Fence<'_>, edit: Edit<'_>) -> Result<Outcome>;
}

/// The data of a session's service.
pub(crate) fn store(keeper: &Keeper) -> Result<&dyn FencedStore> {
    keeper.session.fenced().ok_or_else(|| {
        let message = "this backend keeps no data behind a fence: hand the token to a resource that checks it";
        Error::new(ErrorKind::Unsupported, message)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_carry_any_value_and_what_others_wrote_is_told() {
        let (token, edit) = (FencingToken::new(7), EditId::random());
        for value in [&b""[..], b"x", b"\n", b"tenure 8 y\n", b"\0\xff\n\n"] {
            let datum = Datum::from_bytes(&Datum::to_bytes(token, &edit, value), Version(3)).expect("its own");
            let stored = Stored { value: value.to_vec(), version: Version(3), token };
            assert_eq!(datum, Datum { stored, edit: edit.clone() });
        }
        for foreign in [&b""[..], b"5", b"tenure\n", b"tenure 7\n", b"tenure x y\n", b"tenure 7 y", b"\xff 7 y\n"] {
            let error = Datum::from_bytes(foreign, Version(1)).expect_err("foreign");
            assert_eq!(error.kind(), ErrorKind::Unexpected);
        }
    }

    #[test]
    fn keys_obey_the_rules_of_names() {
        assert_eq!(DataKey::new("a/b").expect("good").escaped(), "a%2Fb");
        for (bad, says) in [("", "a key must not be empty"), ("a\0", "NUL"), (&*"x".repeat(513), "513 bytes")] {
            let error = DataKey::new(bad).expect_err("bad");
            assert!(error.kind() == ErrorKind::Config && error.to_string().contains(says), "{error}");
        }
    }
}
