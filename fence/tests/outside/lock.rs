//! The lock: a real backend, with the shortest ttl.

use std::{path::Path, time::Duration};

use tenure_core::{Coordinator, Drivers};
use tenure_sqlite::SqliteDriver;

/// The ttl of the lock.
pub(crate) const TTL: Duration = Duration::from_secs(1);

/// A coordinator of its own session.
pub(crate) async fn coordinator(folder: &Path, more: &str) -> Coordinator {
    let url = format!("sqlite:{}?ttl=1s{more}", folder.join("lock.db").display());
    Drivers::new().with(SqliteDriver).connect(&url.parse().expect("a good URL")).await.expect("it opens")
}

/// Bounds a wait: longer than anything here takes on a slow machine.
pub(crate) async fn within<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), work).await.expect("it ends in time")
}
