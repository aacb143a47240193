//! Bodies that lead, counted: one at a time, each started and ended once, with rising tokens.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use tenure_core::{Election, FencingToken, Term};
use tokio::{task::JoinHandle, time::sleep};
use tokio_util::sync::CancellationToken;

#[derive(Debug, Default)]
pub(crate) struct Stage(Mutex<Seen>);

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) on_stage: Option<FencingToken>,
    pub(crate) started: u32,
    pub(crate) ended: u32,
    highest: Option<FencingToken>,
}

/// Leaves the stage when dropped.
struct OnStage(Arc<Stage>);

impl Drop for OnStage {
    fn drop(&mut self) {
        let mut seen = self.0.0.lock().expect("no panic");
        seen.on_stage = None;
        seen.ended += 1;
    }
}

impl Stage {
    pub(crate) fn seen(&self) -> Seen {
        *self.0.lock().expect("no panic")
    }

    fn enter(self: &Arc<Self>, token: FencingToken) -> OnStage {
        let mut seen = self.0.lock().expect("no panic");
        assert_eq!(seen.on_stage, None, "two bodies run");
        assert!(seen.highest.is_none_or(|highest| highest < token), "the token {token} does not rise");
        *seen = Seen { on_stage: Some(token), started: seen.started + 1, highest: Some(token), ..*seen };
        OnStage(self.clone())
    }

    /// Runs for this candidate until told to stop.
    pub(crate) fn run(self: &Arc<Self>, election: Election, value: String) -> Candidate {
        let (stop, stage) = (CancellationToken::new(), self.clone());
        let told = stop.clone();
        let task = tokio::spawn(async move {
            let body = |term: Term| {
                let on_stage = stage.enter(term.token());
                async move {
                    term.ended().await;
                    sleep(Duration::from_millis(50)).await;
                    drop(on_stage);
                }
            };
            election.run(value, told, body).await.unwrap_or_else(|error| panic!("{}", error.report()));
        });
        Candidate { stop, task }
    }
}

/// A candidate that runs.
pub(crate) struct Candidate {
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Candidate {
    pub(crate) async fn stop(self) {
        self.stop.cancel();
        tokio::time::timeout(Duration::from_secs(20), self.task).await.expect("it ends").expect("no panic");
    }
}
