//! What the watchdog does not end.

use std::time::Duration;

use tenure::State;
use tokio::time::{Instant, sleep, timeout};

use super::Run;
use crate::{
    outcome::{Outcome, code},
    protocol::Report,
    say, watchdog,
};

/// After a loss the watchdog kills at once. If it has not reported that by then, it was stopped, and we kill. It is less than the margin
/// that every deadline has.
const WATCHDOG_LIMIT: Duration = Duration::from_millis(100);
/// While the lock is held there is time for the watchdog to kill, and to say what does not die.
const HELD_LIMIT: Duration = watchdog::KILL_LIMIT.saturating_add(WATCHDOG_LIMIT);
/// How long we try to kill what the watchdog did not, once the lock is not held any more.
const KILL_LIMIT: Duration = Duration::from_secs(2);
/// From the second of two deadlines that the watchdog does not confirm. It may be busy killing, or the machine may be.
const DEAF_LIMIT: Duration = Duration::from_secs(5);

impl Run<'_> {
    /// When we kill, since the watchdog has not.
    pub(super) fn overdue(&self) -> Option<Instant> {
        let lost = self.lost.map(|(_, since)| since + WATCHDOG_LIMIT);
        // What does not die is left to the watchdog for as long as the lock is held: nobody else may act before it is gone.
        let limit = self.limit.filter(|_| !self.stuck).map(|limit| limit + HELD_LIMIT);
        [lost, limit, self.deaf].into_iter().flatten().min()
    }

    /// A watchdog that was stopped hears nothing, and does not see the command's end.
    pub(super) fn expect_answer(&mut self) {
        self.unconfirmed += 1;
        if self.unconfirmed == 2 {
            self.deaf = Some(Instant::now() + DEAF_LIMIT);
        }
    }

    pub(super) async fn kill(&mut self) -> Outcome {
        let only_deaf = self.lost.is_none() && self.limit.is_none();
        self.kill_tree().await;
        // What it said last, if it was only slow. With the watchdog the reports end.
        while let Ok(Some(report)) = timeout(WATCHDOG_LIMIT, self.watched.next()).await {
            if let Report::Ended { end, cause } = report {
                self.end = Some((end, cause));
            }
        }
        if only_deaf && self.end.is_none() {
            return failed("the watchdog process does not answer, so the command was killed");
        }
        self.outcome()
    }

    pub(super) async fn watchdog_died(&mut self) -> Outcome {
        self.kill_tree().await;
        failed("the watchdog process was ended by somebody else, so the command was killed")
    }

    /// While the lock is held, until nothing is left.
    async fn kill_tree(&mut self) {
        let tenure = self.job.tenure;
        let is_lost = self.lost.is_some();
        let given_up = async {
            if !is_lost && timeout(KILL_LIMIT, tenure.lost()).await.is_err() {
                say("still waiting for the end of killed processes");
                tenure.lost().await;
            }
            sleep(KILL_LIMIT).await;
        };
        warn_of_survivors(&self.watched.kill_tree(given_up).await);
        if let State::Lost(reason) = tenure.state() {
            self.lost.get_or_insert((reason, Instant::now()));
        }
    }
}

fn failed(why: &str) -> Outcome {
    Outcome::Failed { code: code::UNEXPECTED, why: why.to_owned() }
}

pub(super) fn warn_of_survivors(processes: &[i32]) {
    if !processes.is_empty() {
        say(&format!("these processes of the command could not be ended, and outlive the lock: {processes:?}"));
    }
}
