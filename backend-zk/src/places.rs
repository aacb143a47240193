//! What a session knows of its own entries: which node is the one with this id, and which requests to make one may still take effect although
//! their answer was never seen.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tenure_core::{Clock, ContenderId, FencingToken, Moment};

/// All entries that were entered, and not left yet.
#[derive(Debug, Default)]
pub(crate) struct Places {
    known: Mutex<HashMap<ContenderId, Arc<tokio::sync::Mutex<Place>>>>,
    seats: Mutex<HashMap<ContenderId, Seat>>,
    strays: Mutex<Vec<Stray>>,
}

/// One of them. Locked while something is done to it, so that two calls about one id do not make two nodes.
#[derive(Debug, Default)]
pub(crate) struct Place {
    /// The node's path.
    pub(crate) path: Option<String>,
    /// How many requests to make one are without an answer. What is not answered stays so, whatever follows.
    pub(crate) unanswered: u32,
}

/// An entry of ours as it was last seen. What was made by another session has none.
#[derive(Clone, Debug)]
pub(crate) struct Seat {
    /// The node's path.
    pub(crate) path: String,
    pub(crate) token: FencingToken,
    /// Once it was the first it stays so until it goes (contract clause 1).
    pub(crate) is_first: bool,
}

/// An entry that was left while a request to make it was without an answer.
#[derive(Clone, Debug)]
pub(crate) struct Stray {
    pub(crate) queue: String,
    pub(crate) id: ContenderId,
    until: Moment,
}

impl Places {
    pub(crate) fn of(&self, id: &ContenderId) -> Arc<tokio::sync::Mutex<Place>> {
        open(&self.known).entry(id.clone()).or_default().clone()
    }

    pub(crate) fn seat(&self, id: &ContenderId) -> Option<Seat> {
        open(&self.seats).get(id).cloned()
    }

    /// It was seen.
    pub(crate) fn seated(&self, id: &ContenderId, seat: Seat) {
        open(&self.seats).insert(id.clone(), seat);
    }

    /// It was seen to be the first.
    pub(crate) fn is_first(&self, id: &ContenderId, token: FencingToken) {
        if let Some(seat) = open(&self.seats).get_mut(id).filter(|seat| seat.token == token) {
            seat.is_first = true;
        }
    }

    /// It was left.
    pub(crate) fn forget(&self, id: &ContenderId) {
        open(&self.seats).remove(id);
        open(&self.known).remove(id);
    }

    /// It was left, but is looked for until then.
    pub(crate) fn suspect(&self, queue: &str, id: &ContenderId, until: Moment) {
        open(&self.strays).push(Stray { queue: queue.to_owned(), id: id.clone(), until });
    }

    /// What is to be looked for.
    pub(crate) fn strays(&self, clock: &Clock) -> Vec<Stray> {
        let mut strays = open(&self.strays);
        strays.retain(|stray| !clock.has_passed(stray.until));
        strays.clone()
    }
}

fn open<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tenure_core::{Mode, TestClock};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn strays_are_looked_for_as_long_as_they_may_come() {
        let (places, clock, id) = (Places::default(), TestClock::new(), ContenderId::random(Mode::Write));
        places.suspect("/q", &id, clock.clock().now() + Duration::from_secs(3));
        assert_eq!(places.strays(&clock.clock())[0].id, id);
        clock.suspend(Duration::from_secs(4));
        assert!(places.strays(&clock.clock()).is_empty());
    }
}
