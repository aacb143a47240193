//! Cases on [`FencedStore`] itself: whose edits the service refuses. A backend that keeps no data is excused from these and from those of
//! [`data`](crate::data).

use std::sync::Arc;

use tenure_core::{
    Contender, ContenderId, DataKey, Datum, Edit, EditId, Expect, Fence, FencedStore, FencingToken, Outcome, QueueName,
    Session, Version,
};
use tokio::time::sleep;

use crate::{
    Harness,
    entries::{enter, find, open, session},
    queue,
};

fn store(session: &dyn Session) -> &dyn FencedStore {
    session.fenced().expect("the backend keeps data; one that does not is excused from these cases")
}

fn key(text: &str) -> DataKey {
    DataKey::new(text).expect("a good key")
}

/// An entry, and the session that made it.
struct Entry {
    session: Arc<dyn Session>,
    id: ContenderId,
    contender: Contender,
    token: FencingToken,
}

impl Entry {
    async fn new(session: Arc<dyn Session>, name: &QueueName) -> Self {
        let (id, entered) = enter(&*session, name).await;
        let contender = find(&entered.snapshot, &id);
        Self { session, id, contender, token: entered.token }
    }

    async fn edit(&self, name: &QueueName, expect: Expect, value: Option<&[u8]>) -> Outcome {
        let fence = Fence { queue: name, entry: &self.contender, token: self.token, raised: self.token };
        let edit = Edit { key: &key("k"), expect, value, id: &EditId::random() };
        store(&*self.session).edit(fence, edit).await.expect("an answer")
    }

    async fn put(&self, name: &QueueName, value: &[u8]) -> Outcome {
        self.edit(name, Expect::Anything, Some(value)).await
    }

    async fn get(&self, name: &QueueName) -> Option<Datum> {
        store(&*self.session).get(name, &key("k")).await.expect("read")
    }

    /// Refused, with this entry named as the first, and nothing written.
    async fn is_refused(&self, name: &QueueName, first: Option<&Self>) {
        let before = self.get_by_anybody(name, first).await;
        for expect in [Expect::Anything, Expect::Absent, Expect::Version(Version(1))] {
            for value in [Some(&b"stale"[..]), None] {
                let outcome = self.edit(name, expect, value).await;
                let Outcome::Fenced { first: named, .. } = outcome else { panic!("not refused: {outcome:?}") };
                assert_eq!(named, first.map(|first| (first.id.clone(), first.token)));
            }
        }
        assert_eq!(self.get_by_anybody(name, first).await, before, "something was written");
    }

    /// The own session may be over.
    async fn get_by_anybody(&self, name: &QueueName, other: Option<&Self>) -> Option<Datum> {
        other.unwrap_or(self).get(name).await
    }
}

fn version(outcome: Outcome) -> Version {
    match outcome {
        Outcome::Done(Some(version)) => version,
        other => panic!("not written: {other:?}"),
    }
}

/// Clause 1: nobody who only waits.
pub async fn a_waiter_may_not_write(harness: &dyn Harness) {
    let name = queue("x");
    let holder = Entry::new(session(harness).await, &name).await;
    let waiter = Entry::new(session(harness).await, &name).await;
    let behind = Entry::new(holder.session.clone(), &name).await; // of the very session that holds
    holder.put(&name, b"first").await;
    waiter.is_refused(&name, Some(&holder)).await;
    behind.is_refused(&name, Some(&holder)).await;
    holder.session.leave(&name, &holder.id).await.expect("left");
    version(waiter.put(&name, b"second").await);
    behind.is_refused(&name, Some(&waiter)).await;
}

/// Clause 1: nobody who held it before, whatever ended that.
pub async fn who_held_before_may_not_write_and_is_told_who_does(harness: &dyn Harness) {
    let name = queue("x");
    let released = Entry::new(session(harness).await, &name).await;
    version(released.put(&name, b"released").await);
    released.session.leave(&name, &released.id).await.expect("left");
    released.is_refused(&name, None).await;
    let removed = Entry::new(session(harness).await, &name).await;
    released.is_refused(&name, Some(&removed)).await;
    version(removed.put(&name, b"removed").await);
    harness.remove(&name, &removed.id).await;
    let closed = Entry::new(session(harness).await, &name).await;
    removed.is_refused(&name, Some(&closed)).await;
    version(closed.put(&name, b"closed").await);
    closed.session.close().await.expect("closed");
    let expired = Entry::new(open(harness, harness.ttl()).await.session.into(), &name).await;
    closed.is_refused(&name, Some(&expired)).await;
    version(expired.put(&name, b"expired").await);
    sleep(harness.ttl() + harness.expiry_slack()).await;
    let last = Entry::new(session(harness).await, &name).await;
    for gone in [&released, &removed, &closed, &expired] {
        gone.is_refused(&name, Some(&last)).await;
    }
    version(last.put(&name, b"last").await);
}

/// Clause 1: an entry of one name is nobody to the others, nor is somebody else's entry, nor a token that is not its own.
pub async fn entries_of_others_are_no_licence(harness: &dyn Harness) {
    let (x, y) = (queue("x"), queue("y"));
    let holder = Entry::new(session(harness).await, &x).await;
    holder.is_refused(&y, None).await;
    let other = Entry::new(session(harness).await, &y).await;
    holder.is_refused(&y, Some(&other)).await;
    let (contender, id) = (holder.contender.clone(), holder.id.clone());
    let thief = Entry { session: other.session.clone(), id, contender, token: holder.token };
    thief.is_refused(&x, Some(&holder)).await;
    let token = FencingToken::new(holder.token.get() + 1);
    let (contender, id) = (holder.contender.clone(), holder.id.clone());
    Entry { session: holder.session.clone(), id, contender, token }.is_refused(&x, Some(&holder)).await;
    version(holder.put(&x, b"mine").await);
}
