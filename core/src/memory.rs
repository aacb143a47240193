//! The backend that lives in this process: for tests and examples. It can be told to fail in every way that real ones do.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, LazyLock, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use tokio::sync::watch;

use self::world::{State, World, is_changed, lock};
use crate::{
    backend::{Backend, Opened, Session, Strength},
    clock::{Clock, Moment},
    config::Config,
    driver::Driver,
    error::{Error, ErrorKind, Result},
    fenced::FencedStore,
    queue::{Contender, ContenderId, Entered, QueueName, Record, Snapshot, Version, Wake, check_value},
};

mod data;
mod world;

/// A call of [`Backend`], [`Session`] or [`FencedStore`], for [`MemoryBackend::inject`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "they are the names of the methods")]
pub enum Call {
    Open,
    KeepAlive,
    Enter,
    List,
    Wait,
    Leave,
    Read,
    Write,
    SettleTokenBase,
    Close,
    Get,
    Edit,
}

/// What happens to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It never takes effect; the caller is told `Unavailable`.
    LoseRequest,
    /// It takes effect; the caller is told `Unavailable`.
    LoseReply,
    /// It takes effect; the caller is told so that much later.
    DelayReply(Duration),
    /// The caller is told `Unavailable`, and it takes effect so much later, unless it was an `enter` or an `edit` that has been given up.
    ApplyLate(Duration),
    /// It never takes effect, and never returns.
    Hang,
    /// It never takes effect; the caller is told `Denied`.
    Deny,
}

/// A client of a world of queues in this process. It ends with the process, and serves nobody outside of it.
///
/// Clones are the same client; [`MemoryBackend::other_client`] makes another one of the same world. Faults hit one client only.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
/// use tenure_core::{Coordinator, LossReason, MemoryBackend, Options};
///
/// let backend = MemoryBackend::new();
/// let coordinator = Coordinator::new(backend.clone(), Options::default())?;
/// let guard = coordinator.lock("invoices").await?;
/// backend.expire_sessions();
/// assert!(matches!(guard.lost().await, LossReason::SessionEnded));
/// # Ok::<(), tenure_core::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct MemoryBackend {
    world: Arc<World>,
    link: Arc<Link>,
}

/// What one client's calls pass through.
#[derive(Debug)]
struct Link {
    cut: watch::Sender<bool>,
    faults: Mutex<HashMap<Call, VecDeque<Fault>>>,
}

impl MemoryBackend {
    /// A new, empty world by the machine's clock.
    #[expect(clippy::new_without_default, reason = "two default ones would not be equal")]
    pub fn new() -> Self {
        Self::with_clock(Clock::system())
    }

    /// A new, empty world by this clock.
    pub fn with_clock(clock: Clock) -> Self {
        Self::in_world(Arc::new(World::new(clock)))
    }

    fn in_world(world: Arc<World>) -> Self {
        let link = Link { cut: watch::Sender::new(false), faults: Mutex::default() };
        Self { world, link: Arc::new(link) }
    }

    /// Another client of the same world, without this one's faults.
    pub fn other_client(&self) -> Self {
        Self::in_world(self.world.clone())
    }

    /// Makes this happen to the next call of this kind that this client makes; several queue up.
    pub fn inject(&self, call: Call, fault: Fault) {
        lock(&self.link.faults).entry(call).or_default().push_back(fault);
    }

    /// Cuts the client off (calls hang until it is healed), or heals it.
    pub fn cut(&self, cut: bool) {
        self.link.cut.send_replace(cut);
    }

    /// Ends the cut, and forgets the faults that have not happened yet.
    pub fn heal(&self) {
        lock(&self.link.faults).clear();
        self.cut(false);
    }

    /// Ends all sessions, as if their time were over.
    pub fn expire_sessions(&self) {
        let now = self.world.clock.now();
        lock(&self.world.state).sessions.values_mut().for_each(|until| *until = now);
        drop(self.world.state());
    }

    /// Removes an entry, as an operator would; whether there was one.
    pub fn remove(&self, queue: &QueueName, id: &ContenderId) -> bool {
        self.world.state().remove(queue, |entry| entry.id == *id, &self.world.changed)
    }

    /// The queue, as an operator sees it.
    pub fn entries(&self, queue: &QueueName) -> Vec<ContenderId> {
        self.world.state().queues.get(queue).into_iter().flatten().map(|entry| entry.id.clone()).collect()
    }
}

fn unavailable(what: &str) -> Error {
    Error::new(ErrorKind::Unavailable, format!("{what}, as injected"))
}

impl MemoryBackend {
    /// Lets a call through, with the fault that is due for it.
    async fn call<T: Send + 'static>(
        &self,
        call: Call,
        id: Option<&ContenderId>,
        act: impl FnOnce(&World) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        tokio::task::yield_now().await; // real backends have a network here: callers must bear being dropped at it
        let _ = self.link.cut.subscribe().wait_for(|cut| !cut).await;
        let fault = lock(&self.link.faults).get_mut(&call).and_then(VecDeque::pop_front);
        let answer = match fault {
            None => act(&self.world),
            Some(Fault::LoseRequest) => return Err(unavailable("the request was lost")),
            Some(Fault::Deny) => return Err(Error::new(ErrorKind::Denied, "not allowed, as injected")),
            Some(Fault::LoseReply) => act(&self.world).and_then(|_| Err(unavailable("the reply was lost"))),
            Some(Fault::DelayReply(span)) => {
                let answer = act(&self.world);
                tokio::time::sleep(span).await;
                answer
            }
            Some(Fault::Hang) => std::future::pending().await,
            Some(Fault::ApplyLate(after)) => {
                self.apply_late(after, id.cloned(), act);
                return Err(unavailable("the request was delayed"));
            }
        };
        tokio::task::yield_now().await;
        answer
    }

    fn apply_late<T>(
        &self,
        after: Duration,
        id: Option<ContenderId>,
        act: impl FnOnce(&World) -> Result<T> + Send + 'static,
    ) {
        let world = self.world.clone();
        lock(&world.state).late.extend(id.clone());
        tokio::spawn(async move {
            tokio::time::sleep(after).await;
            let wanted = id.is_none_or(|id| lock(&world.state).late.remove(&id));
            if wanted {
                let _ = act(&world);
            }
        });
    }
}

#[async_trait]
impl Backend for MemoryBackend {
    fn strength(&self) -> Strength {
        Strength::Process
    }

    fn clock(&self) -> &Clock {
        &self.world.clock
    }

    async fn open(&self, ttl: Duration) -> Result<Opened> {
        let sent = self.world.clock.now();
        let id = self
            .call(Call::Open, None, move |world| {
                let mut state = world.state();
                state.revision += 1;
                let id = state.revision;
                state.sessions.insert(id, world.clock.now() + ttl);
                Ok(id)
            })
            .await?;
        let session = Box::new(MemorySession { backend: self.clone(), id, ttl });
        Ok(Opened { session, ttl, deadline: sent + ttl })
    }
}

#[derive(Debug)]
struct MemorySession {
    backend: MemoryBackend,
    id: u64,
    ttl: Duration,
}

impl MemorySession {
    /// A call that the world refuses once the session is over.
    async fn alive<T: Send + 'static>(
        &self,
        call: Call,
        id: Option<&ContenderId>,
        act: impl FnOnce(&mut State, &World) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let session = self.id;
        self.backend
            .call(call, id, move |world| {
                let mut state = world.state();
                if !state.sessions.contains_key(&session) {
                    return Err(Error::new(ErrorKind::SessionLost, "the session has expired"));
                }
                act(&mut state, world)
            })
            .await
    }
}

#[async_trait]
impl Session for MemorySession {
    async fn keep_alive(&self) -> Result<Moment> {
        let (session, ttl, sent) = (self.id, self.ttl, self.backend.world.clock.now());
        self.alive(Call::KeepAlive, None, move |state, world| {
            state.sessions.insert(session, world.clock.now() + ttl);
            Ok(sent + ttl)
        })
        .await
    }

    async fn enter(&self, queue: &QueueName, id: &ContenderId, value: &[u8]) -> Result<Entered> {
        check_value(queue, value)?;
        let (session, queue, value) = (self.id, queue.clone(), value.to_vec());
        let entry = id.clone();
        self.alive(Call::Enter, Some(id), move |state, world| {
            Ok(state.enter(session, queue, entry, value, &world.changed))
        })
        .await
    }

    async fn list(&self, queue: &QueueName) -> Result<Snapshot> {
        let queue = queue.clone();
        self.alive(Call::List, None, move |state, _| Ok(state.snapshot(&queue))).await
    }

    async fn wait(&self, queue: &QueueName, seen: &Snapshot, wake: Wake<'_>) -> Result<()> {
        let world = &self.backend.world;
        loop {
            let changed = world.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            let name = queue.clone();
            let (now, expiry) = self
                .alive(Call::Wait, None, move |state, _| {
                    Ok((state.snapshot(&name), state.sessions.values().copied().collect::<Vec<_>>()))
                })
                .await?;
            if is_changed(seen, &now, wake) {
                return Ok(());
            }
            let first = expiry.into_iter().min_by_key(|until| until.since_boot).unwrap_or_else(|| world.clock.now());
            tokio::select! {
                biased;
                () = changed => {}
                () = world.clock.sleep_until(first) => {}
            }
        }
    }

    async fn leave(&self, queue: &QueueName, id: &ContenderId) -> Result<()> {
        let (session, queue, id) = (self.id, queue.clone(), id.clone());
        self.alive(Call::Leave, None, move |state, world| {
            state.late.remove(&id); // given up is dead (contract clause 6)
            state.remove(&queue, |entry| entry.id == id && entry.session == session, &world.changed);
            Ok(())
        })
        .await
    }

    async fn read(&self, queue: &QueueName, who: &Contender) -> Result<Option<Record>> {
        let (queue, id) = (queue.clone(), who.id.clone());
        self.alive(Call::Read, None, move |state, _| Ok(state.entry(&queue, &id).map(|entry| entry.record.clone())))
            .await
    }

    async fn write(&self, queue: &QueueName, id: &ContenderId, version: Version, value: &[u8]) -> Result<Version> {
        check_value(queue, value)?;
        let (session, queue, id, value) = (self.id, queue.clone(), id.clone(), value.to_vec());
        self.alive(Call::Write, None, move |state, world| {
            let written = state.write(session, &queue, &id, version, value);
            world.changed.notify_waiters();
            written
        })
        .await
    }

    async fn settle_token_base(&self, base: u64) -> Result<u64> {
        self.alive(Call::SettleTokenBase, None, move |state, _| {
            let alone = state.sessions.len() == 1;
            let stored = state.token_base.get_or_insert(base);
            if alone {
                *stored = base.max(*stored);
            }
            Ok(*stored)
        })
        .await
    }

    async fn close(&self) -> Result<()> {
        let session = self.id;
        self.backend
            .call(Call::Close, None, move |world| {
                let now = world.clock.now();
                if let Some(until) = lock(&world.state).sessions.get_mut(&session) {
                    *until = now;
                }
                drop(world.state());
                Ok(())
            })
            .await
    }

    fn fenced(&self) -> Option<&dyn FencedStore> {
        Some(self)
    }
}

/// `memory://name`: one world per name, for as long as the process lives.
#[derive(Clone, Copy, Debug)]
pub struct MemoryDriver;

#[async_trait]
impl Driver for MemoryDriver {
    fn scheme(&self) -> &'static str {
        "memory"
    }

    fn example(&self) -> &'static str {
        "memory://shop?ttl=10s"
    }

    fn unused(&self) -> &'static [&'static str] {
        &["path", "ca", "cert", "key", "user", "password", "password_file"]
    }

    async fn connect(&self, config: &Config, clock: &Clock) -> Result<Arc<dyn Backend>> {
        static WORLDS: LazyLock<Mutex<HashMap<String, Arc<World>>>> = LazyLock::new(Mutex::default);
        let name = format!("{}/{}", config.hosts.join(","), config.namespace);
        let mut worlds = lock(&WORLDS);
        let world = worlds.entry(name).or_insert_with(|| Arc::new(World::new(clock.clone())));
        Ok(Arc::new(MemoryBackend::in_world(world.clone())))
    }
}
