//! Which values of entries were seen when: ZooKeeper's answers to a client do not say which moment they are of. So this process counts its own
//! looks, and the revision of a snapshot is the number of the look that made it.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

static LOOKS: AtomicU64 = AtomicU64::new(1);

/// The number of a look: of one that is about to be asked for, or of one whose answer has come.
pub(crate) fn now() -> u64 {
    LOOKS.fetch_add(1, Ordering::AcqRel)
}

/// The last changes of value that a session has seen: their numbers in ZooKeeper, and when each was first seen here.
#[derive(Debug, Default)]
pub(crate) struct Sightings(Mutex<HashMap<Arc<str>, (i64, u64)>>);

impl Sightings {
    /// Whether an entry, whose value was last changed by `change` as has just been seen, may have changed after the look that was asked for as
    /// number `since`. It may have if this change was not known by then.
    pub(crate) fn may_have_changed(&self, key: &Arc<str>, change: i64, since: u64) -> bool {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = seen.entry(key.clone()).or_insert((change, now()));
        if known.0 < change {
            *known = (change, now());
        }
        known.1 > since
    }

    /// Forgets what is in this queue, but for those who are.
    pub(crate) fn keep(&self, queue: &str, present: impl Fn(&str) -> bool) {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        seen.retain(|key, _| !key.strip_prefix(queue).is_some_and(|rest| rest.starts_with('/')) || present(key));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_new_to_whoever_looked_before_it_was_first_seen() {
        let (seen, key) = (Sightings::default(), Arc::from("/q/a@1"));
        let before = now();
        assert!(seen.may_have_changed(&key, 50, before), "nobody knows when it changed");
        let after = now();
        assert!(!seen.may_have_changed(&key, 50, after));
        assert!(seen.may_have_changed(&key, 50, before), "somebody else's look does not make it old");
        assert!(seen.may_have_changed(&key, 60, after), "it has changed");
        assert!(!seen.may_have_changed(&key, 60, now()));
        seen.keep("/q", |_| false);
        assert!(seen.may_have_changed(&key, 60, now()), "forgotten");
    }
}
