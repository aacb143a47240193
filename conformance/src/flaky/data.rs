//! The flaky way to the data of a service.

use std::sync::atomic::Ordering;

use tenure_core::{
    Contender, DataKey, Datum, Edit, EditId, Error, ErrorKind, Expect, Fence, FencedStore, FencingToken, Outcome,
    QueueName, Result, Session, async_trait,
};

use super::FlakySession;

/// An edit that outlives its call.
struct OwnedEdit {
    queue: QueueName,
    entry: Contender,
    tokens: [FencingToken; 2],
    key: DataKey,
    expect: Expect,
    value: Option<Vec<u8>>,
    id: EditId,
}

impl OwnedEdit {
    fn of(fence: Fence<'_>, edit: Edit<'_>) -> Self {
        Self {
            queue: fence.queue.clone(),
            entry: fence.entry.clone(),
            tokens: [fence.token, fence.raised],
            key: edit.key.clone(),
            expect: edit.expect,
            value: edit.value.map(<[u8]>::to_vec),
            id: edit.id.clone(),
        }
    }

    async fn apply(&self, session: &dyn Session) {
        let [token, raised] = self.tokens;
        let fence = Fence { queue: &self.queue, entry: &self.entry, token, raised };
        let edit = Edit { key: &self.key, expect: self.expect, value: self.value.as_deref(), id: &self.id };
        if let Some(store) = session.fenced() {
            drop(store.edit(fence, edit).await);
        }
    }
}

impl FlakySession {
    fn store(&self) -> Result<&dyn FencedStore> {
        self.inner.fenced().ok_or_else(|| Error::new(ErrorKind::Unsupported, "it keeps no data"))
    }

    /// Whatever of earlier edits has not taken effect never will (clause 5 of [`FencedStore`]).
    async fn next_call(&self) {
        *self.calls.lock().await += 1;
    }
}

#[async_trait]
impl FencedStore for FlakySession {
    async fn get(&self, queue: &QueueName, key: &DataKey) -> Result<Option<Datum>> {
        let get = async {
            self.next_call().await;
            self.store()?.get(queue, key).await
        };
        self.way.call(get).await
    }

    async fn edit(&self, fence: Fence<'_>, edit: Edit<'_>) -> Result<Outcome> {
        let (inner, calls, owned) = (self.inner.clone(), self.calls.clone(), OwnedEdit::of(fence, edit));
        let at = *calls.lock().await;
        self.later(async move {
            let now = calls.lock().await;
            if *now == at {
                owned.apply(&*inner).await;
            }
        })?;
        let pass_on = async {
            self.next_call().await;
            self.way.edits.fetch_add(1, Ordering::Relaxed);
            self.store()?.edit(fence, edit).await
        };
        let answer = self.way.call(pass_on).await;
        let lost =
            self.way.edits_to_lose.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        if lost.is_ok() {
            return Err(Error::new(ErrorKind::Unavailable, "the answer was lost, on purpose"));
        }
        answer
    }
}
