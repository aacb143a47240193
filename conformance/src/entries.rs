//! What the cases on sessions share: entering, listing, finding.

use std::{sync::Arc, time::Duration};

use tenure_core::{Contender, ContenderId, Entered, Mode, Opened, QueueName, Session, Snapshot};

use crate::Harness;

/// Sessions that are not kept alive last for longer than any case but those that wait for their end.
pub(crate) const LONG: Duration = Duration::from_secs(30);

pub(crate) async fn session(harness: &dyn Harness) -> Arc<dyn Session> {
    open(harness, LONG).await.session.into()
}

pub(crate) async fn open(harness: &dyn Harness, ttl: Duration) -> Opened {
    harness.client().await.open(ttl).await.expect("a session")
}

pub(crate) fn id() -> ContenderId {
    ContenderId::random(Mode::Write)
}

pub(crate) async fn enter(session: &dyn Session, queue: &QueueName) -> (ContenderId, Entered) {
    let id = id();
    let entered = session.enter(queue, &id, b"value").await.expect("entered");
    (id, entered)
}

pub(crate) fn ids(snapshot: &Snapshot) -> Vec<ContenderId> {
    snapshot.queue.iter().map(|contender| contender.id.clone()).collect()
}

pub(crate) async fn listed(session: &dyn Session, queue: &QueueName) -> Vec<ContenderId> {
    ids(&session.list(queue).await.expect("listed"))
}

pub(crate) fn find(snapshot: &Snapshot, id: &ContenderId) -> Contender {
    snapshot.queue.iter().find(|contender| contender.id == *id).expect("it is there").clone()
}
