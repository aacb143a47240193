//! Which entries may still come into being although nobody knows: those whose `enter` was sent, and whose answer has not been seen.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use tenure_core::ContenderId;

/// How many attempts to enter are without an answer, by id.
#[derive(Debug, Default)]
pub(crate) struct Doubts(Mutex<HashMap<ContenderId, u32>>);

impl Doubts {
    /// An attempt is about to be sent.
    pub(crate) fn begin(&self, id: &ContenderId) {
        *self.open().entry(id.clone()).or_default() += 1;
    }

    /// An attempt was answered. What was not answered before stays in doubt: it may be applied whenever a server gets to it.
    pub(crate) fn end(&self, id: &ContenderId) {
        let mut open = self.open();
        if let Some(attempts) = open.get_mut(id) {
            *attempts -= 1;
            if *attempts == 0 {
                open.remove(id);
            }
        }
    }

    /// Whether an attempt is without an answer.
    pub(crate) fn about(&self, id: &ContenderId) -> bool {
        self.open().contains_key(id)
    }

    /// No attempt to enter can take effect any more.
    pub(crate) fn forget(&self, id: &ContenderId) {
        self.open().remove(id);
    }

    fn open(&self) -> MutexGuard<'_, HashMap<ContenderId, u32>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use tenure_core::Mode;

    use super::*;

    #[test]
    fn an_attempt_without_an_answer_stays_in_doubt_whatever_follows() {
        let (doubts, id) = (Doubts::default(), ContenderId::random(Mode::Write));
        doubts.begin(&id);
        doubts.end(&id);
        assert!(!doubts.about(&id), "it was answered");
        doubts.begin(&id); // never answered
        doubts.begin(&id);
        doubts.end(&id);
        assert!(doubts.about(&id), "the first attempt may still be applied");
        doubts.forget(&id);
        doubts.end(&id); // an answer that nobody needs any more
        assert!(!doubts.about(&id));
    }
}
