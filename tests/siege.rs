//! A client is cut off, and another one wants what it holds.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tenure_core::{LockGuard, LossReason};
use tokio::task::JoinHandle;

use crate::{client::Client, ledger::Ledger};

/// So many names are held.
pub const NAMES: usize = 10;
/// The ttl, twice an election and what it adds to a session, and the limits of calls.
const LIMIT: Duration = Duration::from_secs(20);

/// Everything that the first client holds, wanted by the second one.
#[derive(Debug)]
pub struct Siege {
    ledger: Arc<Ledger>,
    held: Vec<Arc<LockGuard>>,
    told: Vec<JoinHandle<(LossReason, Instant)>>,
    waiting: Vec<JoinHandle<(Arc<LockGuard>, Instant)>>,
}

/// How it fell: times after the cut.
#[derive(Clone, Copy, Debug)]
pub struct Fall {
    /// The last loss was told.
    pub lost: Duration,
    /// The first of the other's grants.
    pub granted: Duration,
    /// The shortest time from a loss that was told to the next grant of the same name.
    pub gap: Duration,
    /// All was lost by the clock alone.
    pub by_clock: bool,
    /// When the loss of each name was told.
    pub losses: [Instant; NAMES],
}

impl Siege {
    /// The one locks, and the other begins to wait.
    pub async fn lay(holder: &Client, other: &Client) -> Self {
        let ledger = Arc::new(Ledger::default());
        let (mut held, mut told, mut waiting) = (Vec::new(), Vec::new(), Vec::new());
        for number in 0..NAMES {
            let guard = ledger.granted(holder.lock(format!("x-{number}"), LIMIT).await);
            let lost = guard.lost();
            told.push(tokio::spawn(async move { (lost.await, Instant::now()) }));
            held.push(guard);
            let (ledger, other) = (ledger.clone(), other.clone());
            waiting.push(tokio::spawn(async move {
                let guard = ledger.granted(other.lock(format!("x-{number}"), LIMIT * 2).await);
                (guard, Instant::now())
            }));
        }
        Self { ledger, held, told, waiting }
    }

    /// How many are still held.
    pub fn held(&self) -> usize {
        self.held.iter().filter(|guard| guard.is_held()).count()
    }

    /// All is lost by the own deadline, and then granted to the other.
    ///
    /// # Panics
    /// If anything is held by both, or told after the next grant.
    pub async fn falls(self, cut: Instant, other: &Client) -> Fall {
        let (longest, losses) = (Duration::MAX, [cut; NAMES]);
        let mut fall = Fall { lost: Duration::ZERO, granted: longest, gap: longest, by_clock: true, losses };
        for (at, ((held, told), waiting)) in self.held.iter().zip(self.told).zip(self.waiting).enumerate() {
            let (guard, granted) = waiting.await.expect("taken over");
            assert!(!held.is_held() && guard.token() > held.token());
            let (reason, lost) = told.await.expect("no panic");
            assert!(lost < granted, "{reason}, told after the next grant");
            fall.gap = fall.gap.min(granted - lost);
            fall.losses[at] = lost;
            fall.by_clock &= reason == LossReason::Expired;
            fall.lost = fall.lost.max(lost.saturating_duration_since(cut));
            fall.granted = fall.granted.min(granted.saturating_duration_since(cut));
            other.release(self.ledger.released(guard), LIMIT).await;
        }
        fall
    }
}

/// It locks and releases, as if nothing had been.
pub async fn works_again(client: &Client) {
    let guard = client.lock("again", LIMIT).await;
    client.release(guard, LIMIT).await;
}
