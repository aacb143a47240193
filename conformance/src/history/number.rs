//! The number that workers add to, wherever it is.

use std::{
    collections::BTreeMap,
    io::{self, Error},
};

use tenure_core::{Config, Drivers, ErrorKind, FencingToken, LockGuard, Stored, Version};

use super::{Answer, Event, Place, Request, What, store::Client};

/// What it is called in a backend.
pub(super) const KEY: &str = "number";

/// A worker's way to the number.
#[derive(Debug)]
pub(super) enum Number {
    Store(Client),
    Backend,
}

/// What came of a read or write, with a note of what is known to be stored.
pub(super) struct Told {
    pub(super) answer: Answer,
    pub(super) stored: Option<What>,
}

impl From<Answer> for Told {
    fn from(answer: Answer) -> Self {
        Self { answer, stored: None }
    }
}

impl Number {
    pub(super) async fn at(place: Place) -> io::Result<Self> {
        match place {
            Place::Store(address) => Client::connect(address).await.map(Self::Store),
            Place::Backend => Ok(Self::Backend),
        }
    }

    /// A failure of the library is the inner result.
    pub(super) async fn read(
        &mut self,
        token: FencingToken,
        guard: Option<&LockGuard>,
    ) -> io::Result<tenure_core::Result<Told>> {
        let guard = match self {
            Self::Store(client) => return Ok(Ok(client.read(token).await?.into())),
            Self::Backend => guard.ok_or_else(no_guard)?,
        };
        let stored = match guard.fenced().map_err(Error::other)?.get(KEY).await {
            Ok(stored) => stored,
            Err(error) => return Ok(refused(error)),
        };
        let value = stored.as_ref().map_or(Ok(0), number)?;
        let stored = stored.map(|stored| note(stored.version, stored.token, value));
        Ok(Ok(Told { answer: Answer::Accepted(value), stored }))
    }

    /// Without asking for a version: the fence alone has to see to it that nothing is lost.
    pub(super) async fn write(
        &mut self,
        token: FencingToken,
        guard: Option<&LockGuard>,
        value: u64,
    ) -> io::Result<tenure_core::Result<Told>> {
        let guard = match self {
            Self::Store(client) => return Ok(Ok(client.write(token, value).await?.into())),
            Self::Backend => guard.ok_or_else(no_guard)?,
        };
        let written = guard.fenced().map_err(Error::other)?.put(KEY, value.to_string().as_bytes()).await;
        Ok(match written {
            Ok(version) => {
                Ok(Told { answer: Answer::Accepted(value), stored: Some(note(version, guard.token(), value)) })
            }
            Err(error) => refused(error),
        })
    }
}

fn no_guard() -> Error {
    Error::other("without a guard nothing can be written in a backend")
}

fn refused(error: tenure_core::Error) -> tenure_core::Result<Told> {
    match error.kind() {
        ErrorKind::Fenced | ErrorKind::SessionLost => {
            Ok(Answer::Refused(error.winner().unwrap_or(FencingToken::new(0))).into())
        }
        _ => Err(error),
    }
}

pub(super) fn note(version: Version, token: FencingToken, value: u64) -> What {
    What::Stored { version: version.0, token, value }
}

pub(super) fn number(stored: &Stored) -> io::Result<u64> {
    String::from_utf8_lossy(&stored.value).parse().map_err(Error::other)
}

/// All writes that are known to have been accepted, in the order of their versions, then those that were refused; and the number now.
///
/// Each worker reads before it writes: so a write that was accepted, and whose answer nobody lived to see, was read by the next one, unless an
/// update was lost; and then the numbers do not rise by one.
pub(super) async fn log(events: &[Event], drivers: &Drivers, url: &str, name: &str) -> io::Result<(Vec<Request>, u64)> {
    let config: Config = url.parse().map_err(Error::other)?;
    let coordinator = drivers.connect(&config).await.map_err(Error::other)?;
    let last = coordinator.data(name).map_err(Error::other)?.get(KEY).await.map_err(Error::other)?;
    let value = last.as_ref().map_or(Ok(0), number)?;
    let mut accepted = BTreeMap::new();
    let mut refused = Vec::new();
    for event in events {
        match event.what {
            What::Stored { version, token, value } => {
                let write = Request { at: event.at, token, write: Some(value), answer: Answer::Accepted(value) };
                let known = accepted.insert(version, write);
                if known.is_some_and(|known| (known.token, known.write) != (token, Some(value))) {
                    return Err(Error::other(format!("version {version} is two writes")));
                }
            }
            What::Wrote { token, answer: answer @ Answer::Refused(_) } => {
                refused.push(Request { at: event.at, token, write: Some(0), answer });
            }
            _ => {}
        }
    }
    if let Some(last) = last {
        let write = Request { at: 0, token: last.token, write: Some(value), answer: Answer::Accepted(value) };
        accepted.entry(last.version.0).or_insert(write);
    }
    Ok((accepted.into_values().chain(refused).collect(), value))
}
