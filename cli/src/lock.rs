//! `tenure lock`: from the command line to the exit code.

use std::{process::ExitCode, time::Duration};

use tenure::{Clock, Config, Coordinator, Error, ErrorKind, Moment, Options};
use tokio::time::{Instant, timeout};

use crate::{
    acquire::{Held, acquire},
    args::Lock,
    outcome::{self, Facts, Outcome, ResultFile, code},
    run::{Finished, run},
    say,
    signals::Signals,
};

/// How long the end of the session may take: whoever interrupts a waiting `tenure` should see it gone within a second.
const CLOSE_LIMIT: Duration = Duration::from_millis(800);
const RELEASE_LIMIT: Duration = Duration::from_secs(3);
const DEFAULT_GRACE: Duration = Duration::from_secs(3);

/// Does it all.
pub(crate) fn main(lock: Lock) -> ExitCode {
    let file = match lock.result_file.as_deref().map(ResultFile::open).transpose() {
        Ok(file) => file,
        Err(error) => {
            let path = lock.result_file.unwrap_or_default();
            say(&format!("the result file {} cannot be opened: {error}", path.display()));
            return ExitCode::from(code::CONFIG);
        }
    };
    let mut facts = Facts::default();
    let outcome = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => {
            let outcome = runtime.block_on(connect_and_lock(&lock, &mut facts));
            runtime.shutdown_timeout(Duration::from_millis(100)); // a call that hangs does not keep us
            outcome
        }
        Err(error) => Outcome::failed("the runtime cannot be started", &error),
    };
    outcome::tell(&lock.name, &outcome, &facts, file)
}

async fn connect_and_lock(lock: &Lock, facts: &mut Facts) -> Outcome {
    let mut signals = match Signals::listen() {
        Ok(signals) => signals,
        Err(error) => return Outcome::failed("signals cannot be handled", &error),
    };
    let (config, grace) = match lock.backend.find().and_then(|config| grace(lock, &config).map(|grace| (config, grace)))
    {
        Ok(settings) => settings,
        Err(error) => return error.into(),
    };
    facts.backend = Some(config.backend.clone());
    // Not its arguments: they may hold secrets, and the entry is for everybody to read.
    let program = lock.command.first().map(|program| program.to_string_lossy().into_owned());
    let (drivers, clock) = (tenure::drivers(), Clock::system());
    let coordinator = tokio::select! {
        connected = drivers.connect_by(&config, &clock, program) => match connected {
            Ok(coordinator) => coordinator,
            Err(error) => return error.into(),
        },
        signal = signals.ending() => return Outcome::Interrupted(signal),
    };
    let outcome = wait_and_run(&coordinator, lock, grace, &mut signals, facts).await;
    let _ = timeout(CLOSE_LIMIT, coordinator.close()).await; // what is left ends with the ttl
    outcome
}

/// The grace that was asked for, if it fits into the ttl; or the usual one.
fn grace(lock: &Lock, config: &Config) -> tenure::Result<Duration> {
    let fits = |ttl| {
        let mut options = Options::default();
        options.ttl = ttl;
        options.longest_grace()
    };
    let longest = fits(config.ttl);
    let Some(grace) = lock.grace else { return Ok(DEFAULT_GRACE.min(longest)) };
    if grace <= longest {
        return Ok(grace);
    }
    let ttl = (1..=24 * 3600).map(Duration::from_secs).find(|ttl| fits(*ttl) >= grace);
    let or_ttl = ttl.map_or(String::new(), |ttl| format!(", or ttl={}", humantime::format_duration(ttl)));
    let longest = Duration::from_millis(u64::try_from(longest.as_millis()).unwrap_or(u64::MAX));
    let message = format!(
        "--grace {} does not fit into a ttl of {} with two tries to renew: write {} or less{or_ttl}",
        humantime::format_duration(grace),
        humantime::format_duration(config.ttl),
        humantime::format_duration(longest),
    );
    Err(Error::new(ErrorKind::Config, message))
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
    let Finished { outcome, stopped } = run(&held, &lock.command, grace, signals).await;
    if let (Some(hold), Outcome::Completed(_), false) = (lock.hold_at_least, &outcome, stopped) {
        hold_on(&held, &clock, granted + hold, signals).await;
    }
    facts.held = Some(clock.now().since_boot.saturating_sub(granted.since_boot));
    release(held, coordinator).await;
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

async fn release(held: Held, coordinator: &Coordinator) {
    if !held.is_held() {
        return; // what is to be said about that is said elsewhere
    }
    let name = held.name().clone();
    let problem = match timeout(RELEASE_LIMIT, held.release()).await {
        Ok(Ok(())) => return,
        Ok(Err(error)) => error.report(),
        Err(_) => "no answer".to_owned(),
    };
    let ttl = humantime::format_duration(coordinator.options().ttl);
    say(&format!("the lock '{name}' could not be released ({problem}): it will be free when its ttl of {ttl} is over"));
}
