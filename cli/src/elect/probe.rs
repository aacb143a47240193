//! The health of the application, as a shell command tells it.

use std::{
    ffi::{OsStr, OsString},
    future::pending,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use crate::{
    alarm::now,
    child::{Streams, Watched},
    protocol::{End, Order, Report},
    say,
};

/// Runs the command under a watchdog of its own: whatever it starts has ended with it, or at the end of the period.
#[derive(Clone, Debug)]
pub(super) struct Probe {
    words: [OsString; 3],
    name: String,
    period: Duration,
    token: Arc<AtomicU64>,
    /// Whether its last answer was no: told once, since one that is never well would wait in silence.
    fails: Arc<AtomicBool>,
}

impl Probe {
    pub(super) fn new(command: &OsStr, name: &str, period: Duration, token: Arc<AtomicU64>) -> Self {
        let words = ["sh".into(), "-c".into(), command.to_owned()];
        Self { words, name: name.to_owned(), period, token, fails: Arc::default() }
    }

    /// Whether it exits with 0, in time.
    ///
    /// # Cancel safety
    /// Dropping the future ends the command.
    pub(super) async fn asks(self) -> bool {
        let (name, fails) = (self.name.clone(), self.fails.clone());
        let limit = self.period - self.period / 20; // who asks waits no longer than the period, and it is to be told before
        let is_well = tokio::time::timeout(limit, self.answer()).await.unwrap_or(false);
        if fails.swap(!is_well, Ordering::Relaxed) == is_well {
            say(&format!("the health command of '{name}' {}", if is_well { "is content again" } else { "fails" }));
        }
        is_well
    }

    async fn answer(self) -> bool {
        let token = Some(self.token.load(Ordering::Relaxed)).filter(|token| *token > 0);
        let environment = [("TENURE_NAME", Some(self.name)), ("TENURE_TOKEN", token.map(|token| token.to_string()))];
        let Ok(mut watched) = Watched::start(&self.words, &environment, Streams::Nothing).await else { return false };
        watched.order(Order::Start { deadline: now() + self.period, grace: Duration::ZERO });
        let (mut is_well, mut is_over) = (false, false);
        while let Some(report) = watched.next().await {
            match report {
                Report::Ended { end, .. } => is_well = end == End::Code(0),
                Report::Gone { .. } | Report::NotStarted { .. } | Report::TooLate => is_over = true,
                _ => {}
            }
        }
        if !is_over {
            watched.kill_own(pending()).await; // its watchdog was killed
            return false;
        }
        watched.end().await;
        is_well
    }
}
