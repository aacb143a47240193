//! What the cases on coordinators share: bounded waits, and looking at a queue.

use std::{future::Future, time::Duration};

use tenure_core::{Coordinator, Result, Wake};
use tokio::time::timeout;

use crate::{Harness, queue};

pub(crate) const SOON: Duration = Duration::from_millis(900);

pub(crate) async fn soon<T>(what: &str, work: impl Future<Output = Result<T>>) -> T {
    timeout(SOON, work).await.unwrap_or_else(|_| panic!("not in time: {what}")).expect(what)
}

pub(crate) async fn is_busy(coordinator: &Coordinator, name: &str) -> bool {
    coordinator.try_lock(name).await.expect("an answer").is_none()
}

/// Until so many entries stand in the queue.
pub(crate) async fn until_queued(harness: &dyn Harness, name: &str, entries: usize) {
    let session = harness.client().await.open(harness.ttl() * 10).await.expect("a session").session;
    let queued = async {
        loop {
            let seen = session.list(&queue(name)).await.expect("listed");
            if seen.queue.len() == entries {
                break;
            }
            let _ = timeout(Duration::from_millis(100), session.wait(&queue(name), &seen, Wake::Any)).await;
        }
    };
    timeout(harness.ttl() * 2 + harness.expiry_slack(), queued)
        .await
        .unwrap_or_else(|_| panic!("never {entries} in {name}"));
    session.close().await.expect("closed");
}
