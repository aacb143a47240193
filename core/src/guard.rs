//! What a grant is, in the hands of its holder.

use std::{error::Error as StdError, fmt, future::Future, ops::Deref, pin::pin, task::Poll, time::Duration};

use futures_core::Stream;

use crate::{
    clock::Moment,
    error::{Error, Result},
    keeper::{self, LossReason, lost},
    place::{Entry, Look},
    queue::{QueueName, Snapshot},
    standing::{Ender, Ending, Standing},
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
        keeper::lost("the lock", lost.reason)
    }
}

/// The right to act, for a time: what every guard is, whatever was asked for.
///
/// Until the deadline nobody else can be granted what is incompatible with it; each keep-alive moves the deadline on. The limit: between
/// a look at the clock and the act, a process may be paused for any time. Where that matters, the protected resource must check the
/// [fencing token](LockGuard::token).
#[derive(Debug)]
pub struct Tenure {
    entry: Entry,
    ending: Ending,
}

impl Tenure {
    pub(crate) fn start(entry: Entry, seen: Snapshot) -> Self {
        let ending = Ending::start(&entry, seen);
        Self { entry, ending }
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
        self.deadline().map_or(Duration::ZERO, |deadline| self.entry.keeper().clock.until(deadline))
    }

    /// How it stands now.
    pub fn state(&self) -> State {
        // Nobody but us can release it, and we are still here.
        self.standing().now().unwrap_or(State::Lost(LossReason::Removed))
    }

    /// How it stands, now and after each change, up to and including `Lost`; each state as it was at the time of the look, so states that
    /// came and went between two looks are not shown. The stream does not borrow the guard, and ends when that is released.
    pub fn states(&self) -> impl Stream<Item = State> + Send + Unpin + use<> {
        Box::pin(futures_util::stream::unfold((self.standing(), None), |(standing, last)| async move {
            let next = match last {
                None => standing.now()?,
                Some(State::Lost(_)) => return None,
                Some(last) => standing.changed_from(last).await?,
            };
            Some((next, (standing, Some(next))))
        }))
    }

    /// Resolves when it is lost: when the deadline has passed at the latest (within 200 ms, if the machine was suspended then). The future
    /// does not borrow the guard; once that is released it never resolves.
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
        let mut loss = pin!(self.lost());
        let mut work = pin!(work);
        std::future::poll_fn(|context| {
            if let State::Lost(reason) = self.state() {
                return Poll::Ready(Err(Lost { reason }));
            }
            if let Poll::Ready(reason) = loss.as_mut().poll(context) {
                return Poll::Ready(Err(Lost { reason }));
            }
            work.as_mut().poll(context).map(Ok)
        })
        .await
    }

    /// Asks the backend whether the grant still stands: our entry is there, and it is our turn. If not, the guard is lost from then on.
    /// While the backend is away it asks again, until the deadline.
    ///
    /// # Errors
    /// `SessionLost` if it does not stand; any other kind when the backend refuses to say.
    pub async fn verify(&self) -> Result<()> {
        self.check()?;
        match self.entry.look(&self.entry.list_now().await?)? {
            Look::Granted => Ok(()),
            Look::Gone | Look::Wait(_) => {
                self.end_as_removed();
                Err(self.error(LossReason::Removed))
            }
        }
    }

    /// The name it is for.
    pub fn name(&self) -> &QueueName {
        self.entry.queue()
    }

    /// What ends it from elsewhere, even if whoever holds it does not move any more.
    pub(crate) fn ender(&self) -> Ender {
        self.ending.ender(&self.entry)
    }

    pub(crate) fn entry(&self) -> &Entry {
        &self.entry
    }

    /// Whether it is certainly still ours, without asking.
    pub(crate) fn check(&self) -> Result<()> {
        match self.state() {
            State::Lost(reason) => Err(self.error(reason)),
            _ => Ok(()),
        }
    }

    /// The backend has said that the entry does not stand any more.
    pub(crate) fn end_as_removed(&self) {
        self.ending.as_removed();
    }

    fn standing(&self) -> Standing {
        self.ending.standing(&self.entry)
    }

    fn error(&self, reason: LossReason) -> Error {
        lost(format_args!("the lock '{}'", self.name()), reason)
    }

    async fn release(self) -> Result<()> {
        let was_lost = match self.state() {
            State::Lost(reason) => Some(self.error(reason)),
            _ => None,
        };
        let Self { entry, ending } = self;
        drop(ending);
        let left = entry.leave().await;
        was_lost.map_or(left, Err)
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
        let token = tenure.entry.token().raised_by(token_base)?;
        Ok(Self { tenure, token })
    }

    /// The number that proves our place in the order of holders; hand it to the protected resource with every request. Data that is small can be
    /// kept in the service itself, which needs no number: [`LockGuard::fenced`].
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
