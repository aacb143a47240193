//! `tenure lock`: from the command line to the exit code.

use std::{convert::Infallible, process::ExitCode, time::Duration};

use tenure::{Clock, Coordinator, Moment};
use tokio::time::Instant;

use crate::{
    acquire::{Held, acquire},
    args::Lock,
    outcome::{self, Facts, Outcome, Subject},
    run::{Finished, Job, run},
    say,
    signals::Signals,
    start,
};

/// Does it all.
pub(crate) fn main(lock: &Lock) -> ExitCode {
    let file = match start::result_file(lock.running.result_file.as_deref()) {
        Ok(file) => file,
        Err(code) => return code,
    };
    let mut facts = Facts::default();
    let outcome = start::in_runtime(async {
        connect_and_lock(lock, &mut facts).await.unwrap_or_else(|outcome| outcome) // both are how it ended
    });
    outcome::tell(Subject::Lock(&lock.name), &outcome, &facts, file)
}

async fn connect_and_lock(lock: &Lock, facts: &mut Facts) -> Result<Outcome, Outcome> {
    let mut signals = start::signals()?;
    let config = lock.backend.find()?;
    let grace = start::grace(lock.running.grace, &config)?;
    facts.backend = Some(config.backend.clone());
    let coordinator = start::connect(&config, start::program(&lock.command), &mut signals).await?;
    let outcome = wait_and_run(&coordinator, lock, grace, &mut signals, facts).await;
    start::close(&coordinator).await;
    Ok(outcome)
}

async fn wait_and_run(
    coordinator: &Coordinator,
    lock: &Lock,
    grace: Duration,
    signals: &mut Signals,
    facts: &mut Facts,
) -> Outcome {
    let start = Instant::now();
    let acquired = tokio::select! {
        biased;
        signal = signals.ending() => return Outcome::Interrupted(signal),
        acquired = acquire(coordinator, lock) => acquired,
    };
    facts.waited = Some(start.elapsed());
    let held = match acquired {
        Ok(Some(held)) => held,
        Ok(None) => return Outcome::NotAcquired(lock.conflict_exit_code),
        Err(error) => return error.into(),
    };
    facts.token = held.token();
    let (clock, granted) = (Clock::system(), Clock::system().now());
    let subject = Subject::Lock(&lock.name);
    let job = Job { tenure: &held, token: held.token(), subject, command: &lock.command, grace, drain: None };
    let Finished { outcome, stopped, .. } = run(&job, signals, std::future::pending::<Infallible>()).await;
    if let (Some(hold), Outcome::Completed(_), false) = (lock.hold_at_least, &outcome, stopped) {
        hold_on(&held, &clock, granted + hold, signals).await;
    }
    facts.held = Some(clock.now().since_boot.saturating_sub(granted.since_boot));
    if held.is_held() {
        start::release(&subject.to_string(), coordinator, held.release()).await;
    } // else, what is to be said about that is said elsewhere
    outcome
}

/// Keeps the lock after the work is done, so that a late clock elsewhere does not do it again.
async fn hold_on(held: &Held, clock: &Clock, until: Moment, signals: &mut Signals) {
    tokio::select! {
        () = clock.sleep_until(until) => {}
        _ = signals.ending() => {}
        reason = held.lost() => {
            say(&format!("the lock '{}' was lost after the command had ended, and is held no longer: {reason}", held.name()));
        }
    }
}
