//! Who has led when, and why that ended: kept beside the election, by those who lead.
//!
//! It stands among the fenced data of the election's own name, so only the leader writes it. Each term notes its beginning and its end, in
//! a task of its own: leading never waits for the first, and for the second no longer than half a second.

use std::time::SystemTime;

use serde::{Deserialize, Serialize};

pub(crate) use self::notes::Notes;
use super::{Election, run::TermEnd};
use crate::{
    error::{Error, ErrorKind, Result},
    fenced::{DataKey, Stored},
    queue::MAX_VALUE,
    token::FencingToken,
};

mod notes;

/// How many terms are kept.
const TERMS: usize = 100;
/// How much is kept of a value.
const VALUE: usize = 256;

/// One time in office, as it was noted. Times are those of wall clocks, for people only: nothing is decided by them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TermRecord {
    /// Of the leader: higher than those of all terms before.
    pub token: FencingToken,
    /// What it campaigned with: its first 256 bytes, as text.
    pub value: String,
    /// Its host.
    pub host: String,
    /// Its process.
    pub pid: u32,
    /// When it began, as RFC 3339, by the leader's clock.
    pub began: String,
    /// How it has ended; `None` while it goes on, or if it ended unseen and nobody has noted a term after it.
    #[serde(default)]
    pub end: Option<TermNote>,
}

/// How a term has ended, as far as anybody has seen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum TermNote {
    /// The leader has noted it itself, when nothing of its body was left and before it gave the leadership up.
    Noted {
        /// Why, for people.
        why: String,
        /// When, as RFC 3339, by the leader's clock.
        at: String,
    },
    /// The leader could not: it has died, or has lost its leadership. Whoever led with this token found that.
    Unseen {
        /// Of the next leader that keeps the history. It need not be the next one.
        before: FencingToken,
    },
}

impl Election {
    /// Keeps a history of the terms of this candidate beside the election: see [`Election::history`]. Give it to all candidates.
    ///
    /// At its best effort, and never in the way of leading: a term begins without waiting for it, and its end waits half a second at most. On a
    /// backend that keeps no data behind a fence nothing is noted.
    #[must_use]
    pub fn with_history(self) -> Self {
        Self { history: true, ..self }
    }

    /// The terms that were noted, the oldest first: the last 100 at most, and 64 KiB. Only candidates
    /// [with a history](Election::with_history) note theirs; those of locks and of other programs are not there. Terms that ended without a
    /// word are told as such by whoever led next.
    ///
    /// # Errors
    /// `Unsupported` if the backend keeps no data behind a fence; else as [`Election::leader`].
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn history(&self) -> Result<Vec<TermRecord>> {
        let found = self.coordinator.data(&self.name)?.get_at(&key()).await.map_err(|error| match error.kind() {
            ErrorKind::Unsupported => {
                let message =
                    "this backend keeps no data behind a fence, and so no history of an election: use etcd, zk or sqlite";
                Error::new(ErrorKind::Unsupported, message)
            }
            _ => error,
        })?;
        found.map_or(Ok(Vec::new()), |found| terms(&found))
    }
}

fn key() -> DataKey {
    DataKey::reserved("history")
}

fn terms(stored: &Stored) -> Result<Vec<TermRecord>> {
    serde_json::from_slice(&stored.value).map_err(|error| {
        let message = "what is stored is no history of an election: it will be written anew by the next leader";
        Error::new(ErrorKind::Unexpected, message).with_source(error)
    })
}

fn now() -> String {
    humantime::format_rfc3339_seconds(SystemTime::now()).to_string()
}

/// Why a term has ended, for people.
pub(crate) fn why(end: TermEnd) -> String {
    match end {
        TermEnd::Returned => "the body has returned".to_owned(),
        TermEnd::Stopped => "it was told to stop".to_owned(),
        TermEnd::Asked => "it was asked to resign".to_owned(),
        TermEnd::Unwell => "it was not well".to_owned(),
        TermEnd::Jeopardy => "it could not be renewed".to_owned(),
        TermEnd::Lost(reason) => format!("it was lost: {reason}"),
    }
}

/// The history with this term in it, as it is stored. Who comes next notes that those before have ended.
fn with(mut terms: Vec<TermRecord>, term: TermRecord) -> Vec<u8> {
    terms.retain(|other| other.token < term.token); // higher ones are of before a restore
    for other in &mut terms {
        other.end.get_or_insert(TermNote::Unseen { before: term.token });
    }
    terms.push(term);
    terms.drain(..terms.len().saturating_sub(TERMS));
    loop {
        let value = serde_json::to_vec(&terms).unwrap_or_default();
        if value.len() <= MAX_VALUE || terms.len() == 1 {
            return value;
        }
        terms.drain(..terms.len().div_ceil(10));
    }
}

fn short(value: &[u8]) -> String {
    let text = String::from_utf8_lossy(value);
    let ends = text.char_indices().map(|(at, character)| at + character.len_utf8());
    text[..ends.take_while(|end| *end <= VALUE).last().unwrap_or(0)].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn term(token: u64, value: &[u8]) -> TermRecord {
        let token = FencingToken::new(token);
        TermRecord { token, value: short(value), host: String::new(), pid: 1, began: now(), end: None }
    }

    fn read(value: &[u8]) -> Vec<TermRecord> {
        serde_json::from_slice(value).expect("its own")
    }

    #[test]
    fn it_is_bounded_whatever_the_values() {
        for value in [&b"\x01"[..], b"\xff", "\u{1F980}".as_bytes(), b"x", b""] {
            let mut terms = Vec::new();
            for token in 1..300 {
                let stored = with(terms, term(token, &value.repeat(60_000 / value.len().max(1))));
                assert!(stored.len() <= MAX_VALUE);
                terms = read(&stored);
            }
            assert!(terms.len() <= TERMS && terms.len() > 20, "{}", terms.len());
            assert_eq!(terms.last().expect("some").token.get(), 299);
        }
    }

    #[test]
    fn a_term_is_there_once_and_the_next_one_sees_that_it_has_ended() {
        let ended = |why: &str| Some(TermNote::Noted { why: why.to_owned(), at: now() });
        let one = read(&with(Vec::new(), term(5, b"a")));
        let one = read(&with(one, TermRecord { end: ended("y"), ..term(5, b"a") }));
        assert_eq!((one.len(), &one[0].end), (1, &ended("y")));
        let two = read(&with(read(&with(one, term(7, b"b"))), term(9, b"c")));
        let unseen = Some(TermNote::Unseen { before: FencingToken::new(9) });
        assert_eq!(two.into_iter().map(|term| term.end).collect::<Vec<_>>(), [ended("y"), unseen, None]);
    }
}
