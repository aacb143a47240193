//! Who is inside, so that a newer holder's request does not begin before an older one's has ended.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tenure_core::FencingToken;
use tokio::{
    sync::{Notify, watch},
    time::{Instant, timeout_at},
};

/// The requests inside, of all resources.
#[derive(Debug, Default)]
pub(super) struct Gate {
    inside: Mutex<HashMap<String, Line>>,
    left: Notify,
}

/// The requests of one resource, older holders first; each can be told that a newer one has waited long enough.
type Line = BTreeMap<(FencingToken, u64), watch::Sender<Option<FencingToken>>>;

/// One request. It leaves when dropped.
#[derive(Debug)]
pub(super) struct Inside {
    gate: Arc<Gate>,
    resource: String,
    place: (FencingToken, u64),
    told: watch::Receiver<Option<FencingToken>>,
}

impl Gate {
    /// Before the mark is raised: a newer request that raises it after us must see that we may be inside.
    pub(super) fn enter(self: &Arc<Self>, resource: &str, token: FencingToken) -> Inside {
        let (tell, told) = watch::channel(None);
        let mut inside = self.lock();
        let line = inside.entry(resource.to_owned()).or_default();
        let last = line.range((token, 0)..=(token, u64::MAX)).next_back().map_or(0, |((_, number), _)| *number);
        let place = (token, last + 1);
        line.insert(place, tell);
        drop(inside);
        Inside { gate: self.clone(), resource: resource.to_owned(), place, told }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Line>> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inside {
    /// Waits until those with lower tokens have left; after so long, tells them to.
    pub(super) async fn older_have_left(&self, patience: Duration) {
        let end = Instant::now() + patience;
        let mut told = false;
        loop {
            let left = self.gate.left.notified();
            tokio::pin!(left);
            left.as_mut().enable(); // from now on: one may leave between the look and the wait
            if !self.older_inside(told) {
                return;
            }
            if told {
                left.await;
            } else if timeout_at(end, left).await.is_err() {
                told = true;
            }
        }
    }

    /// Resolves when a newer holder has waited long enough for us: to its token.
    pub(super) async fn has_to_leave(&self) -> FencingToken {
        let mut told = self.told.clone();
        match told.wait_for(Option::is_some).await.map(|winner| *winner) {
            Ok(Some(winner)) => winner,
            _ => std::future::pending().await,
        }
    }

    fn older_inside(&self, tell: bool) -> bool {
        let inside = self.gate.lock();
        let Some(line) = inside.get(&self.resource) else { return false };
        let mut any = false;
        for (_, older) in line.range(..(self.place.0, 0)) {
            any = true;
            if tell {
                older.send_replace(Some(self.place.0));
            }
        }
        any
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        let mut inside = self.gate.lock();
        if let Some(line) = inside.get_mut(&self.resource) {
            line.remove(&self.place);
            if line.is_empty() {
                inside.remove(&self.resource);
            }
        }
        drop(inside);
        self.gate.left.notify_waiters();
    }
}
