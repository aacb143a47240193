//! The application's own word on whether it is well.

use std::{fmt, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use tokio::time::{sleep, timeout};

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
        Self { probe, period }
    }

    async fn is_well(&self) -> bool {
        timeout(self.period, (self.probe)()).await.unwrap_or(false)
    }

    pub(crate) async fn until_well(&self) {
        while !self.is_well().await {
            sleep(self.period).await;
        }
    }

    pub(crate) async fn until_unwell(&self) {
        let mut failures = 0;
        while failures < 2 {
            sleep(self.period).await;
            failures = if self.is_well().await { 0 } else { failures + 1 };
        }
    }
}
