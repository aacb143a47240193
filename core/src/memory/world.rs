//! The state that the clients of one memory world share.

use std::{
    collections::{HashMap, HashSet},
    sync::{Mutex, MutexGuard, PoisonError},
};

use tokio::sync::Notify;

use crate::{
    clock::{Clock, Moment},
    error::{Error, ErrorKind, Result},
    queue::{Contender, ContenderId, Entered, QueueName, Record, Snapshot, Version, Wake},
    token::FencingToken,
};

#[derive(Debug)]
pub(super) struct World {
    pub(super) clock: Clock,
    pub(super) state: Mutex<State>,
    pub(super) changed: Notify,
}

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) revision: u64,
    pub(super) token_base: Option<u64>,
    pub(super) sessions: HashMap<u64, Moment>,
    pub(super) queues: HashMap<QueueName, Vec<Entry>>,
    /// Late enters that nobody has given up yet (contract clause 6).
    pub(super) late: HashSet<ContenderId>,
}

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) id: ContenderId,
    pub(super) session: u64,
    pub(super) record: Record,
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl World {
    pub(super) fn new(clock: Clock) -> Self {
        Self { clock, state: Mutex::default(), changed: Notify::new() }
    }

    /// Locks the state, after dropping what has expired.
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        let mut state = lock(&self.state);
        let before = state.sessions.len();
        state.sessions.retain(|_, until| !self.clock.has_passed(*until));
        if state.sessions.len() != before {
            let State { sessions, queues, revision, .. } = &mut *state;
            *revision += 1;
            queues.values_mut().for_each(|entries| entries.retain(|entry| sessions.contains_key(&entry.session)));
            self.changed.notify_waiters();
        }
        state
    }
}

impl State {
    pub(super) fn remove(&mut self, queue: &QueueName, which: impl Fn(&Entry) -> bool, changed: &Notify) -> bool {
        let Some(entries) = self.queues.get_mut(queue) else { return false };
        let before = entries.len();
        entries.retain(|entry| !which(entry));
        let removed = entries.len() != before;
        if removed {
            self.revision += 1;
            changed.notify_waiters();
        }
        removed
    }

    pub(super) fn snapshot(&self, queue: &QueueName) -> Snapshot {
        let entries = self.queues.get(queue).into_iter().flatten();
        let queue = entries.map(|entry| Contender { id: entry.id.clone(), key: "".into() }).collect();
        Snapshot { revision: self.revision, queue }
    }

    pub(super) fn entry(&mut self, queue: &QueueName, id: &ContenderId) -> Option<&mut Entry> {
        self.queues.get_mut(queue)?.iter_mut().find(|entry| entry.id == *id)
    }

    pub(super) fn enter(
        &mut self,
        session: u64,
        queue: QueueName,
        id: ContenderId,
        value: Vec<u8>,
        changed: &Notify,
    ) -> Entered {
        if self.entry(&queue, &id).is_none() {
            self.revision += 1;
            let record = Record { token: FencingToken::new(self.revision), version: Version(1), value };
            self.queues.entry(queue.clone()).or_default().push(Entry { id: id.clone(), session, record });
            changed.notify_waiters();
        }
        let snapshot = self.snapshot(&queue);
        let (token, version) =
            self.entry(&queue, &id).map_or((FencingToken::new(0), Version(0)), |e| (e.record.token, e.record.version));
        Entered { token, version, snapshot }
    }

    pub(super) fn write(
        &mut self,
        queue: &QueueName,
        id: &ContenderId,
        version: Version,
        value: Vec<u8>,
    ) -> Result<Version> {
        self.revision += 1;
        let Some(entry) = self.entry(queue, id) else { return Err(gone()) };
        let record = &mut entry.record;
        if record.version == version {
            (record.version, record.value) = (Version(version.0 + 1), value);
        } else if record.version.0 != version.0 + 1 || record.value != value {
            return Err(Error::new(
                ErrorKind::Unexpected,
                format!("the value on {queue} is of another version by now"),
            ));
        }
        Ok(record.version)
    }
}

fn gone() -> Error {
    Error::new(ErrorKind::SessionLost, "the entry has gone")
}

pub(super) fn is_changed(seen: &Snapshot, now: &Snapshot, wake: Wake<'_>) -> bool {
    let here = |who: &Contender| now.queue.iter().any(|contender| contender.id == who.id);
    match wake {
        Wake::Gone(who) => !here(who),
        Wake::Ahead(me) => {
            !here(me) || seen.queue.iter().take_while(|contender| contender.id != me.id).any(|ahead| !here(ahead))
        }
        Wake::Any => now.revision != seen.revision,
    }
}
