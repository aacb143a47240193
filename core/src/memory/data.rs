//! The data of the memory backend.

use async_trait::async_trait;

use super::{Call, MemorySession, world::State};
use crate::{
    error::Result,
    fenced::{DataKey, Datum, Edit, EditId, Expect, Fence, FencedStore, Outcome, Stored},
    queue::{ContenderId, QueueName, Version},
    token::FencingToken,
};

/// An edit that outlives its call.
struct OwnedEdit {
    session: u64,
    at: (QueueName, DataKey),
    writer: (ContenderId, FencingToken),
    raised: FencingToken,
    expect: Expect,
    value: Option<Vec<u8>>,
    id: EditId,
}

impl OwnedEdit {
    fn apply(self, state: &mut State) -> Outcome {
        let first = state.queues.get(&self.at.0).and_then(|entries| entries.first());
        let now = state.data.get(&self.at).cloned();
        let is_first = first.is_some_and(|first| {
            first.session == self.session && (&first.id, first.record.token) == (&self.writer.0, self.writer.1)
        });
        if !is_first {
            return Outcome::Fenced { first: first.map(|first| (first.id.clone(), first.record.token)), now };
        }
        let is_expected = match self.expect {
            Expect::Anything => true,
            Expect::Absent => now.is_none(),
            Expect::Version(version) => now.as_ref().is_some_and(|now| now.stored.version == version),
        };
        if !is_expected {
            return Outcome::Conflict(now);
        }
        let Some(value) = self.value else {
            state.data.remove(&self.at);
            return Outcome::Done(None);
        };
        state.revision += 1;
        let stored = Stored { value, version: Version(state.revision), token: self.raised };
        state.data.insert(self.at, Datum { stored, edit: self.id });
        Outcome::Done(Some(Version(state.revision)))
    }
}

impl MemorySession {
    /// What late edits of this session are called.
    fn late_prefix(&self) -> String {
        format!("edit-{}-", self.id)
    }
}

/// Given up is dead: whatever of this session has not taken effect by now never will.
fn give_up(state: &mut State, late: &str) {
    state.late.retain(|id| !id.as_str().starts_with(late));
}

#[async_trait]
impl FencedStore for MemorySession {
    async fn get(&self, queue: &QueueName, key: &DataKey) -> Result<Option<Datum>> {
        let (at, late) = ((queue.clone(), key.clone()), self.late_prefix());
        self.alive(Call::Get, None, move |state, _| {
            give_up(state, &late);
            Ok(state.data.get(&at).cloned())
        })
        .await
    }

    async fn edit(&self, fence: Fence<'_>, edit: Edit<'_>) -> Result<Outcome> {
        let owned = OwnedEdit {
            session: self.id,
            at: (fence.queue.clone(), edit.key.clone()),
            writer: (fence.entry.id.clone(), fence.token),
            raised: fence.raised,
            expect: edit.expect,
            value: edit.value.map(<[u8]>::to_vec),
            id: edit.id.clone(),
        };
        let late = self.late_prefix();
        let id = ContenderId::from_backend(format!("{late}{}", edit.id.as_str()));
        self.backend
            .call(Call::Edit, Some(&id), move |world| {
                let mut state = world.state();
                give_up(&mut state, &late);
                Ok(owned.apply(&mut state))
            })
            .await
    }
}
