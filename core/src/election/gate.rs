//! The application's own word on whether it is well.

use std::{fmt, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use tokio::{
    task::JoinHandle,
    time::{sleep, timeout},
};

/// Says whether the application is well.
type Probe = Arc<dyn Fn() -> BoxFuture<'static, bool> + Send + Sync>;

/// Asks it, and judges the answers.
#[derive(Clone)]
pub(crate) struct Gate {
    probe: Probe,
    period: Duration,
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gate").field("period", &self.period).finish_non_exhaustive()
    }
}

impl Gate {
    pub(crate) fn new(period: Duration, probe: Probe) -> Self {
        Self { probe, period: period.max(Duration::from_millis(1)) }
    }

    pub(crate) fn period(&self) -> Duration {
        self.period
    }

    pub(crate) async fn until_well(&self) {
        let mut asking = Asking(None);
        while !asking.is_well(self).await {
            sleep(self.period).await;
        }
    }

    pub(crate) async fn until_unwell(&self) {
        let (mut asking, mut failures) = (Asking(None), 0);
        while failures < 2 {
            sleep(self.period).await;
            failures = if asking.is_well(self).await { 0 } else { failures + 1 };
        }
    }
}

/// The question that is under way, in a task of its own: a probe that panics, or blocks its thread, is one that does not answer.
struct Asking(Option<JoinHandle<bool>>);

impl Asking {
    async fn is_well(&mut self, gate: &Gate) -> bool {
        // One that still blocks a thread is not to block the next one.
        if self.0.as_ref().is_some_and(|asked| !asked.is_finished()) {
            return false;
        }
        let probe = gate.probe.clone();
        let asked = self.0.insert(tokio::spawn(async move { probe().await }));
        matches!(timeout(gate.period, asked).await, Ok(Ok(true)))
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        if let Some(asked) = &self.0 {
            asked.abort();
        }
    }
}
