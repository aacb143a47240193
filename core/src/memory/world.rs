//! The state that the clients of one memory world share.

use std::{
    collections::{HashMap, HashSet},
    sync::{Mutex, MutexGuard, PoisonError},
};

use tokio::sync::Notify;

use crate::{
    clock::{Clock, Moment},
    error::{Error, ErrorKind, Result},
    fenced::{DataKey, Datum},
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
    pub(super) data: HashMap<(QueueName, DataKey), Datum>,
    /// Late enters and edits that nobody has given up yet (contract clause 6).
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
        let contender = |entry: &Entry| Contender { id: entry.id.clone(), key: entry.record.token.to_string().into() };
        let queue = entries.map(contender).collect();
        Snapshot { revision: self.revision, queue }
    }

    pub(super) fn entry(&mut self, queue: &QueueName, id: &ContenderId) -> Option<&mut Entry> {
        self.queues.get_mut(queue)?.iter_mut().find(|entry| entry.id == *id)
    }

    /// The entry, if this session made it (contract clause 8).
    fn own_entry(&mut self, session: u64, queue: &QueueName, id: &ContenderId) -> Option<&mut Entry> {
        self.entry(queue, id).filter(|entry| entry.session == session)
    }

    pub(super) fn enter(
        &mut self,
        session: u64,
        queue: QueueName,
        id: ContenderId,
        value: Vec<u8>,
        changed: &Notify,
    ) -> Entered {
        let found = self.own_entry(session, &queue, &id).map(|entry| (entry.record.token, entry.record.version));
        let (token, version) = found.unwrap_or_else(|| {
            self.revision += 1;
            let (token, version) = (FencingToken::new(self.revision), Version(1));
            let record = Record { token, version, value };
            self.queues.entry(queue.clone()).or_default().push(Entry { id, session, record });
            changed.notify_waiters();
            (token, version)
        });
        Entered { token, version, snapshot: self.snapshot(&queue) }
    }

    pub(super) fn write(
        &mut self,
        session: u64,
        queue: &QueueName,
        id: &ContenderId,
        version: Version,
        value: Vec<u8>,
    ) -> Result<Version> {
        self.revision += 1;
        let next = Version(version.0 + 1);
        match self.own_entry(session, queue, id).map(|entry| &mut entry.record) {
            Some(record) if record.version == version => (record.version, record.value) = (next, value),
            Some(record) if record.version == next && record.value == value => {} // a repeat
            _ => {
                let message = format!("the entry on {queue} has gone, or has another value by now");
                return Err(Error::new(ErrorKind::Unexpected, message));
            }
        }
        Ok(next)
    }
}

pub(super) fn is_changed(seen: &Snapshot, now: &Snapshot, wake: Wake<'_>) -> bool {
    let here = |who: &Contender| now.queue.contains(who);
    match wake {
        Wake::Gone(who) => !here(who),
        Wake::Ahead(me) => {
            !here(me) || seen.queue.iter().take_while(|contender| contender.id != me.id).any(|ahead| !here(ahead))
        }
        Wake::Any => now.revision != seen.revision,
    }
}
