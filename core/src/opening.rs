//! Sessions are opened one at a time, and one that cannot come to its end keeps no other from that.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{
    sync::OwnedMutexGuard,
    time::{Instant, timeout},
};

/// What a thread may need between two steps.
const MOMENT: Duration = Duration::from_millis(100);

/// Who opens one.
#[derive(Debug)]
pub(crate) struct Openings {
    /// How long that takes at most, if its runtime is driven.
    limit: Duration,
    present: Mutex<Arc<Opening>>,
}

#[derive(Debug)]
struct Opening {
    alone: Arc<tokio::sync::Mutex<()>>,
    /// When the last one began.
    began: Mutex<Instant>,
}

/// Nobody else opens a session until it is dropped, unless it is superseded.
#[derive(Debug)]
pub(crate) struct Alone<'a> {
    openings: &'a Openings,
    opening: Arc<Opening>,
    _alone: OwnedMutexGuard<()>,
}

impl Openings {
    pub(crate) fn new(limit: Duration) -> Self {
        Self { limit, present: Mutex::new(Arc::new(Opening::new())) }
    }

    /// Waits for whoever opens one, for as long as that one may take; beyond that it is superseded.
    pub(crate) async fn alone(&self) -> Alone<'_> {
        loop {
            let opening = self.present().clone();
            let before = *opening.began();
            let left = self.limit.saturating_sub(before.elapsed()).max(MOMENT);
            let alone = timeout(left, opening.alone.clone().lock_owned()).await;
            let mut present = self.present();
            match alone {
                _ if !Arc::ptr_eq(&present, &opening) => {} // somebody else has found that it takes too long
                Ok(alone) => {
                    drop(present);
                    *opening.began() = Instant::now();
                    return Alone { openings: self, opening, _alone: alone };
                }
                Err(_) if *opening.began() == before => *present = Arc::new(Opening::new()),
                Err(_) => {}
            }
        }
    }

    fn present(&self) -> MutexGuard<'_, Arc<Opening>> {
        self.present.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Opening {
    fn new() -> Self {
        Self { alone: Arc::default(), began: Mutex::new(Instant::now()) }
    }

    fn began(&self) -> MutexGuard<'_, Instant> {
        self.began.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Alone<'_> {
    /// Whether others no longer wait for this one: what it has opened is for whoever asked for it alone.
    pub(crate) fn is_superseded(&self) -> bool {
        !Arc::ptr_eq(&self.openings.present(), &self.opening)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(10);

    #[tokio::test(start_paused = true)]
    async fn one_that_never_ends_is_superseded_by_one_at_a_time() {
        let openings = Openings::new(LIMIT);
        let (start, stuck) = (Instant::now(), openings.alone().await);
        let open = async |_| {
            let alone = openings.alone().await;
            let began = Instant::now();
            tokio::time::sleep(LIMIT / 2).await;
            assert!(!alone.is_superseded());
            (began, Instant::now())
        };
        let mut taken = futures_util::future::join_all((0..5).map(open)).await;
        taken.sort();
        assert!(stuck.is_superseded());
        assert!(taken[0].0 >= start + LIMIT && taken[0].0 <= start + LIMIT + MOMENT, "the first waits so long");
        assert!(taken.windows(2).all(|pair| pair[0].1 <= pair[1].0), "two at a time: {taken:?}");
        drop(stuck);
        assert!(!openings.alone().await.is_superseded());
    }
}
