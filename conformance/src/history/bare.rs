//! A holder without a guard, which renews nothing while it works, and then writes without a look at any clock: as a request that was under
//! way when the lock was lost. Only the service can refuse it.

use std::{
    io,
    time::{Duration, Instant},
};

use tenure_core::{
    Contender, ContenderId, Coordinator, DataKey, Edit, EditId, Error, ErrorKind, Expect, Fence, FencedStore,
    FencingToken, Mode, Outcome, QueueName, Result, Session, Snapshot, Wake,
};
use tokio::time::timeout;

use super::{
    Answer,
    number::{KEY, Told, note, number},
};

/// A session of its own, whose entry is the first.
pub(super) struct Bare {
    session: Box<dyn Session>,
    name: QueueName,
    entry: Contender,
    /// As the backend counts.
    number: FencingToken,
    pub(super) token: FencingToken,
    base: u64,
}

impl Bare {
    /// `None` if it does not become the first in time.
    pub(super) async fn enter(coordinator: &Coordinator, name: &str, patience: Duration) -> Result<Option<Self>> {
        let (ttl, base) = (coordinator.options().ttl, coordinator.options().token_base);
        let (name, id, end) = (QueueName::new(name)?, ContenderId::random(Mode::Write), Instant::now() + patience);
        let session = coordinator.backend().open(ttl).await?.session;
        let entered = session.enter(&name, &id, b"").await?;
        let (number, token) = (entered.token, FencingToken::new(entered.token.get() + base));
        loop {
            session.keep_alive().await?;
            let Snapshot { queue, revision } = session.list(&name).await?;
            let Some(ahead) = queue.iter().position(|entry| entry.id == id) else { return Err(gone(&name)) };
            if ahead == 0 {
                let entry = queue[0].clone();
                return Ok(Some(Self { session, name, entry, number, token, base }));
            }
            if Instant::now() >= end {
                session.close().await?;
                return Ok(None);
            }
            let seen = Snapshot { queue, revision };
            let _ = timeout(ttl / 4, session.wait(&name, &seen, Wake::Gone(&seen.queue[ahead - 1]))).await;
        }
    }

    fn store(&self) -> io::Result<&dyn FencedStore> {
        self.session.fenced().ok_or_else(|| io::Error::other("this backend keeps no data"))
    }

    /// A failure of the library is the inner result.
    pub(super) async fn read(&self) -> io::Result<Result<Told>> {
        let stored = match self.store()?.get(&self.name, &key()?).await {
            Ok(datum) => datum.map(|datum| datum.stored),
            Err(error) => return Ok(Err(error)),
        };
        let value = stored.as_ref().map_or(Ok(0), number)?;
        let stored = stored.map(|stored| note(stored.version, stored.token, value));
        Ok(Ok(Told { answer: Answer::Accepted(value), stored }))
    }

    pub(super) async fn write(&self, value: u64) -> io::Result<Result<Told>> {
        let fence = Fence { queue: &self.name, entry: &self.entry, token: self.number, raised: self.token };
        let (key, text, id) = (key()?, value.to_string(), EditId::random());
        let edit = Edit { key: &key, expect: Expect::Anything, value: Some(text.as_bytes()), id: &id };
        Ok(match self.store()?.edit(fence, edit).await {
            Ok(Outcome::Done(Some(version))) => {
                Ok(Told { answer: Answer::Accepted(value), stored: Some(note(version, self.token, value)) })
            }
            Ok(Outcome::Fenced { first, now }) => {
                let first = first.map(|(_, token)| FencingToken::new(token.get() + self.base));
                let winner = first.or(now.map(|now| now.stored.token)).unwrap_or(FencingToken::new(0));
                Ok(Answer::Refused(winner).into())
            }
            Ok(Outcome::Refused(error)) | Err(error) => Err(error),
            Ok(other) => Err(Error::new(ErrorKind::Unexpected, format!("a put was answered by {other:?}"))),
        })
    }

    /// If that fails, the session expires.
    pub(super) async fn end(self) {
        let _ = self.session.close().await;
    }
}

fn key() -> io::Result<DataKey> {
    DataKey::new(KEY).map_err(io::Error::other)
}

fn gone(name: &QueueName) -> Error {
    Error::new(ErrorKind::SessionLost, format!("the session was lost before its turn in '{name}' had come"))
}
