//! `tenure once`: runs the command unless it has succeeded before, and records that it has.

use std::{convert::Infallible, future::Future, process::ExitCode, time::Duration};

use tenure::{Attempt, Begun, Coordinator, Error, ErrorKind};
use tokio::time::{Instant, timeout};

use crate::{
    args::Once,
    observe::print,
    outcome::{self, Facts, Outcome, Subject, code},
    protocol::End,
    run::{Finished, Job, run},
    show,
    signals::Signals,
    start,
};

/// Does it all.
pub(crate) fn main(once: &Once) -> ExitCode {
    let file = match start::result_file(once.running.result_file.as_deref()) {
        Ok(file) => file,
        Err(code) => return code,
    };
    let mut facts = Facts::default();
    let outcome = start::in_runtime(async {
        connect_and_do(once, &mut facts).await.unwrap_or_else(|outcome| outcome) // both are how it ended
    });
    outcome::tell(Subject::Lock(&once.name), &outcome, &facts, file)
}

async fn connect_and_do(once: &Once, facts: &mut Facts) -> Result<Outcome, Outcome> {
    let mut signals = start::signals()?;
    let config = once.backend.find()?;
    let grace = start::grace(once.running.grace, &config)?;
    facts.backend = Some(config.backend.clone());
    let coordinator = start::connect(&config, start::program(&once.command), &mut signals).await?;
    let work = coordinator.once(&once.name)?;
    let work = once.expire.into_iter().fold(work, tenure::Once::expires_after);
    let outcome = if once.status {
        interruptible(&mut signals, status(once, &work)).await
    } else if once.forget {
        interruptible(&mut signals, forget(once, &work)).await
    } else {
        Task { once, coordinator: &coordinator, work, grace }.attempt(&mut signals, facts).await
    };
    start::close(&coordinator).await;
    Ok(outcome)
}

async fn interruptible(signals: &mut Signals, work: impl Future<Output = Result<Outcome, Outcome>>) -> Outcome {
    tokio::select! {
        biased;
        signal = signals.ending() => Outcome::Interrupted(signal),
        done = work => done.unwrap_or_else(|outcome| outcome),
    }
}

async fn status(once: &Once, work: &tenure::Once) -> Result<Outcome, Outcome> {
    let success = work.success().await?;
    print(show::success(success.as_ref(), once.json)).await?;
    Ok(Outcome::Completed(End::Code(success.is_none().into())))
}

async fn forget(once: &Once, work: &tenure::Once) -> Result<Outcome, Outcome> {
    let forgotten = match once.wait {
        Some(limit) => timeout(limit, work.forget()).await.ok(),
        None => Some(work.forget().await),
    };
    match forgotten {
        Some(forgotten) => Ok(Outcome::Completed(End::Code((!forgotten?).into()))),
        None => Ok(Outcome::NotAcquired(once.conflict_exit_code)),
    }
}

struct Task<'a> {
    once: &'a Once,
    coordinator: &'a Coordinator,
    work: tenure::Once,
    grace: Duration,
}

impl Task<'_> {
    async fn attempt(&self, signals: &mut Signals, facts: &mut Facts) -> Outcome {
        let start = Instant::now();
        let begun = tokio::select! {
            biased;
            signal = signals.ending() => return Outcome::Interrupted(signal),
            begun = self.begin() => begun,
        };
        facts.waited = Some(start.elapsed());
        let attempt = match begun {
            Ok(Some(Begun::Now(attempt))) => attempt,
            Ok(Some(Begun::Before(success))) => {
                facts.token = Some(success.token.get());
                return Outcome::DoneBefore { token: success.token.get(), host: success.by.host, at: success.at };
            }
            Ok(None) => return Outcome::NotAcquired(self.once.conflict_exit_code),
            Err(error) => return error.into(),
        };
        facts.token = Some(attempt.token().get());
        let start = Instant::now();
        let outcome = self.run_and_record(&attempt, signals).await;
        facts.held = Some(start.elapsed());
        if attempt.is_held() {
            start::release(&self.subject().to_string(), self.coordinator, attempt.release()).await;
        }
        outcome
    }

    /// `None` if it is not to be had, or not in time.
    async fn begin(&self) -> tenure::Result<Option<Begun>> {
        match self.once.wait {
            _ if self.once.nonblock => self.work.try_begin().await,
            Some(Duration::ZERO) => self.work.try_begin().await,
            Some(limit) => timeout(limit, self.work.begin()).await.ok().transpose(),
            None => self.work.begin().await.map(Some),
        }
    }

    /// The order is the promise: nothing of the command is left, it is recorded while the lock is held, and only then is it a success.
    async fn run_and_record(&self, attempt: &Attempt, signals: &mut Signals) -> Outcome {
        let (token, command, grace) = (Some(attempt.token().get()), &self.once.command, self.grace);
        let job = Job { tenure: attempt, token, subject: self.subject(), command, grace, drain: None };
        let Finished { outcome, .. } = run(&job, signals, std::future::pending::<Infallible>()).await;
        if !matches!(outcome, Outcome::Completed(End::Code(0))) {
            return outcome;
        }
        match attempt.record().await {
            Ok(_) => outcome,
            Err(error) => self.not_recorded(&error),
        }
    }

    fn not_recorded(&self, error: &Error) -> Outcome {
        let (name, report) = (&self.once.name, error.report());
        let again = "the command has succeeded, but that is not recorded, and it will be run again";
        match error.kind() {
            ErrorKind::SessionLost | ErrorKind::Fenced => {
                Outcome::Lost { reason: format!("{report}; {again}"), end: Some(End::Code(0)) }
            }
            ErrorKind::Unknown => Outcome::Failed {
                code: code::UNAVAILABLE,
                why: format!(
                    "the command has succeeded, but whether that is recorded is not known ({report}): run the same again, or ask tenure \
                     once --status {name}"
                ),
            },
            ErrorKind::Unavailable => Outcome::Failed { code: code::UNAVAILABLE, why: format!("{again}: {report}") },
            ErrorKind::Config | ErrorKind::Denied | ErrorKind::Unsupported => {
                Outcome::Failed { code: code::CONFIG, why: format!("{again}: {report}") }
            }
            _ => Outcome::Failed { code: code::UNEXPECTED, why: format!("{again}: {report}") },
        }
    }

    fn subject(&self) -> Subject<'_> {
        Subject::Lock(&self.once.name)
    }
}
