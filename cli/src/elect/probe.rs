//! The health of the application, as a shell command tells it.

use std::{
    ffi::{OsStr, OsString},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use crate::{
    alarm::now,
    child::{Streams, Watched},
    protocol::{End, Order, Report},
};

/// Runs the command under a watchdog of its own: whatever it starts has ended with it, or at the end of the period.
#[derive(Clone, Debug)]
pub(super) struct Probe {
    words: [OsString; 3],
    name: String,
    period: Duration,
    token: Arc<AtomicU64>,
}

impl Probe {
    pub(super) fn new(command: &OsStr, name: &str, period: Duration, token: Arc<AtomicU64>) -> Self {
        Self { words: ["sh".into(), "-c".into(), command.to_owned()], name: name.to_owned(), period, token }
    }

    /// Whether it exits with 0.
    ///
    /// # Cancel safety
    /// Dropping the future ends the command.
    pub(super) async fn asks(self) -> bool {
        let token = Some(self.token.load(Ordering::Relaxed)).filter(|token| *token > 0);
        let environment = [("TENURE_NAME", Some(self.name)), ("TENURE_TOKEN", token.map(|token| token.to_string()))];
        let Ok(mut watched) = Watched::start(&self.words, &environment, Streams::Nothing).await else { return false };
        watched.order(Order::Start { deadline: now() + self.period, grace: Duration::ZERO });
        let mut is_well = false;
        while let Some(report) = watched.next().await {
            if let Report::Ended { end, .. } = report {
                is_well = end == End::Code(0);
            }
        }
        watched.end().await;
        is_well
    }
}
