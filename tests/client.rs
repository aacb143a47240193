//! A coordinator, on this machine or on a host of its own.

use std::{future::Future, time::Duration};

use tenure_conformance::netns::Host;
use tenure_core::{Config, Coordinator, LockGuard};
use tokio::time::timeout;

/// A coordinator, all of whose connections belong to its host, if it has one.
#[derive(Clone, Debug)]
pub struct Client {
    host: Option<Host>,
    coordinator: Coordinator,
}

impl Client {
    /// Connects as a user does.
    ///
    /// # Panics
    /// If that fails.
    pub async fn start(host: Option<&Host>, url: &str) -> Self {
        let config: Config = url.parse().expect("a URL");
        let connecting = async move { tenure::drivers().connect(&config).await };
        let connected = on(host, connecting).await;
        let coordinator = connected.unwrap_or_else(|error| panic!("{}", error.report()));
        Self { host: host.cloned(), coordinator }
    }

    /// Where it lives, to cut it off.
    ///
    /// # Panics
    /// If it has no host of its own.
    pub fn host(&self) -> &Host {
        self.host.as_ref().expect("it was given one")
    }

    /// Locks within a limit.
    ///
    /// # Panics
    /// If that takes longer, or fails.
    pub async fn lock(&self, name: impl Into<String>, limit: Duration) -> LockGuard {
        let (coordinator, name) = (self.coordinator.clone(), name.into());
        let locking = async move { timeout(limit, coordinator.lock(&name)).await };
        let granted = on(self.host.as_ref(), locking).await.expect("no call outlasts its limit");
        granted.unwrap_or_else(|error| panic!("an error reached the user: {}", error.report()))
    }

    /// Releases within a limit.
    ///
    /// # Panics
    /// If that takes longer, or fails.
    pub async fn release(&self, guard: LockGuard, limit: Duration) {
        let releasing = async move { timeout(limit, guard.release()).await };
        let released = on(self.host.as_ref(), releasing).await.expect("no call outlasts its limit");
        released.unwrap_or_else(|error| panic!("an error reached the user: {}", error.report()));
    }

    /// Ends its session.
    ///
    /// # Panics
    /// If that fails.
    pub async fn close(self) {
        let coordinator = self.coordinator;
        on(self.host.as_ref(), async move { coordinator.close().await }).await.expect("closed");
    }
}

async fn on<T: Send + 'static>(host: Option<&Host>, work: impl Future<Output = T> + Send + 'static) -> T {
    match host {
        Some(host) => host.run(work).await,
        None => work.await,
    }
}
