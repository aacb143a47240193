//! The life of a candidate that leads whenever it can, until it is told to stop.

use std::{
    future::Future,
    pin::{Pin, pin},
    time::Duration,
};

use tokio::{
    task::JoinHandle,
    time::{Instant, timeout},
};
use tokio_util::sync::CancellationToken;

use super::{
    Election,
    history::why,
    leadership::{Leadership, Office},
};
use crate::{
    error::Result,
    guard::Lost,
    keeper::{LossReason, Pause},
    queue::ContenderId,
    token::FencingToken,
};

/// A term that lasts for so long has not failed at once.
const LONG: Duration = Duration::from_secs(10);

/// One time in office, in the hands of the body that leads.
#[derive(Clone, Debug)]
pub struct Term {
    office: Office,
    end: CancellationToken,
}

impl Term {
    /// The number that proves our place in the order of leaders; hand it to the protected resource with every request.
    pub fn token(&self) -> FencingToken {
        self.office.token()
    }

    /// Our entry in the queue, as observers see it.
    pub fn id(&self) -> &ContenderId {
        self.office.id()
    }

    /// Resolves when the term is to end: finish, and return. There is the [drain](Election::drain) time for it, or what is left until the
    /// deadline.
    pub async fn ended(&self) {
        self.end.cancelled().await;
    }

    /// The same, for what takes such a token.
    pub fn cancellation(&self) -> CancellationToken {
        self.end.clone()
    }

    /// Replaces the value that observers see; see [`Leadership::update`].
    ///
    /// # Errors
    /// As there.
    pub async fn update(&self, value: impl AsRef<[u8]>) -> Result<()> {
        self.office.update(value.as_ref()).await
    }
}

/// Why a term has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TermEnd {
    /// The body has returned.
    Returned,
    /// The candidate was told to stop.
    Stopped,
    /// Somebody has asked it to resign, or a preferred candidate has.
    Asked,
    /// The application is not well.
    Unwell,
    /// No keep-alive has succeeded for so long that there is just the time to end in good order. The session may be saved after that; the
    /// term is over.
    Jeopardy,
    /// The leadership was lost.
    Lost(LossReason),
}

impl Election {
    /// Campaigns, leads, and campaigns again, until `stop` is cancelled. `body` is called once for each term, and only then; what it returns
    /// is polled to its end or dropped before the leadership is given up, and at the deadline at the latest. The limit: a body that is paused
    /// or stuck cannot be dropped. It may go on beside the next one after the deadline, after the drain time if the application is not well, and
    /// after an operator has removed the entry: that is what the token is for. What it spawns is its own to stop.
    ///
    /// A term ends when `stop` is cancelled, when somebody asks for it, when the application is not [well](Election::healthy_while), when the
    /// deadline comes near without a renewal (then [`Term::ended`] resolves, and the body has the [drain](Election::drain) time, or what is left
    /// until the deadline), when the leadership is lost (then the body is dropped), or when the body returns.
    ///
    /// So an outage that the session survives may end a term: the body was told, so that it could end in good order, and what was told is not taken
    /// back. It is told at the deadline less the drain time, or less [`Options::longest_grace`](crate::Options::longest_grace) if that is
    /// shorter. With the default of 10 seconds that is two thirds of the ttl after the last keep-alive: whatever the moment, an outage of less than
    /// a third of the ttl ends no term. With a drain time of 200 ms, one of half a ttl ends none, from a ttl of 4 seconds on.
    ///
    /// # Errors
    /// What waiting would not help, such as `Config` and `Denied`, when campaigning.
    ///
    /// # Cancel safety
    /// Dropping the future drops the body, and then resigns in the background.
    pub async fn run<F: Future<Output = ()>>(
        &self,
        value: impl AsRef<[u8]>,
        stop: CancellationToken,
        mut body: impl FnMut(Term) -> F,
    ) -> Result<()> {
        let mut pause = Pause::new();
        loop {
            let Some(leadership) = self.next_term(value.as_ref(), &stop).await? else { return Ok(()) };
            let token = leadership.token();
            tracing::info!(election = %self.name, %token, "leads");
            let start = Instant::now();
            let (end, leadership) = self.lead(leadership, &stop, &mut body).await;
            tracing::info!(election = %self.name, %token, ?end, "has led");
            if let Err(error) = leadership.resign_because(&why(end)).await {
                tracing::debug!(election = %self.name, error = error.report(), "resigning");
            }
            if start.elapsed() > LONG {
                pause = Pause::new();
            }
            if matches!(end, TermEnd::Returned | TermEnd::Jeopardy | TermEnd::Lost(_)) {
                // Terms that end as soon as they begin must not spin.
                tokio::select! {
                    () = stop.cancelled() => {}
                    () = pause.sleep() => {}
                }
            }
        }
    }

    /// `None` once told to stop.
    async fn next_term(&self, value: &[u8], stop: &CancellationToken) -> Result<Option<Leadership>> {
        tokio::select! {
            biased;
            () = stop.cancelled() => Ok(None),
            won = self.campaign(value) => won.map(Some),
        }
    }

    async fn lead<F: Future<Output = ()>>(
        &self,
        leadership: Leadership,
        stop: &CancellationToken,
        body: &mut impl FnMut(Term) -> F,
    ) -> (TermEnd, Leadership) {
        let (office, end, unwell) = (leadership.office().clone(), CancellationToken::new(), CancellationToken::new());
        let enforcer = self.enforce_health(&leadership, unwell.clone());
        if enforcer.is_some() {
            // It waits to be run by this thread first, and could not if the body blocked that.
            tokio::task::yield_now().await;
        }
        let cause = {
            let term = Term { office: office.clone(), end: end.clone() };
            let work = async { body(term).await }; // called by `run`, which looks whether it is held still
            let mut running = pin!(leadership.run(work));
            let cause = tokio::select! {
                biased;
                ended = &mut running => of(ended),
                () = stop.cancelled() => TermEnd::Stopped,
                () = unwell.cancelled() => TermEnd::Unwell,
                () = self.near_deadline(&leadership) => TermEnd::Jeopardy,
                Ok(()) = office.asked_to_resign() => TermEnd::Asked,
            };
            end.cancel();
            if matches!(cause, TermEnd::Returned | TermEnd::Lost(_)) {
                cause
            } else {
                self.drained(running, cause).await
            }
        };
        (cause, leadership)
    }

    /// In a task of its own: a body that blocks its thread is not to keep the leadership for that.
    fn enforce_health(&self, leadership: &Leadership, unwell: CancellationToken) -> Option<AbortOnDrop> {
        let (gate, ender) = (self.health.clone()?, leadership.ender());
        // Whoever moves still drops the body before, at the end of the drain time.
        let drain = self.drain.saturating_add(gate.period().max(Duration::from_secs(1)));
        let watch = async move {
            gate.until_unwell().await;
            unwell.cancel();
            tokio::time::sleep(drain).await;
            ender.give_up();
        };
        Some(AbortOnDrop(leadership.office().keeper().spawn(watch)))
    }

    /// Lets the body end by itself, for as long as it may. It is dropped by the caller.
    async fn drained(&self, running: Pin<&mut impl Future<Output = Result<(), Lost>>>, cause: TermEnd) -> TermEnd {
        match timeout(self.drain, running).await {
            Ok(Err(lost)) => TermEnd::Lost(lost.reason),
            Ok(Ok(())) => cause,
            Err(_) => {
                tracing::warn!(election = %self.name, drain = ?self.drain, "the body did not end in time, and is dropped");
                cause
            }
        }
    }

    /// Returns when there is just the time to end in good order before the deadline.
    async fn near_deadline(&self, leadership: &Leadership) {
        let (options, clock) = (self.coordinator.options(), &leadership.office().keeper().clock);
        let grace = self.drain.min(options.longest_grace());
        while let Some(deadline) = leadership.deadline() {
            let last = deadline - grace;
            if clock.has_passed(last) {
                return;
            }
            clock.sleep_until(last).await;
        }
    }
}

fn of(ended: Result<(), Lost>) -> TermEnd {
    ended.map_or_else(|lost| TermEnd::Lost(lost.reason), |()| TermEnd::Returned)
}

struct AbortOnDrop(JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}
