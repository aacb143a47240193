//! What all commands begin and end with: settings, a session, and a runtime that ends soon.

use std::{ffi::OsString, future::Future, path::Path, process::ExitCode, time::Duration};

use tenure::{Clock, Config, Coordinator, Error, ErrorKind, Options};
use tokio::time::timeout;

use crate::{
    outcome::{Outcome, ResultFile, code},
    say,
    signals::Signals,
};

/// How long the end of the session may take: whoever interrupts a waiting `tenure` should see it gone within a second.
const CLOSE_LIMIT: Duration = Duration::from_millis(800);
const RELEASE_LIMIT: Duration = Duration::from_secs(3);
const DEFAULT_GRACE: Duration = Duration::from_secs(3);

/// Opens the result file, if there is to be one.
pub(crate) fn result_file(path: Option<&Path>) -> Result<Option<ResultFile>, ExitCode> {
    path.map(|path| {
        ResultFile::open(path).map_err(|error| {
            say(&format!("the result file {} cannot be opened: {error}", path.display()));
            ExitCode::from(code::CONFIG)
        })
    })
    .transpose()
}

/// Runs `work` to its end.
pub(crate) fn in_runtime(work: impl Future<Output = Outcome>) -> Outcome {
    match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => {
            let outcome = runtime.block_on(work);
            runtime.shutdown_timeout(Duration::from_millis(100)); // a call that hangs does not keep us
            outcome
        }
        Err(error) => Outcome::failed("the runtime cannot be started", &error),
    }
}

/// Signals are handled from now on.
pub(crate) fn signals() -> Result<Signals, Outcome> {
    Signals::listen().map_err(|error| Outcome::failed("signals cannot be handled", &error))
}

/// Opens the session. A signal that asks to end ends that too.
pub(crate) async fn connect(
    config: &Config,
    program: Option<String>,
    signals: &mut Signals,
) -> Result<Coordinator, Outcome> {
    let (drivers, clock) = (tenure::drivers(), Clock::system());
    tokio::select! {
        connected = drivers.connect_by(config, &clock, program) => connected.map_err(Outcome::from),
        signal = signals.ending() => Err(Outcome::Interrupted(signal)),
    }
}

/// Ends the session; what is left ends with the ttl.
pub(crate) async fn close(coordinator: &Coordinator) {
    let _ = timeout(CLOSE_LIMIT, coordinator.close()).await;
}

/// Gives something up that is still held, and says so if that fails.
pub(crate) async fn release(
    subject: &str,
    coordinator: &Coordinator,
    release: impl Future<Output = tenure::Result<()>>,
) {
    let problem = match timeout(RELEASE_LIMIT, release).await {
        Ok(Ok(())) => return,
        Ok(Err(error)) => error.report(),
        Err(_) => "no answer".to_owned(),
    };
    let ttl = humantime::format_duration(coordinator.options().ttl);
    say(&format!("{subject} could not be released ({problem}): it will be free when its ttl of {ttl} is over"));
}

/// How entries name the command. Not its arguments: they may hold secrets, and the entry is for everybody to read.
pub(crate) fn program(command: &[OsString]) -> Option<String> {
    command.first().map(|program| program.to_string_lossy().into_owned())
}

/// The grace that was asked for, if it fits into the ttl; or the usual one.
pub(crate) fn grace(wanted: Option<Duration>, config: &Config) -> tenure::Result<Duration> {
    let fits = |ttl| {
        let mut options = Options::default();
        options.ttl = ttl;
        options.longest_grace()
    };
    let longest = fits(config.ttl);
    let Some(grace) = wanted else { return Ok(DEFAULT_GRACE.min(longest)) };
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
