//! What a grant is, in the hands of its holder.

use std::{error::Error as StdError, fmt, future::Future, ops::Deref, pin::pin, task::Poll, time::Duration};

use futures_core::Stream;
use tokio::{sync::watch, task::AbortHandle};

use crate::{
    clock::Moment,
    error::{Error, ErrorKind, Result},
    keeper::{Health, Keeper, LossReason, session_lost},
    place::{Look, Place},
    queue::{Contender, ContenderId, QueueName, Snapshot, Wake},
    token::FencingToken,
};

/// How a tenure stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Renewed, and certainly ours until the deadline.
    Held {
        /// Until when, by the clock of the backend.
        deadline: Moment,
    },
    /// Certainly ours until the deadline, but the last renewal failed.
    InJeopardy {
        /// Until when.
        deadline: Moment,
    },
    /// Over, for good.
    Lost(LossReason),
}

/// The tenure was over before the work was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lost {
    /// Why.
    pub reason: LossReason,
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the lock was lost: {}", self.reason)
    }
}

impl StdError for Lost {}

impl From<Lost> for Error {
    fn from(lost: Lost) -> Self {
        session_lost(lost.reason)
    }
}

/// The right to act, for a time: what every guard is, whatever was asked for.
///
/// Until the deadline nobody else can be granted what is incompatible with it; each keep-alive moves the deadline on. The limit: between
/// a look at the clock and the act, a process may be paused for any time. Where that matters, the protected resource must check the
/// [fencing token](LockGuard::token).
#[derive(Debug)]
pub struct Tenure {
    place: Place,
    removed: watch::Receiver<bool>,
    watch: AbortOnDrop,
}

impl Tenure {
    /// How long a guard is held before it starts to watch its own entry. Short locks do not pay for it.
    const WATCH_AFTER: Duration = Duration::from_millis(500);

    pub(crate) fn start(place: Place, seen: Snapshot, me: Contender) -> Self {
        let (removal, removed) = watch::channel(false);
        let own = OwnEntry { keeper: place.keeper().clone(), queue: place.queue().clone(), id: place.id().clone() };
        let watch = AbortOnDrop(place.keeper().spawn(own.watch(seen, me, removal)).abort_handle());
        Self { place, removed, watch }
    }

    /// Whether it is certainly still ours *now*, by the clock: computed at the call, so it is right even if no task of this runtime could
    /// run for a while.
    pub fn is_held(&self) -> bool {
        !matches!(self.state(), State::Lost(_))
    }

    /// The instant until which it is certainly ours, unless it is renewed. `None` once lost.
    pub fn deadline(&self) -> Option<Moment> {
        match self.state() {
            State::Held { deadline } | State::InJeopardy { deadline } => Some(deadline),
            State::Lost(_) => None,
        }
    }

    /// The time left until the deadline: zero once lost.
    pub fn time_left(&self) -> Duration {
        self.deadline().map_or(Duration::ZERO, |deadline| self.place.keeper().clock.until(deadline))
    }

    /// How it stands now.
    pub fn state(&self) -> State {
        self.standing().now()
    }

    /// How it stands, now and after each change, up to and including `Lost`; each state as it was at the time of the look, so states that
    /// came and went between two looks are not shown.
    pub fn states(&self) -> impl Stream<Item = State> + Send + Unpin + use<> {
        Box::pin(futures_util::stream::unfold((self.standing(), None), |(standing, last)| async move {
            let next = match last {
                None => standing.now(),
                Some(State::Lost(_)) => return None,
                Some(last) => standing.changed_from(last).await,
            };
            Some((next, (standing, Some(next))))
        }))
    }

    /// Resolves when it is lost, no later than at the deadline. The future does not borrow the guard.
    ///
    /// # Cancel safety
    /// Cancel safe; may be called any number of times.
    pub fn lost(&self) -> impl Future<Output = LossReason> + Send + use<> {
        let standing = self.standing();
        async move { standing.lost().await }
    }

    /// Runs `work`, and drops it the moment the tenure is lost. `work` is not polled again once the deadline has passed, even if the
    /// process was paused meanwhile; what it has sent before that may still arrive, which is what the token is for.
    ///
    /// # Errors
    /// [`Lost`], without the result of the work.
    pub async fn run<F: Future>(&self, work: F) -> Result<F::Output, Lost> {
        let standing = self.standing();
        let mut loss = pin!(standing.lost());
        let mut work = pin!(work);
        std::future::poll_fn(|context| {
            if let State::Lost(reason) = standing.now() {
                return Poll::Ready(Err(Lost { reason }));
            }
            if let Poll::Ready(reason) = loss.as_mut().poll(context) {
                return Poll::Ready(Err(Lost { reason }));
            }
            work.as_mut().poll(context).map(Ok)
        })
        .await
    }

    /// Asks the backend whether the grant still stands: our entry is there, and it is our turn.
    ///
    /// # Errors
    /// `SessionLost` if it does not; otherwise what the backend failed with, once the deadline has passed.
    pub async fn verify(&self) -> Result<()> {
        if let State::Lost(reason) = self.state() {
            return Err(session_lost(reason));
        }
        match self.place.look(self.place.list().await?)? {
            Look::Granted(..) => Ok(()),
            Look::Gone | Look::Wait(..) => Err(session_lost(LossReason::Removed)),
        }
    }

    /// The name it is for.
    pub fn name(&self) -> &QueueName {
        self.place.queue()
    }

    fn standing(&self) -> Standing {
        Standing { keeper: self.place.keeper().clone(), removed: self.removed.clone() }
    }

    async fn release(self) -> Result<()> {
        let Self { place, watch, removed } = self;
        drop(watch);
        let lost = Standing { keeper: place.keeper().clone(), removed }.now();
        let left = place.leave().await;
        match lost {
            State::Lost(reason) => Err(session_lost(reason)),
            _ => left,
        }
    }
}

#[derive(Debug)]
struct AbortOnDrop(AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// What a tenure depends on, apart from the place: can be looked at after the guard has moved elsewhere.
#[derive(Clone)]
struct Standing {
    keeper: Keeper,
    removed: watch::Receiver<bool>,
}

impl Standing {
    fn now(&self) -> State {
        if *self.removed.borrow() {
            return State::Lost(LossReason::Removed);
        }
        match self.keeper.health() {
            Health::Held(deadline) => State::Held { deadline },
            Health::InJeopardy(deadline) => State::InJeopardy { deadline },
            Health::Lost(reason) => State::Lost(reason),
        }
    }

    async fn changed_from(&self, last: State) -> State {
        let mut removed = self.removed.clone();
        loop {
            let now = self.now();
            if now != last {
                return now;
            }
            let removal = async {
                if removed.wait_for(|removed| *removed).await.is_err() {
                    std::future::pending::<()>().await; // nobody watches any more: only the session can end it
                }
            };
            let health = self.keeper.health();
            tokio::select! {
                () = removal => {}
                _ = self.keeper.changed_from(health) => {}
            }
        }
    }

    async fn lost(&self) -> LossReason {
        let mut state = self.now();
        loop {
            match state {
                State::Lost(reason) => return reason,
                standing => state = self.changed_from(standing).await,
            }
        }
    }
}

/// Watches a holder's own entry, so that its removal by hand is told within a second.
struct OwnEntry {
    keeper: Keeper,
    queue: QueueName,
    id: ContenderId,
}

impl OwnEntry {
    async fn watch(self, seen: Snapshot, me: Contender, removal: watch::Sender<bool>) {
        tokio::time::sleep(Tenure::WATCH_AFTER).await;
        let Self { keeper, queue, id } = self;
        let (mut seen, mut me) = (seen, me);
        loop {
            let change = async {
                keeper.wait(&queue, &seen, Wake::Gone(&me)).await?;
                keeper.call(|| keeper.session.list(&queue)).await
            };
            match change.await {
                Ok(list) => match list.queue.iter().find(|contender| contender.id == id).cloned() {
                    Some(still) => (seen, me) = (list, still),
                    None => break,
                },
                Err(error) if error.kind() == ErrorKind::SessionLost => return, // the keeper tells
                Err(error) => {
                    tracing::warn!(queue = %queue, error = error.report(), "cannot watch the own entry");
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
            }
        }
        tracing::warn!(queue = %queue, "the own entry was removed by somebody else");
        let _ = removal.send(true);
    }
}

/// Nobody else holds anything on this name.
///
/// Dropping it releases in the background: it only sends a message, needs no runtime, and cannot panic. If the process ends before that
/// is done, the ttl does it. A panic releases too; there is no poisoning, and no re-entrancy: two tasks of one process exclude each
/// other like strangers.
#[must_use = "the lock is released when the guard is dropped"]
#[clippy::has_significant_drop]
#[derive(Debug)]
pub struct LockGuard {
    tenure: Tenure,
    token: FencingToken,
}

impl LockGuard {
    pub(crate) fn new(tenure: Tenure, token_base: u64) -> Result<Self> {
        let token = tenure.place.token().raised_by(token_base)?;
        Ok(Self { tenure, token })
    }

    /// The number that proves our place in the order of holders; hand it to the protected resource with every request.
    pub fn token(&self) -> FencingToken {
        self.token
    }
}

/// A share in a name that only readers hold. It has no token, since readers would fence each other out.
///
/// Dropping it releases in the background, as with [`LockGuard`].
#[must_use = "the lock is released when the guard is dropped"]
#[clippy::has_significant_drop]
#[derive(Debug)]
pub struct ReadGuard {
    pub(crate) tenure: Tenure,
}

/// One of at most so many permits of a name. It has no token, since permit holders would fence each other out.
///
/// Dropping it releases in the background, as with [`LockGuard`].
#[must_use = "the permit is released when it is dropped"]
#[clippy::has_significant_drop]
#[derive(Debug)]
pub struct Permit {
    pub(crate) tenure: Tenure,
}

macro_rules! guard {
    ($name:ident) => {
        impl $name {
            /// Releases, and waits until the backend has said so.
            ///
            /// # Errors
            /// `SessionLost` if it had been lost before. Any other kind: the backend refuses; it is tried on until the session ends.
            ///
            /// # Cancel safety
            /// If the future is dropped, the release goes on in the background.
            pub async fn release(self) -> Result<()> {
                self.tenure.release().await
            }
        }

        impl Deref for $name {
            type Target = Tenure;

            fn deref(&self) -> &Tenure {
                &self.tenure
            }
        }
    };
}

guard!(LockGuard);
guard!(ReadGuard);
guard!(Permit);
