//! Who believes to hold what: no two at a time, and the tokens of each name rise.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use tenure_core::{FencingToken, LockGuard};

/// Notes of all grants of one test, whichever client they were made to. It panics when something is wrong.
#[derive(Debug, Default)]
pub struct Ledger(Mutex<HashMap<String, Row>>);

#[derive(Debug)]
struct Row {
    last: FencingToken,
    believer: Weak<LockGuard>,
    grants: u64,
}

impl Ledger {
    /// To be called after every grant.
    ///
    /// # Panics
    /// If the one before still believes to hold the same name, or has a token that is not smaller.
    pub fn granted(&self, guard: LockGuard) -> Arc<LockGuard> {
        let guard = Arc::new(guard);
        let mut rows = self.rows();
        let first = Row { last: FencingToken::new(0), believer: Weak::new(), grants: 0 };
        let row = rows.entry(guard.name().to_string()).or_insert(first);
        assert!(guard.token() > row.last, "{}: {} comes after {}", guard.name(), guard.token(), row.last);
        if let Some(before) = row.believer.upgrade() {
            // The new one was granted before this look, so if both are held now, both were held at one time.
            let both = before.is_held() && guard.is_held();
            assert!(!both, "{}: {} and {} are held at one time", guard.name(), before.token(), guard.token());
        }
        *row = Row { last: guard.token(), believer: Arc::downgrade(&guard), grants: row.grants + 1 };
        guard
    }

    /// To be called before a release: from now on others may be granted it.
    ///
    /// # Panics
    /// If somebody else keeps the guard too.
    pub fn released(&self, guard: Arc<LockGuard>) -> LockGuard {
        let mut rows = self.rows(); // locked, so that nobody looks at the guard
        if let Some(row) = rows.get_mut(guard.name().as_str()).filter(|row| row.last == guard.token()) {
            row.believer = Weak::new();
        }
        Arc::into_inner(guard).expect("nobody else keeps it")
    }

    /// Also after a finding: there may be more.
    fn rows(&self) -> MutexGuard<'_, HashMap<String, Row>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How often this name was granted.
    pub fn grants(&self, name: &str) -> u64 {
        self.rows().get(name).map_or(0, |row| row.grants)
    }
}

#[cfg(test)]
mod tests {
    use tenure_core::{Coordinator, MemoryBackend, Options};

    use super::*;

    fn coordinator() -> Coordinator {
        Coordinator::new(Arc::new(MemoryBackend::new()), Options::default()).expect("good options")
    }

    /// Two stores that do not know of each other: what must never be.
    #[tokio::test]
    #[should_panic(expected = "are held at one time")]
    async fn two_believers_are_found() {
        let (ledger, one, other) = (Ledger::default(), coordinator(), coordinator());
        let _held = ledger.granted(one.lock("x").await.expect("granted"));
        other.lock("x").await.expect("granted").release().await.expect("released");
        let _held_too = ledger.granted(other.lock("x").await.expect("granted"));
    }

    #[tokio::test]
    #[should_panic(expected = "comes after")]
    async fn a_token_that_returns_is_found() {
        let ledger = Ledger::default();
        for coordinator in [coordinator(), coordinator()] {
            let guard = ledger.granted(coordinator.lock("x").await.expect("granted"));
            ledger.released(guard).release().await.expect("released");
        }
    }
}
