//! The lock: a real backend, with a short ttl.

use std::{path::Path, time::Duration};

use tenure_core::Coordinator;

/// The ttl of the lock on SQLite: the shortest there is.
pub(crate) const TTL: Duration = Duration::from_secs(1);

/// A file in the folder.
pub(crate) fn sqlite(folder: &Path) -> String {
    format!("sqlite:{}?ttl=1s", folder.join("lock.db").display())
}

/// A coordinator of its own session.
pub(crate) async fn coordinator(url: &str) -> Coordinator {
    tenure::connect(url).await.expect("it opens")
}

/// Bounds a wait: longer than anything here takes on a slow machine.
pub(crate) async fn within<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), work).await.expect("it ends in time")
}
