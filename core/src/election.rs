//! Leader election: the same queue, told as who leads.

use std::{fmt, sync::Arc, time::Duration};

use self::{
    candidacy::Candidacy,
    gate::Gate,
    leadership::Leadership,
    observe::{Leader, Observer},
};
use crate::{
    coordinator::Coordinator,
    error::{Error, ErrorKind, Result},
    guard::LockGuard,
    queue::{ContenderId, QueueName, check_value},
};

pub(crate) mod candidacy;
pub(crate) mod control;
pub(crate) mod gate;
pub(crate) mod history;
pub(crate) mod leadership;
pub(crate) mod observe;
pub(crate) mod run;

/// An election by name: candidates queue up, and the first one leads.
///
/// At most one candidate leads at a time, with a token higher than all before it, and knows by its own clock when that is over. The limit is that
/// of every [`Tenure`](crate::Tenure): what a leader sent before a pause may arrive after it, so what must never be written by
/// two has to check the [token](Leadership::token). A lock on the same name is one more candidate, which leads under the value that says who
/// holds it.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
/// use tenure_core::{Coordinator, MemoryBackend, Options};
///
/// let coordinator = Coordinator::new(MemoryBackend::new(), Options::default())?;
/// let election = coordinator.election("scheduler");
/// let leadership = election.campaign(b"10.0.0.7:9000").await?;
/// let leader = election.leader().await?.expect("we do");
/// assert_eq!((leader.value.as_slice(), leader.token), (&b"10.0.0.7:9000"[..], leadership.token()));
/// leadership.resign().await?;
/// assert!(election.leader().await?.is_none());
/// # Ok::<(), tenure_core::Error>(()) }).unwrap();
/// ```
#[derive(Clone)]
pub struct Election {
    coordinator: Coordinator,
    name: Arc<str>,
    priority: u32,
    /// How long a preferred candidate waits, and a leader leads, before preference moves the leadership.
    hysteresis: Duration,
    drain: Duration,
    health: Option<Gate>,
    history: bool,
}

impl Election {
    pub(crate) fn new(coordinator: Coordinator, name: &str) -> Self {
        let (hysteresis, drain) = (Duration::from_secs(30), Duration::from_secs(10));
        Self { coordinator, name: name.into(), priority: 0, hysteresis, drain, health: None, history: false }
    }

    /// Prefers this candidate over those of a lower priority (0 unless set). While it waits behind such a leader, for `hysteresis` without a
    /// break, it asks that leader to hand over; the leader does so (in [`Election::run`], after at least as long in office; a
    /// [`Leadership`] by itself says so in [`Leadership::asked_to_resign`]). One that comes and goes faster than that moves nothing.
    #[must_use]
    pub fn preferred(self, priority: u32, hysteresis: Duration) -> Self {
        Self { priority, hysteresis, ..self }
    }

    /// How long the body of [`Election::run`] may take to end when the leadership is given up in good order; 10 seconds unless set. Longer
    /// than that it is dropped. Before a deadline it has the time that is left, which is less. The longer it is, the sooner the body is told in an
    /// outage, and the more terms end that the session would have outlived: see [`Election::run`].
    #[must_use]
    pub fn drain(self, drain: Duration) -> Self {
        Self { drain, ..self }
    }

    /// Stands in line, and leads in [`Election::run`], only while `probe` says that the application is well. It is asked every `period`, and
    /// has as long for the answer. Two answers in a row that are not `true`, or do not come, end the leadership: so who is stuck is out within
    /// four periods, the [drain](Election::drain) time and a second (or a fifth period), if this runtime goes on; and if it does not (tokio stands still if a body blocks the one thread that waits for timers), by the deadline. A [`Leadership`]
    /// by itself says so in [`Leadership::unwell`].
    #[must_use]
    pub fn healthy_while<F>(self, period: Duration, probe: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = bool> + Send + 'static,
    {
        Self { health: Some(Gate::new(period, Arc::new(move || Box::pin(probe())))), ..self }
    }

    /// Waits until it leads. `value` is what observers see, such as an address: at most 64 KiB. Who is not
    /// [well](Election::healthy_while) is not in the queue meanwhile.
    ///
    /// # Errors
    /// As [`Coordinator::lock`].
    ///
    /// # Cancel safety
    /// As [`Coordinator::lock`]: dropping the future withdraws the candidacy, and leaves no leader behind.
    pub async fn campaign(&self, value: impl AsRef<[u8]>) -> Result<Leadership> {
        let queue = self.queue()?;
        check_value(&queue, value.as_ref())?;
        let candidacy =
            Candidacy { queue, value: value.as_ref().into(), priority: self.priority, hysteresis: self.hysteresis };
        let candidate = || self.coordinator.in_rounds(|keeper| candidacy.round(keeper));
        let tenure = match &self.health {
            None => candidate().await?,
            Some(gate) => loop {
                gate.until_well().await;
                tokio::select! {
                    won = candidate() => break won?,
                    () = gate.until_unwell() => {}
                }
            },
        };
        let guard = LockGuard::new(tenure, self.coordinator.options().token_base)?;
        let leadership = Leadership::new(guard, self.priority, self.hysteresis, self.health.clone());
        Ok(if self.history { leadership.noting(value.as_ref()) } else { leadership })
    }

    /// Who leads, as of a moment after the call; `None` if nobody does. It may be over by the time the answer is read.
    ///
    /// # Errors
    /// As [`Coordinator::try_lock`].
    pub async fn leader(&self) -> Result<Option<Leader>> {
        let observer = &self.observer()?;
        self.coordinator.within_limit(|keeper| async move { Ok(observer.look_now(&keeper).await?.0) }).await
    }

    /// All candidates, the leader first, as of a moment after the call.
    ///
    /// # Errors
    /// As [`Coordinator::try_lock`].
    pub async fn candidates(&self) -> Result<Vec<Leader>> {
        let observer = &self.observer()?;
        self.coordinator.within_limit(|keeper| async move { observer.all(&keeper).await }).await
    }

    /// Asks whoever leads to resign in favour of the candidate with this id, of [`Election::candidates`], or of the next in line, and waits
    /// until it has. Those between them make room by queueing up again, so the order of tokens stands; a candidate that vanishes meanwhile is
    /// passed over. `None` if nobody leads. Only a leader in [`Election::run`] obeys, or one that looks at
    /// [`Leadership::asked_to_resign`].
    ///
    /// # Errors
    /// As [`Coordinator::lock`]; `SessionLost` if the session of whoever asks is lost meanwhile, and the request with it; `Config` if there is no
    /// such candidate.
    ///
    /// # Cancel safety
    /// Dropping the future withdraws the request, but it may have been obeyed.
    pub async fn ask_to_resign(&self, to: Option<&ContenderId>) -> Result<Option<Leader>> {
        let observer = self.observer()?;
        let keeper = self.coordinator.session_when_up(Some(self.coordinator.options().connect_timeout)).await?;
        control::ask_to_resign(&keeper, &observer, to).await
    }

    fn observer(&self) -> Result<Observer> {
        Ok(Observer::new(self.queue()?, self.coordinator.options().token_base))
    }

    fn queue(&self) -> Result<QueueName> {
        QueueName::new(&self.name)
    }
}

impl fmt::Debug for Election {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Election").field("name", &self.name).field("priority", &self.priority).finish_non_exhaustive()
    }
}

fn no_candidate(queue: &QueueName, id: &ContenderId) -> Error {
    Error::new(ErrorKind::Config, format!("there is no candidate {id} in '{queue}': write one that is listed"))
}
