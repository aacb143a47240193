//! A backend that does what the contract asks, and nothing more: it keeps no data behind a fence.

use std::{sync::Arc, time::Duration};

use tenure_core::{
    Backend, Clock, Contender, ContenderId, Entered, Moment, Opened, QueueName, Record, Result, Session, Snapshot,
    Strength, Version, Wake, async_trait,
};

/// The decorated backend.
#[derive(Debug)]
pub struct Bare(Arc<dyn Backend>);

#[derive(Debug)]
struct BareSession(Box<dyn Session>);

impl Bare {
    /// All of `inner` but its data.
    pub fn new(inner: impl Backend) -> Self {
        Self(Arc::new(inner))
    }
}

#[async_trait]
impl Backend for Bare {
    fn strength(&self) -> Strength {
        self.0.strength()
    }

    fn clock(&self) -> &Clock {
        self.0.clock()
    }

    async fn open(&self, ttl: Duration) -> Result<Opened> {
        let opened = self.0.open(ttl).await?;
        Ok(Opened { session: Box::new(BareSession(opened.session)), ..opened })
    }
}

#[async_trait]
impl Session for BareSession {
    async fn keep_alive(&self) -> Result<Moment> {
        self.0.keep_alive().await
    }

    async fn enter(&self, queue: &QueueName, id: &ContenderId, value: &[u8]) -> Result<Entered> {
        self.0.enter(queue, id, value).await
    }

    async fn list(&self, queue: &QueueName) -> Result<Snapshot> {
        self.0.list(queue).await
    }

    async fn list_now(&self, queue: &QueueName) -> Result<Snapshot> {
        self.0.list_now(queue).await
    }

    async fn wait(&self, queue: &QueueName, seen: &Snapshot, wake: Wake<'_>) -> Result<()> {
        self.0.wait(queue, seen, wake).await
    }

    async fn leave(&self, queue: &QueueName, id: &ContenderId) -> Result<()> {
        self.0.leave(queue, id).await
    }

    async fn read(&self, queue: &QueueName, who: &Contender) -> Result<Option<Record>> {
        self.0.read(queue, who).await
    }

    async fn write(&self, queue: &QueueName, id: &ContenderId, version: Version, value: &[u8]) -> Result<Version> {
        self.0.write(queue, id, version, value).await
    }

    async fn settle_token_base(&self, base: u64) -> Result<u64> {
        self.0.settle_token_base(base).await
    }

    async fn close(&self) -> Result<()> {
        self.0.close().await
    }
}
