//! Runs the command while the lock is held, or the leadership, and sees to it that it ends first.

use std::{ffi::OsString, future::Future, io, pin::pin, time::Duration};

use futures_util::{Stream, StreamExt};
use rustix::process::Signal;
use tenure::{LossReason, State, Tenure};
use tokio::time::{Instant, sleep_until};

use crate::{
    alarm::now,
    child::{Streams, Watched},
    outcome::{Outcome, Subject},
    protocol::{Cause, End, Order, Report},
    say,
    signals::{ENDING, STOPPING, Signals},
    terminal::{self, Terminal},
};

mod kill;

/// What is run, and under what.
#[derive(Debug)]
pub(crate) struct Job<'a> {
    pub(crate) tenure: &'a Tenure,
    pub(crate) token: Option<u64>,
    pub(crate) subject: Subject<'a>,
    pub(crate) command: &'a [OsString],
    pub(crate) grace: Duration,
    /// How long the command may take to end after TERM, INT or QUIT; as long as it likes, if there is no limit.
    pub(crate) drain: Option<Duration>,
}

/// How a run ended.
#[derive(Debug)]
pub(crate) struct Finished<Why> {
    pub(crate) outcome: Outcome,
    /// Somebody asked the command to end.
    pub(crate) stopped: bool,
    /// Why it was to be given up, if the command did not end before it heard of that.
    pub(crate) told: Option<Why>,
}

struct Run<'a> {
    job: &'a Job<'a>,
    watched: Watched,
    terminal: Terminal,
    stopped: bool,
    /// When it must be over, since the command was told to end.
    limit: Option<Instant>,
    lost: Option<(LossReason, Instant)>,
    end: Option<(End, Cause)>,
    /// The watchdog tries to kill what does not die.
    stuck: bool,
    /// Deadlines that the watchdog has not confirmed, and when it is taken for stopped.
    unconfirmed: u32,
    deaf: Option<Instant>,
}

/// Runs the command to its end, to the loss of the lock, or until `due` says that it is to be given up. When it returns, nothing of the
/// command is left, or a message has said so.
pub(crate) async fn run<Why>(job: &Job<'_>, signals: &mut Signals, due: impl Future<Output = Why>) -> Finished<Why> {
    let held = job.tenure;
    let failed = |error: io::Error| Outcome::failed("the command was not started", &error);
    let started = async {
        signals.add_job_control().map_err(failed)?;
        let environment = [
            ("TENURE_NAME", Some(job.subject.name().to_owned())),
            ("TENURE_TOKEN", job.token.map(|token| token.to_string())),
        ];
        let watched = tokio::select! {
            watched = Watched::start(job.command, &environment, Streams::Ours) => watched.map_err(failed)?,
            reason = held.lost() => return Err(lost_before_start(reason)),
        };
        let terminal = Terminal::find().map_err(failed)?; // after the watchdog's start: it changes the signal mask
        let (State::Held { deadline } | State::InJeopardy { deadline }) = held.state() else {
            return Err(lost_before_start(LossReason::Expired));
        };
        watched.order(Order::Start { deadline: deadline.since_boot, grace: job.grace });
        Ok((watched, terminal))
    };
    match started.await {
        Ok((watched, terminal)) => Run::new(job, watched, terminal).finish(signals, due).await,
        Err(outcome) => Finished { outcome, stopped: false, told: None },
    }
}

fn lost_before_start(reason: LossReason) -> Outcome {
    Outcome::Lost { reason: format!("{reason}; the command was not started"), end: None }
}

impl<'a> Run<'a> {
    fn new(job: &'a Job<'a>, watched: Watched, terminal: Terminal) -> Self {
        let (limit, lost, end, deaf) = (None, None, None, None);
        Self { job, watched, terminal, stopped: false, limit, lost, end, stuck: false, unconfirmed: 0, deaf }
    }

    async fn finish<Why>(mut self, signals: &mut Signals, due: impl Future<Output = Why>) -> Finished<Why> {
        let (mut states, mut due, mut told) = (self.job.tenure.states(), pin!(due), None);
        let outcome = loop {
            let overdue = self.overdue();
            tokio::select! {
                biased;
                report = self.watched.next() => match report {
                    None => break self.watchdog_died().await,
                    Some(report) => if let Some(outcome) = self.heard(report) { break outcome },
                },
                state = next(&mut states), if self.lost.is_none() => self.stands(state),
                () = sleep_until(overdue.unwrap_or_else(Instant::now)), if overdue.is_some() => break self.kill().await,
                signal = signals.next() => self.forward(signal),
                why = &mut due, if told.is_none() => {
                    told = Some(why);
                    self.tell_to_end(Signal::TERM);
                }
            }
        };
        drop(self.terminal);
        self.watched.end().await;
        let first = matches!(self.end, Some((_, Cause::Itself)));
        Finished { outcome, stopped: self.stopped, told: told.filter(|_| !first) }
    }

    /// Tells the command to end in good order.
    fn tell_to_end(&mut self, signal: Signal) {
        let drain = self.job.drain.unwrap_or_default();
        let limit = Instant::now() + drain;
        self.limit = Some(self.limit.map_or(limit, |before| before.min(limit)));
        self.watched.order(Order::End { signal: signal.as_raw(), limit: now() + drain });
    }

    fn stands(&mut self, state: State) {
        match state {
            State::Held { deadline } | State::InJeopardy { deadline } => {
                self.watched.order(Order::Deadline(deadline.since_boot));
                self.expect_answer();
            }
            State::Lost(reason) => {
                self.lost = Some((reason, Instant::now()));
                self.watched.order(Order::Kill);
            }
        }
    }

    fn heard(&mut self, report: Report) -> Option<Outcome> {
        match report {
            Report::Started { group } => self.terminal.started(group),
            Report::NotStarted { code, why } => return Some(Outcome::NotStarted { code, why }),
            Report::Noted => (self.unconfirmed, self.deaf) = (0, None),
            Report::TooLate => return Some(lost_before_start(LossReason::Expired)),
            Report::Stopped { signal } => self.command_stopped(signal),
            // To one that was stopped meanwhile, it is history.
            Report::Warned if !self.job.tenure.is_held() => {}
            Report::Warned => say(&format!(
                "{} is about to be lost, since it could not be renewed: the command was told to end",
                self.job.subject
            )),
            Report::Ended { end, cause } => {
                self.end = Some((end, cause));
                self.terminal.take_back();
            }
            Report::Stuck { processes } => {
                self.stuck = true;
                say(&format!("still waiting for the end of killed processes: {processes:?}"));
            }
            Report::Gone { untouchable } => {
                kill::warn_of_survivors(&untouchable);
                return Some(self.outcome());
            }
        }
        None
    }

    /// The lock was held to the end of the command if that came by itself, and no loss had been told for a reason other than the
    /// deadline: of that the watchdog is the judge.
    fn outcome(&self) -> Outcome {
        let end = self.end.map(|(end, _)| end);
        let told_to_end = "it was about to expire, and the command was told to end".to_owned();
        match (self.end, self.lost) {
            (Some((end, Cause::Itself | Cause::Told)), None | Some((LossReason::Expired, _))) => {
                Outcome::Completed(end)
            }
            (Some((_, Cause::Warning)), None) => Outcome::Lost { reason: told_to_end, end },
            // The watchdog did not say it, but we have killed it at the end of the time that it had.
            (None, None) if self.limit.is_some() => Outcome::Completed(End::Signal(Signal::KILL.as_raw())),
            (_, lost) => {
                let reason = lost.map_or(LossReason::Expired, |(reason, _)| reason);
                Outcome::Lost { reason: format!("{reason}; the command was ended"), end }
            }
        }
    }

    fn forward(&mut self, signal: Signal) {
        if self.job.drain.is_some() && STOPPING.contains(&signal) {
            self.stopped = true;
            return self.tell_to_end(signal);
        }
        self.stopped |= self.job.drain.is_none() && ENDING.contains(&signal);
        if signal == Signal::CONT {
            if !self.job.tenure.is_held() {
                return; // we were stopped for too long
            }
            self.terminal.resumed();
        }
        self.watched.order(Order::Signal(signal.as_raw()));
    }

    /// The whole job stops with the command, unless it was stopped only because it lacked a terminal that can be had.
    fn command_stopped(&mut self, signal: i32) {
        let Some(signal) = Signal::from_named_raw(signal) else { return };
        let wants_terminal = [Signal::TTIN, Signal::TTOU].contains(&signal);
        if wants_terminal && self.terminal.lend() {
            self.watched.order(Order::Signal(Signal::CONT.as_raw()));
        } else if self.terminal.is_job_control(signal) {
            self.terminal.take_back();
            terminal::stop_self();
        }
    }
}

/// Ends with the loss of the lock, after which it is not asked again.
async fn next(states: &mut (impl Stream<Item = State> + Unpin)) -> State {
    states.next().await.unwrap_or(State::Lost(LossReason::SessionEnded))
}
