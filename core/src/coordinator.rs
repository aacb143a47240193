//! The front door: locks, shared locks and permits by name, over one session that is opened and re-opened behind the scenes.

use std::{
    num::NonZeroU32,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::time::timeout;

use crate::{
    backend::Backend,
    election::Election,
    error::{Error, ErrorKind, Result},
    guard::{LockGuard, Permit, ReadGuard, State, Tenure},
    health::Health,
    holder::Holder,
    keeper::{Keeper, Pause, Trouble, no_answer, unattended},
    opening::Openings,
    options::Options,
    place::{Entry, Look},
    queue::QueueName,
    rule::{Mode, Turn, turn_after},
};

/// Locks over one backend. Cheap to clone; clones share one session, however many names they use.
///
/// Every name is one queue, whatever is done with it: a writer excludes readers and permit holders of that name too. After a loss the
/// next acquisition opens a fresh session; a guard never survives its own. Dropping the last clone (guards included) ends the session in
/// the background; [`Coordinator::close`] waits for it.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
/// use tenure_core::{Coordinator, MemoryBackend, Options};
///
/// let coordinator = Coordinator::new(MemoryBackend::new(), Options::default())?;
/// let guard = coordinator.lock("invoices").await?;
/// assert!(coordinator.try_lock("invoices").await?.is_none());
/// let sent = guard.run(async { format!("sent with token {}", guard.token()) }).await?;
/// guard.release().await?;
/// assert!(coordinator.try_lock("invoices").await?.is_some());
/// # drop(sent);
/// # Ok::<(), tenure_core::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct Coordinator {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    backend: Arc<dyn Backend>,
    options: Options,
    session: Mutex<Option<Keeper>>,
    opening: Openings,
}

/// How one try to be granted ended.
#[allow(clippy::large_enum_variant, reason = "it lives for one match")]
pub(crate) enum Round {
    Granted(Tenure),
    Busy,
    /// Our entry was removed: enter anew.
    Again,
}

impl Coordinator {
    /// A coordinator over a backend. Nothing is sent yet.
    ///
    /// # Errors
    /// `Config` if the options cannot work.
    pub fn new(backend: impl Backend, options: Options) -> Result<Self> {
        options.check()?;
        let backend = Arc::new(backend);
        let opening = Openings::new(options.connect_timeout.saturating_mul(3)); // it opens, and settles the token base
        let shared = Shared { backend, options, session: Mutex::default(), opening };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Opens the session now, so that what is wrong with address, credentials or settings is told now. Takes at most the
    /// `connect_timeout`.
    ///
    /// # Errors
    /// Any kind; `Unavailable` if nobody answers in time.
    pub async fn connect(&self) -> Result<()> {
        let limit = self.shared.options.connect_timeout;
        within(limit, self.session_when_up(Some(limit))).await.map(drop)
    }

    /// The settings it works by.
    pub fn options(&self) -> &Options {
        &self.shared.options
    }

    /// The backend it works over.
    pub fn backend(&self) -> &Arc<dyn Backend> {
        &self.shared.backend
    }

    /// Waits until nobody else holds anything on this name. First in, first out. While the backend is away it waits on; put a
    /// `tokio::time::timeout` around it for a limit.
    ///
    /// # Errors
    /// `Config` for a bad name, `Denied` and the like when waiting would not help.
    ///
    /// # Cancel safety
    /// Dropping the future gives up the place in the queue; the backend is told in the background.
    pub async fn lock(&self, name: &str) -> Result<LockGuard> {
        LockGuard::new(self.acquire(name, Mode::Write).await?, self.shared.options.token_base)
    }

    /// `None` if somebody holds the name or waits for it. A refused try writes nothing.
    ///
    /// # Errors
    /// As [`Coordinator::lock`], and `Unavailable` if the backend does not serve within the `connect_timeout`: with what it said last, if it
    /// said anything.
    ///
    /// # Cancel safety
    /// As [`Coordinator::lock`].
    pub async fn try_lock(&self, name: &str) -> Result<Option<LockGuard>> {
        let granted = self.try_acquire(name, Mode::Write).await?;
        granted.map(|tenure| LockGuard::new(tenure, self.shared.options.token_base)).transpose()
    }

    /// Waits until only readers hold this name. A waiting writer is not overtaken.
    ///
    /// # Errors
    /// As [`Coordinator::lock`].
    ///
    /// # Cancel safety
    /// As [`Coordinator::lock`].
    pub async fn read(&self, name: &str) -> Result<ReadGuard> {
        Ok(ReadGuard { tenure: self.acquire(name, Mode::Read).await? })
    }

    /// `None` if it would have to wait.
    ///
    /// # Errors
    /// As [`Coordinator::try_lock`].
    ///
    /// # Cancel safety
    /// As [`Coordinator::lock`].
    pub async fn try_read(&self, name: &str) -> Result<Option<ReadGuard>> {
        Ok(self.try_acquire(name, Mode::Read).await?.map(|tenure| ReadGuard { tenure }))
    }

    /// Waits until fewer than `of` permits of this name are held. Where holders and waiters name different limits, the smallest counts.
    ///
    /// # Errors
    /// As [`Coordinator::lock`].
    ///
    /// # Cancel safety
    /// As [`Coordinator::lock`].
    pub async fn permit(&self, name: &str, of: NonZeroU32) -> Result<Permit> {
        Ok(Permit { tenure: self.acquire(name, Mode::Permit(of)).await? })
    }

    /// `None` if it would have to wait.
    ///
    /// # Errors
    /// As [`Coordinator::try_lock`].
    ///
    /// # Cancel safety
    /// As [`Coordinator::lock`].
    pub async fn try_permit(&self, name: &str, of: NonZeroU32) -> Result<Option<Permit>> {
        Ok(self.try_acquire(name, Mode::Permit(of)).await?.map(|tenure| Permit { tenure }))
    }

    /// An election by this name. Nothing is sent yet, and a bad name is told by what is done with it.
    pub fn election(&self, name: &str) -> Election {
        Election::new(self.clone(), name)
    }

    /// How the session stands now, by the clock; `None` while there is none, because nothing has needed one yet, or the backend is away.
    pub fn session_state(&self) -> Option<State> {
        Some(match self.shared.present()?.pulse.health() {
            Health::Held(deadline) => State::Held { deadline },
            Health::InJeopardy(deadline) => State::InJeopardy { deadline },
            Health::Lost(reason) => State::Lost(reason),
        })
    }

    /// Leaves all queues and ends the session; guards that still exist are lost. A `lock` that waits meanwhile goes on in a new session: end
    /// those first. Waits until the backend has said so, or the ttl is over.
    ///
    /// # Errors
    /// What the backend failed with; the session expires then.
    pub async fn close(&self) -> Result<()> {
        let keeper = {
            let _alone = self.shared.opening.alone().await;
            self.shared.replace(None)
        };
        match keeper {
            Some(keeper) => keeper.close().await,
            None => Ok(()),
        }
    }

    async fn acquire(&self, name: &str, mode: Mode) -> Result<Tenure> {
        let queue = QueueName::new(name)?;
        self.in_rounds(|keeper| self.wait_for_turn(keeper, &queue, mode)).await
    }

    /// Tries until it is granted, each time in the session that there is.
    pub(crate) async fn in_rounds<F>(&self, mut round: impl FnMut(Keeper) -> F) -> Result<Tenure>
    where
        F: Future<Output = Result<Round>>,
    {
        let mut pause = Pause::new();
        loop {
            let keeper = self.session_when_up(None).await?;
            match round(keeper).await {
                Ok(Round::Granted(tenure)) => return Ok(tenure),
                Ok(Round::Busy | Round::Again) => {}
                Err(error) if is_lost_or_away(&error) => pause.after(&error).await,
                Err(error) => return Err(error),
            }
        }
    }

    async fn try_acquire(&self, name: &str, mode: Mode) -> Result<Option<Tenure>> {
        let queue = &QueueName::new(name)?;
        self.within_limit(|keeper| async move {
            loop {
                match self.take_if_free(keeper.clone(), queue, mode).await? {
                    Round::Granted(tenure) => return Ok(Some(tenure)),
                    Round::Busy => return Ok(None),
                    Round::Again => {}
                }
            }
        })
        .await
    }

    /// Asks something that needs no turn, within the `connect_timeout`.
    pub(crate) async fn within_limit<T, F>(&self, mut ask: impl FnMut(Keeper) -> F) -> Result<T>
    where
        F: Future<Output = Result<T>>,
    {
        let (limit, trouble) = (self.shared.options.connect_timeout, Trouble::default());
        let attempts = async {
            let mut pause = Pause::new();
            loop {
                let keeper = self.session_when_up(Some(limit)).await?.noting(&trouble);
                match ask(keeper).await {
                    Err(error) if is_lost_or_away(&error) => pause.after(&error).await,
                    answer => return answer,
                }
            }
        };
        timeout(limit, attempts).await.unwrap_or_else(|_| Err(trouble.take().unwrap_or_else(|| no_answer(limit))))
    }

    async fn wait_for_turn(&self, keeper: Keeper, queue: &QueueName, mode: Mode) -> Result<Round> {
        let Some((entry, mut seen)) = Entry::make(keeper, queue.clone(), mode, self.value()).await? else {
            return Ok(Round::Again);
        };
        loop {
            match entry.look(&seen)? {
                Look::Granted => return Ok(Round::Granted(Tenure::start(entry, seen))),
                Look::Gone => return Ok(Round::Again),
                Look::Wait(turn) => seen = entry.wait(&seen, turn).await?,
            }
        }
    }

    /// Looks before it enters, so that tries which are bound to fail disturb nobody.
    async fn take_if_free(&self, keeper: Keeper, queue: &QueueName, mode: Mode) -> Result<Round> {
        let seen = keeper.call(|| keeper.session.list(queue)).await?;
        if turn_after(&seen.queue, mode) != Turn::Mine {
            return Ok(Round::Busy);
        }
        let Some((entry, seen)) = Entry::make(keeper, queue.clone(), mode, self.value()).await? else {
            return Ok(Round::Again);
        };
        match entry.look(&seen)? {
            Look::Granted => Ok(Round::Granted(Tenure::start(entry, seen))),
            Look::Gone => Ok(Round::Again),
            Look::Wait(_) => entry.leave().await.map(|()| Round::Busy),
        }
    }

    fn value(&self) -> Arc<[u8]> {
        Holder::this_process(self.shared.options.program.as_deref()).to_value().into()
    }

    /// The live session, opened if need be; tries for as long as the backend is away, or until most of the limit is over: then it fails
    /// with what the last try failed with, which says more than that there was no answer. A session may be lost before its first use:
    /// then the next one is opened.
    pub(crate) async fn session_when_up(&self, limit: Option<Duration>) -> Result<Keeper> {
        let mut last = None;
        let attempts = async {
            let mut pause = Pause::new();
            loop {
                match self.session().await {
                    Err(error) if error.is_retryable() || error.kind() == ErrorKind::SessionLost => {
                        pause.after(last.insert(error)).await;
                    }
                    answer => return answer,
                }
            }
        };
        let Some(limit) = limit else { return attempts.await };
        let answer = timeout(limit * 9 / 10, attempts).await;
        answer.unwrap_or_else(|_| Err(last.unwrap_or_else(|| no_answer(limit))))
    }

    /// Opening runs to its end in its own task, so that callers with little patience together get somewhere, and leave no sessions behind
    /// that nobody knows.
    async fn session(&self) -> Result<Keeper> {
        let usable = |shared: &Shared| shared.present().filter(Keeper::is_usable);
        if let Some(keeper) = usable(&self.shared) {
            return Ok(keeper);
        }
        let shared = self.shared.clone();
        let opening = tokio::spawn(async move {
            let alone = shared.opening.alone().await;
            if let Some(keeper) = usable(&shared) {
                return Ok(keeper);
            }
            drop(shared.replace(None));
            let keeper = shared.open().await?;
            if !alone.is_superseded() {
                shared.replace(Some(keeper.clone()));
            }
            Ok(keeper)
        });
        opening.await.unwrap_or_else(|ended| {
            let panicked = || Error::new(ErrorKind::Unexpected, "the backend panicked when opening a session");
            Err(if ended.is_panic() { panicked() } else { unattended() })
        })
    }
}

impl Shared {
    /// The session that was opened last, whatever has become of it.
    fn present(&self) -> Option<Keeper> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn replace(&self, keeper: Option<Keeper>) -> Option<Keeper> {
        std::mem::replace(&mut self.session.lock().unwrap_or_else(PoisonError::into_inner), keeper)
    }

    async fn open(&self) -> Result<Keeper> {
        let Self { backend, options, .. } = self;
        let opened = within(options.connect_timeout, backend.open(options.ttl)).await?;
        if opened.ttl < options.ttl {
            let _ = within(options.connect_timeout, opened.session.close()).await;
            let granted = humantime::format_duration(opened.ttl);
            let message = format!("the server grants a ttl of {granted} at most: write ttl = {granted} or less");
            return Err(Error::new(ErrorKind::Config, message));
        }
        let keeper = Keeper::start(opened, backend.clock().clone());
        within(options.connect_timeout, self.settle_token_base(&keeper)).await?;
        Ok(keeper)
    }

    async fn settle_token_base(&self, keeper: &Keeper) -> Result<()> {
        let wanted = self.options.token_base;
        let stored = keeper.call(|| keeper.session.settle_token_base(wanted)).await?;
        if stored == wanted {
            return Ok(());
        }
        let advice = if stored > wanted {
            format!("write token_base = {stored}, as all who use it do")
        } else {
            format!(
                "it can be raised only while nobody else uses the namespace: stop the others first, or write {stored}"
            )
        };
        Err(Error::new(ErrorKind::Config, format!("token_base = {wanted}, but this namespace has {stored}: {advice}")))
    }
}

async fn within<T>(limit: Duration, work: impl Future<Output = Result<T>>) -> Result<T> {
    timeout(limit, work).await.unwrap_or_else(|_| Err(no_answer(limit)))
}

/// Whether the round has failed with its session, or with the runtime of it: then the next round has another.
pub(crate) fn is_lost_or_away(error: &Error) -> bool {
    error.kind() == ErrorKind::SessionLost || error.is_retryable()
}
