//! One task per session: it keeps the session alive, owns its deadline, tells its loss once, and leaves queues until they are left.

use std::{
    fmt,
    future::Future,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::{
    runtime::Handle,
    sync::{mpsc, oneshot},
    task::{JoinHandle, JoinSet},
    time::{sleep, timeout},
};

use crate::{
    backend::{Opened, Session},
    clock::{Clock, Moment},
    error::{Error, ErrorKind, Result},
    health::{Health, Heart, Pulse, health},
    queue::{ContenderId, QueueName, Snapshot, Wake},
};

/// Why a tenure is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LossReason {
    /// No keep-alive succeeded in time: the deadline has passed.
    Expired,
    /// The backend has ended the session, or the coordinator was closed.
    SessionEnded,
    /// The data of the backend was replaced by another or an older copy, as by a restore from a backup. Tokens may repeat, unless
    /// `token_base` is raised above every token that was given.
    DataReplaced,
    /// Somebody removed the entry.
    Removed,
    /// It was given up, since the application did not say that it is well.
    Unwell,
}

impl fmt::Display for LossReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Expired => "it could not be renewed before its deadline",
            Self::SessionEnded => "its session has ended",
            Self::DataReplaced => {
                "the data of the backend was replaced by another or an older copy, as by a restore from a backup: tokens may \
                 repeat, so raise token_base above every token that was given"
            }
            Self::Removed => "its entry was removed by somebody else",
            Self::Unwell => "the application was not well",
        })
    }
}

/// What is taken off what a backend grants: for clocks of different speed, and for the time a loss takes to be acted on.
pub(crate) fn margin(ttl: Duration) -> Duration {
    (ttl / 10).max(Duration::from_millis(200))
}

/// Bounds one call, whatever the backend does; a call that is given up may still take effect (contract clause 6).
async fn in_time<T>(ttl: Duration, call: impl Future<Output = Result<T>>) -> Result<T> {
    let limit = period(ttl);
    timeout(limit, call).await.unwrap_or_else(|_| Err(no_answer(limit)))
}

/// There was no answer in time.
pub(crate) fn no_answer(limit: Duration) -> Error {
    let limit = Duration::from_millis(u64::try_from(limit.as_millis()).unwrap_or(u64::MAX));
    let limit = humantime::format_duration(limit);
    Error::new(ErrorKind::Unavailable, format!("the backend did not answer within {limit}"))
}

/// How often a session is renewed.
pub(crate) fn period(ttl: Duration) -> Duration {
    ttl / 3
}

/// A session that is kept alive for as long as a clone of this exists.
#[derive(Clone, Debug)]
pub(crate) struct Keeper {
    pub(crate) session: Arc<dyn Session>,
    pub(crate) pulse: Pulse,
    pub(crate) clock: Clock,
    commands: mpsc::UnboundedSender<Command>,
    runtime: Handle,
    ttl: Duration,
    trouble: Trouble,
}

/// What calls that are still being repeated have last failed with: for whoever has less patience than they have.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trouble(Arc<Mutex<Option<Error>>>);

impl Trouble {
    fn note(&self, error: Error) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
    }

    /// Takes it out, if there was any.
    pub(crate) fn take(&self) -> Option<Error> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

enum Command {
    Leave(Leave),
    /// A call has answered that the session is over.
    SessionLost(LossReason),
    Close(oneshot::Sender<Result<()>>),
}

/// An entry to be left: after `entering` has come to its end, so that the leave cannot overtake it.
pub(crate) struct Leave {
    pub(crate) queue: QueueName,
    pub(crate) id: ContenderId,
    pub(crate) entering: Option<JoinHandle<()>>,
    pub(crate) left: Option<oneshot::Sender<Result<()>>>,
}

impl Keeper {
    /// Starts to keep a session alive, in a task of the present runtime.
    pub(crate) fn start(opened: Opened, clock: Clock) -> Self {
        let session: Arc<dyn Session> = opened.session.into();
        let deadline = opened.deadline - margin(opened.ttl);
        let (heart, pulse) = health(deadline, clock.clone());
        let (commands, inbox) = mpsc::unbounded_channel();
        let task = KeepAlive {
            session: session.clone(),
            clock: clock.clone(),
            ttl: opened.ttl,
            deadline,
            heart,
            inbox,
            leaving: JoinSet::new(),
        };
        tokio::spawn(task.run());
        let (runtime, trouble) = (Handle::current(), Trouble::default());
        Self { session, pulse, clock, commands, runtime, ttl: opened.ttl, trouble }
    }

    /// The same, with a place of its own for what its calls fail with.
    pub(crate) fn noting(self, trouble: &Trouble) -> Self {
        Self { trouble: trouble.clone(), ..self }
    }

    /// Whether new work can be bound to the session: it is ours, and somebody renews it.
    pub(crate) fn is_usable(&self) -> bool {
        self.pulse.is_held() && !self.commands.is_closed()
    }

    /// Runs in the runtime of the session, so that it does not end with the caller's.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) -> JoinHandle<()> {
        self.runtime.spawn(work)
    }

    /// Never blocks, spawns or fails: the task that already runs does the work, and if it has ended so has the session.
    pub(crate) fn leave(&self, leave: Leave) {
        let _ = self.commands.send(Command::Leave(leave));
    }

    /// Makes a call, and repeats it while the backend is unavailable (contract clause 5), until the session is lost or there is an answer.
    pub(crate) async fn call<T, F: Future<Output = Result<T>>>(&self, mut call: impl FnMut() -> F) -> Result<T> {
        self.retry(|| in_time(self.ttl, call())).await
    }

    /// Waits for a change of a queue; like any wait, it may end early for no reason. It does so after three ttls, in case the backend has
    /// stopped watching without a word.
    pub(crate) async fn wait(&self, queue: &QueueName, seen: &Snapshot, wake: Wake<'_>) -> Result<()> {
        self.retry(|| async { timeout(3 * self.ttl, self.session.wait(queue, seen, wake)).await.unwrap_or(Ok(())) })
            .await
    }

    async fn retry<T, F: Future<Output = Result<T>>>(&self, mut call: impl FnMut() -> F) -> Result<T> {
        let attempts = async {
            let mut pause = Pause::new();
            loop {
                match call().await {
                    Err(error) if error.is_retryable() => {
                        let pause = pause.after(&error);
                        self.trouble.note(error);
                        pause.await;
                    }
                    answer => return answer,
                }
            }
        };
        let answer = tokio::select! {
            biased;
            reason = self.pulse.lost() => return Err(lost("the session", reason)),
            answer = attempts => answer,
        };
        self.heed(answer).await
    }

    /// Makes a call once, and waits for its answer even if the session is lost meanwhile: for what must not be done twice, and whose outcome
    /// is to be known.
    pub(crate) async fn once<T>(&self, call: impl Future<Output = Result<T>>) -> Result<T> {
        let answer = in_time(self.ttl, call).await;
        self.heed(answer).await
    }

    /// How long the session lives after a keep-alive.
    pub(crate) fn ttl(&self) -> Duration {
        self.ttl
    }

    /// If a call has answered that the session is over, it is lost before the caller hears of it.
    async fn heed<T>(&self, answer: Result<T>) -> Result<T> {
        if let Some(error) = answer.as_ref().err().filter(|error| error.kind() == ErrorKind::SessionLost) {
            let _ = self.commands.send(Command::SessionLost(error.loss()));
            self.pulse.lost().await;
        }
        answer
    }

    /// Leaves all queues and ends the session.
    pub(crate) async fn close(&self) -> Result<()> {
        let (closed, answer) = oneshot::channel();
        let _ = self.commands.send(Command::Close(closed));
        match timeout(self.ttl, answer).await {
            Ok(Ok(answer)) => answer,
            _ if !self.pulse.is_held() => Ok(()), // the session has ended before
            _ => Err(unattended()),
        }
    }
}

/// The task of the session does not run: its runtime has ended, or nobody drives it.
pub(crate) fn unattended() -> Error {
    let message =
        "the runtime that the session was opened in does not run any more: what is bound to it ends with the ttl";
    Error::new(ErrorKind::Unavailable, message)
}

/// The error for what a loss has ended.
pub(crate) fn lost(what: impl fmt::Display, reason: LossReason) -> Error {
    Error::new(ErrorKind::SessionLost, format!("{what} is lost: {reason}")).with_loss(reason)
}

/// The growing pause between attempts: 20 ms, doubling up to a second.
pub(crate) struct Pause(Duration);

impl Pause {
    pub(crate) fn new() -> Self {
        Self(Duration::from_millis(20))
    }

    pub(crate) fn after(&mut self, error: &Error) -> impl Future<Output = ()> + use<> {
        tracing::debug!(error = error.report(), pause = ?self.0, "trying again");
        self.sleep()
    }

    pub(crate) fn sleep(&mut self) -> impl Future<Output = ()> + use<> {
        let pause = sleep(self.0);
        self.0 = (self.0 * 2).min(Duration::from_secs(1));
        pause
    }
}

struct KeepAlive {
    session: Arc<dyn Session>,
    clock: Clock,
    ttl: Duration,
    deadline: Moment,
    heart: Heart,
    inbox: mpsc::UnboundedReceiver<Command>,
    leaving: JoinSet<()>,
}

impl KeepAlive {
    async fn run(mut self) {
        let kept = self.keep().await;
        let reason = *kept.as_ref().err().unwrap_or(&LossReason::SessionEnded);
        let _ = self.heart.publish(Health::Lost(reason)); // before the backend can hear of a close
        let Ok(closing) = kept else {
            tracing::warn!(%reason, "session lost");
            drop((self.inbox, self.leaving)); // what is still to be left ends with the session
            give_back(&*self.session, self.ttl).await;
            return;
        };
        let ended = timeout(self.clock.until(self.deadline), async {
            while self.leaving.join_next().await.is_some() {}
            self.session.close().await
        })
        .await;
        let late =
            || Err(Error::new(ErrorKind::Unavailable, "the session could not be closed in time: it will expire"));
        let ended = ended.unwrap_or_else(|_| late());
        let is_open = ended.is_err();
        if let Some(closed) = closing {
            let _ = closed.send(ended);
        }
        if is_open {
            give_back(&*self.session, self.ttl).await;
        }
    }

    /// Renews until the session is lost (`Err`), or is to be closed.
    async fn keep(&mut self) -> Result<Option<oneshot::Sender<Result<()>>>, LossReason> {
        // A session that took long to open has used up a part of its time.
        let age = self.ttl.saturating_sub(self.clock.until(self.deadline + margin(self.ttl)));
        let mut renewal = Box::pin(self.renewal(period(self.ttl).saturating_sub(age)));
        loop {
            tokio::select! {
                biased;
                () = self.clock.sleep_until(self.deadline) => return Err(LossReason::Expired),
                answer = &mut renewal => {
                    let next = self.renewed(answer)?;
                    renewal = Box::pin(self.renewal(next));
                }
                command = self.inbox.recv() => match command {
                    Some(Command::Leave(entry)) => {
                        self.leaving.spawn(leave(self.session.clone(), self.ttl, entry));
                    }
                    Some(Command::SessionLost(reason)) => return Err(reason),
                    Some(Command::Close(closed)) => return Ok(Some(closed)),
                    None => return Ok(None),
                },
                Some(_) = self.leaving.join_next() => {}
            }
        }
    }

    /// The next renewal, after a pause. Not bound to `self`, so that commands are served meanwhile.
    fn renewal(&self, pause: Duration) -> impl Future<Output = Result<Moment>> + Send + use<> {
        let (session, clock, ttl) = (self.session.clone(), self.clock.clone(), self.ttl);
        async move {
            clock.sleep_until(clock.now() + pause).await;
            in_time(ttl, session.keep_alive()).await
        }
    }

    /// Takes the answer to a renewal, and says when to send the next one.
    fn renewed(&mut self, answer: Result<Moment>) -> Result<Duration, LossReason> {
        let (heard, next) = match answer {
            Ok(granted) => {
                self.deadline = granted - margin(self.ttl);
                (Health::Held(self.deadline), period(self.ttl))
            }
            Err(error) if error.kind() == ErrorKind::SessionLost => {
                tracing::warn!(error = error.report(), "the backend has ended the session");
                return Err(error.loss());
            }
            Err(error) => {
                tracing::warn!(error = error.report(), left = ?self.clock.until(self.deadline), "keep-alive failed");
                let soon = (self.ttl / 20).clamp(Duration::from_millis(50), Duration::from_secs(1));
                (Health::InJeopardy(self.deadline), soon)
            }
        };
        match self.heart.publish(heard) {
            Health::Lost(reason) => Err(reason), // an answer that comes too late revives nothing
            _ => Ok(next),
        }
    }
}

/// Ends a session that we do without, but that may live on for the backend: after an outage it may count the whole ttl anew, and nobody is to
/// wait for that. Only a favour: nothing depends on it.
async fn give_back(session: &dyn Session, ttl: Duration) {
    let mut pause = Pause::new();
    let closing = async {
        while let Err(error) = in_time(ttl, session.close()).await {
            if !error.is_retryable() {
                return;
            }
            pause.after(&error).await;
        }
    };
    let _ = timeout(20 * ttl, closing).await; // outages are longer than a ttl
}

/// Leaves once and for all: a shared session must not keep an entry that nobody wants.
async fn leave(session: Arc<dyn Session>, ttl: Duration, entry: Leave) {
    if let Some(entering) = entry.entering {
        let _ = entering.await;
    }
    let mut left = entry.left;
    let mut pause = Pause::new();
    loop {
        match in_time(ttl, session.leave(&entry.queue, &entry.id)).await {
            Err(error) if error.kind() != ErrorKind::SessionLost => {
                if !error.is_retryable() {
                    tracing::warn!(queue = %entry.queue, error = error.report(), "cannot leave; trying on");
                }
                pause.after(&error).await;
                if let Some(left) = left.take_if(|_| !error.is_retryable()) {
                    let _ = left.send(Err(error));
                }
            }
            answer => {
                if let Some(left) = left {
                    let _ = left.send(answer);
                }
                return;
            }
        }
    }
}
