//! Being in office.

use std::{
    ops::Deref,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::time::{Instant, timeout};

use super::{
    control::{Request, asked},
    gate::Gate,
    history::Notes,
};
use crate::{
    error::{ErrorKind, Result},
    fenced::Fence,
    guard::{LockGuard, Tenure},
    keeper::{Keeper, LossReason, Pause, lost},
    queue::{Contender, ContenderId, QueueName, Version, Wake, check_value},
    token::FencingToken,
};

/// Nobody else leads: what [`Election::campaign`](super::Election::campaign) has won.
///
/// What is said of [`LockGuard`] is true of it too: it derefs to [`Tenure`], for `is_held`, `lost()`, `states()` and the rest; dropping it
/// resigns in the background.
#[must_use = "dropping it resigns"]
#[clippy::has_significant_drop]
#[derive(Debug)]
pub struct Leadership {
    guard: LockGuard,
    office: Office,
    health: Option<Gate>,
    /// Its place in the history, if there is to be one.
    notes: Option<Notes>,
}

/// What can be done in office, apart from leaving it. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Office {
    keeper: Keeper,
    queue: QueueName,
    me: Contender,
    token: FencingToken,
    /// The same as the backend counts.
    entered: FencingToken,
    priority: u32,
    hysteresis: Duration,
    /// When it came into office.
    since: Instant,
    /// Of the value, as far as we know.
    version: Arc<Mutex<Version>>,
    /// One update at a time, in the order of the calls.
    updating: Arc<tokio::sync::Mutex<()>>,
}

impl Leadership {
    pub(crate) fn new(guard: LockGuard, priority: u32, hysteresis: Duration, health: Option<Gate>) -> Self {
        let entry = guard.entry();
        let office = Office {
            keeper: entry.keeper().clone(),
            queue: entry.queue().clone(),
            me: entry.me().clone(),
            token: guard.token(),
            entered: entry.token(),
            priority,
            hysteresis,
            since: Instant::now(),
            version: Arc::new(Mutex::new(entry.version())),
            updating: Arc::default(),
        };
        Self { guard, office, health, notes: None }
    }

    /// Has its place in the history from now on.
    pub(crate) fn noting(self, value: &[u8]) -> Self {
        let notes = Notes::begin(self.office.clone(), value);
        Self { notes: Some(notes), ..self }
    }

    /// The number that proves our place in the order of leaders; hand it to the protected resource with every request.
    pub fn token(&self) -> FencingToken {
        self.guard.token()
    }

    /// Our entry in the queue, as observers see it.
    pub fn id(&self) -> &ContenderId {
        &self.office.me.id
    }

    /// Replaces the value that observers see, without leaving office. While the backend is away it tries on, until the leadership is lost.
    ///
    /// # Errors
    /// `SessionLost` once the leadership is lost, `Config` for a value of more than 64 KiB.
    ///
    /// # Cancel safety
    /// If the future is dropped, the value may or may not be replaced.
    pub async fn update(&self, value: impl AsRef<[u8]>) -> Result<()> {
        self.office.update(value.as_ref()).await
    }

    /// Returns once somebody has asked this leader to resign ([`Election::ask_to_resign`](super::Election::ask_to_resign)), or a candidate that
    /// is preferred has waited for long enough, and so has this leader led. Then call [`Leadership::resign`]. Needs one more watch.
    ///
    /// # Errors
    /// As [`Leadership::update`].
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn asked_to_resign(&self) -> Result<()> {
        self.office.asked_to_resign().await
    }

    /// Returns once the application has not been [well](super::Election::healthy_while) twice in a row; never if nobody asks it. Then call
    /// [`Leadership::resign`].
    ///
    /// # Cancel safety
    /// Cancel safe, but what it has heard so far is forgotten.
    pub async fn unwell(&self) {
        match &self.health {
            Some(gate) => gate.until_unwell().await,
            None => std::future::pending().await,
        }
    }

    /// Resigns, and waits until the backend has said so. The next in line leads as soon as it has seen it.
    ///
    /// # Errors
    /// As [`LockGuard::release`].
    ///
    /// # Cancel safety
    /// As [`LockGuard::release`].
    pub async fn resign(self) -> Result<()> {
        self.resign_because("it has resigned").await
    }

    /// As [`Leadership::resign`], for a reason that the [history](super::Election::with_history) keeps, if there is one: that is waited for, half a
    /// second at most.
    ///
    /// # Errors
    /// As [`LockGuard::release`].
    ///
    /// # Cancel safety
    /// As [`LockGuard::release`].
    pub async fn resign_because(self, why: &str) -> Result<()> {
        let Self { guard, notes, .. } = self;
        note_end(&guard, notes, why).await;
        guard.release().await
    }

    /// Resigns in favour of the candidate with this id, and waits until that one is first in line (`true`; one whose process has died is so until
    /// its session is over), or is not in line any more (`false`): then the next in line leads. See [`Election::ask_to_resign`](super::Election::ask_to_resign) for how the others make room. Those who make
    /// none, such as a lock on the same name, are waited for.
    ///
    /// # Errors
    /// As [`LockGuard::release`].
    ///
    /// # Cancel safety
    /// If the future is dropped, the resignation goes on in the background, and the next in line may lead.
    pub async fn resign_to(self, to: &ContenderId) -> Result<bool> {
        let Self { guard, office, notes, .. } = self;
        let Office { keeper, queue, token, .. } = office;
        let request = Request { leader: Some(token), to: Some(to.to_string()), priority: None };
        let _request = request.make(&keeper, &queue).await?;
        note_end(&guard, notes, &format!("it has resigned in favour of {to}")).await;
        guard.release().await?;
        loop {
            let seen = keeper.call(|| keeper.session.list(&queue)).await?;
            match seen.queue.iter().position(|contender| contender.id == *to) {
                Some(0) => return Ok(true),
                None => return Ok(false),
                // Any change: the chosen one may vanish while another one leads.
                Some(_) => keeper.wait(&queue, &seen, Wake::Any).await?,
            }
        }
    }

    pub(crate) fn office(&self) -> &Office {
        &self.office
    }
}

/// While it is held: afterwards nobody would be let write.
async fn note_end(guard: &LockGuard, notes: Option<Notes>, why: &str) {
    if let Some(notes) = notes.filter(|_| guard.is_held()) {
        notes.end(why.to_owned()).await;
    }
}

impl Deref for Leadership {
    type Target = Tenure;

    fn deref(&self) -> &Tenure {
        &self.guard
    }
}

impl Office {
    pub(crate) fn token(&self) -> FencingToken {
        self.token
    }

    pub(crate) fn id(&self) -> &ContenderId {
        &self.me.id
    }

    /// What lets the leader write, and nobody else.
    pub(crate) fn fence(&self) -> Fence<'_> {
        Fence { queue: &self.queue, entry: &self.me, token: self.entered, raised: self.token }
    }

    pub(crate) fn keeper(&self) -> &Keeper {
        &self.keeper
    }

    pub(crate) async fn update(&self, value: &[u8]) -> Result<()> {
        check_value(&self.queue, value)?;
        let _one = self.updating.lock().await;
        let mut version = *self.version.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let written =
                self.keeper.call(|| self.keeper.session.write(&self.queue, &self.me.id, version, value)).await;
            match written {
                Ok(next) => {
                    *self.version.lock().unwrap_or_else(PoisonError::into_inner) = next;
                    return Ok(());
                }
                // An update whose future was dropped may have taken effect. Nobody else writes to our entry.
                Err(error) if error.kind() == ErrorKind::Unexpected => {
                    let found = self.keeper.call(|| self.keeper.session.read(&self.queue, &self.me)).await?;
                    let gone = || lost(format_args!("the leadership of '{}'", self.queue), LossReason::Removed);
                    let found = found.ok_or_else(gone)?.version;
                    if std::mem::replace(&mut version, found) == found {
                        return Err(error);
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// By hand at any time; by preference only after the hysteresis in office. A backend that refuses to say is asked again: who leads has to
    /// hear it.
    pub(crate) async fn asked_to_resign(&self) -> Result<()> {
        let ask = |may_yield| asked(&self.keeper, &self.queue, self.token, self.priority, may_yield);
        let mut pause = Pause::new();
        loop {
            let left = self.hysteresis.saturating_sub(self.since.elapsed());
            let answer = match timeout(left, ask(false)).await {
                Ok(answer) => answer,
                Err(_) => ask(true).await,
            };
            match answer {
                Err(error) if error.kind() != ErrorKind::SessionLost => pause.after(&error).await,
                answer => return answer,
            }
        }
    }
}
