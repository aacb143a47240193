//! A coordinator that lives on a host.

use std::time::Duration;

use tenure_conformance::netns::Host;
use tenure_core::{Coordinator, LockGuard};
use tenure_tests::on_etcd::coordinator;
use tokio::time::timeout;

/// A coordinator, all of whose connections belong to its host.
#[derive(Clone)]
pub(crate) struct Client {
    pub(crate) host: Host,
    pub(crate) coordinator: Coordinator,
}

impl Client {
    pub(crate) async fn start(host: &Host, servers: String, settings: &'static str) -> Self {
        let coordinator = host.run(async move { coordinator(&servers, settings).await }).await;
        Self { host: host.clone(), coordinator }
    }

    /// Locks within a limit; no error is allowed.
    pub(crate) async fn lock(&self, name: impl Into<String>, limit: Duration) -> LockGuard {
        let (coordinator, name) = (self.coordinator.clone(), name.into());
        let locking = async move { timeout(limit, coordinator.lock(&name)).await };
        let granted = self.host.run(locking).await.expect("no call outlasts its limit");
        granted.unwrap_or_else(|error| panic!("an error reached the user: {}", error.report()))
    }

    /// Releases within a limit; no error is allowed.
    pub(crate) async fn release(&self, guard: LockGuard, limit: Duration) {
        let releasing = async move { timeout(limit, guard.release()).await };
        let released = self.host.run(releasing).await.expect("no call outlasts its limit");
        released.unwrap_or_else(|error| panic!("an error reached the user: {}", error.report()));
    }

    pub(crate) async fn close(self) {
        let coordinator = self.coordinator;
        self.host.run(async move { coordinator.close().await }).await.expect("closed");
    }
}
