//! A backend between a client and its service that fails as networks do: it loses requests and replies, delays, applies late, hangs, and
//! can be cut. It keeps the contract if the backend behind it does; so what breaks under it is core, or that backend.

use std::{
    collections::HashSet,
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicU32, AtomicU64, Ordering},
    },
    time::Duration,
};

use tenure_core::{
    Backend, Clock, Contender, ContenderId, Entered, Error, ErrorKind, FencedStore, Moment, Opened, QueueName, Record,
    Result, Session, Snapshot, Strength, Version, Wake, async_trait,
};
use tokio::{
    sync::{Mutex, watch},
    time::sleep,
};

use crate::dice::Dice;

mod data;

/// How often what happens, per mille of the calls; and for how long.
#[derive(Clone, Copy, Debug)]
pub struct Odds {
    /// The request never arrives.
    pub lose_request: u32,
    /// It takes effect, but the reply never arrives.
    pub lose_reply: u32,
    /// The caller is told that it failed, and it takes effect later.
    pub late: u32,
    /// It takes effect, but never returns.
    pub hang: u32,
    /// The longest delay of a request, and of a reply.
    pub delay: Duration,
    /// The longest time that a late one is late.
    pub lateness: Duration,
}

impl Odds {
    /// Nothing ever fails; what is left is [`Flaky::cut`].
    pub const NONE: Self =
        Self { lose_request: 0, lose_reply: 0, late: 0, hang: 0, delay: Duration::ZERO, lateness: Duration::ZERO };
    /// A bad day: every fourth call fails.
    pub const BAD: Self = Self {
        lose_request: 90,
        lose_reply: 90,
        late: 50,
        hang: 20,
        delay: Duration::from_millis(20),
        lateness: Duration::from_secs(3),
    };
}

/// The decorated backend: one client's way to its service.
#[derive(Debug)]
pub struct Flaky {
    inner: Arc<dyn Backend>,
    way: Arc<Way>,
}

#[derive(Debug)]
struct Way {
    dice: Dice,
    odds: Odds,
    cut: watch::Sender<bool>,
    faults: AtomicU64,
    edits: AtomicU64,
    edits_to_lose: AtomicU32,
}

impl Flaky {
    /// A flaky way to `inner`; the seed repeats it.
    pub fn new(inner: Arc<dyn Backend>, seed: u64, odds: Odds) -> Arc<Self> {
        let (cut, faults) = (watch::Sender::new(false), AtomicU64::new(0));
        let way = Way {
            dice: Dice::new(seed),
            odds,
            cut,
            faults,
            edits: AtomicU64::new(0),
            edits_to_lose: AtomicU32::new(0),
        };
        Arc::new(Self { inner, way: Arc::new(way) })
    }

    /// Cuts this client off, without a word in either direction, or heals it.
    pub fn cut(&self, cut: bool) {
        self.way.cut.send_replace(cut);
    }

    /// Loses the answers to the next so many edits of data, after they have taken effect.
    pub fn lose_answers_to_edits(&self, count: u32) {
        self.way.edits_to_lose.store(count, Ordering::Relaxed);
    }

    /// How many edits of data were passed on.
    pub fn edits(&self) -> u64 {
        self.way.edits.load(Ordering::Relaxed)
    }

    /// How many calls have failed because of this.
    pub fn faults(&self) -> u64 {
        self.way.faults.load(Ordering::Relaxed)
    }
}

impl Way {
    fn fault(&self, per_mille: u32, what: &str) -> Result<()> {
        if !self.dice.happens(per_mille) {
            return Ok(());
        }
        self.faults.fetch_add(1, Ordering::Relaxed);
        Err(Error::new(ErrorKind::Unavailable, format!("{what}, on purpose")))
    }

    async fn pass(&self) {
        if !self.odds.delay.is_zero() {
            sleep(self.dice.time(self.odds.delay)).await;
        }
        let _ = self.cut.subscribe().wait_for(|cut| !cut).await;
    }

    async fn there(&self) -> Result<()> {
        self.pass().await;
        self.fault(self.odds.lose_request, "the request was lost")
    }

    async fn back<T>(&self, answer: Result<T>) -> Result<T> {
        self.pass().await;
        if self.fault(self.odds.hang, "hung").is_err() {
            std::future::pending::<()>().await;
        }
        self.fault(self.odds.lose_reply, "the reply was lost")?;
        answer
    }

    async fn call<T>(&self, call: impl Future<Output = Result<T>> + Send) -> Result<T> {
        self.there().await?;
        let answer = call.await;
        self.back(answer).await
    }
}

#[async_trait]
impl Backend for Flaky {
    fn strength(&self) -> Strength {
        self.inner.strength()
    }

    fn clock(&self) -> &Clock {
        self.inner.clock()
    }

    async fn open(&self, ttl: Duration) -> Result<Opened> {
        let Opened { session, ttl, deadline } = self.way.call(self.inner.open(ttl)).await?;
        let session = FlakySession {
            inner: session.into(),
            way: self.way.clone(),
            given_up: Arc::default(),
            calls: Arc::default(),
        };
        Ok(Opened { session: Box::new(session), ttl, deadline })
    }
}

#[derive(Debug)]
struct FlakySession {
    inner: Arc<dyn Session>,
    way: Arc<Way>,
    /// Ids that have been left: a late enter of one of them is dead (contract clause 6). Locked while one is applied.
    given_up: Arc<Mutex<HashSet<ContenderId>>>,
    /// How many calls on data there were: a late edit from before the last one is dead. Locked while one is applied.
    calls: Arc<Mutex<u64>>,
}

impl FlakySession {
    /// Lets a call take effect some time after its caller was told that it failed.
    fn later(&self, call: impl Future<Output = ()> + Send + 'static) -> Result<()> {
        let late = self.way.fault(self.way.odds.late, "the request was delayed");
        if late.is_err() {
            let lateness = self.way.dice.time(self.way.odds.lateness);
            tokio::spawn(async move {
                sleep(lateness).await;
                call.await;
            });
        }
        late
    }
}

#[async_trait]
impl Session for FlakySession {
    async fn keep_alive(&self) -> Result<Moment> {
        let inner = self.inner.clone();
        self.later(async move { drop(inner.keep_alive().await) })?;
        self.way.call(self.inner.keep_alive()).await
    }

    async fn enter(&self, queue: &QueueName, id: &ContenderId, value: &[u8]) -> Result<Entered> {
        let (inner, given_up) = (self.inner.clone(), self.given_up.clone());
        let (late_queue, late_id, late_value) = (queue.clone(), id.clone(), value.to_vec());
        self.later(async move {
            let given_up = given_up.lock().await;
            if !given_up.contains(&late_id) {
                drop(inner.enter(&late_queue, &late_id, &late_value).await);
            }
        })?;
        self.way.call(self.inner.enter(queue, id, value)).await
    }

    async fn list(&self, queue: &QueueName) -> Result<Snapshot> {
        self.way.call(self.inner.list(queue)).await
    }

    async fn list_now(&self, queue: &QueueName) -> Result<Snapshot> {
        self.way.call(self.inner.list_now(queue)).await
    }

    async fn wait(&self, queue: &QueueName, seen: &Snapshot, wake: Wake<'_>) -> Result<()> {
        self.way.call(self.inner.wait(queue, seen, wake)).await
    }

    async fn leave(&self, queue: &QueueName, id: &ContenderId) -> Result<()> {
        let (inner, late_queue, late_id) = (self.inner.clone(), queue.clone(), id.clone());
        self.later(async move { drop(inner.leave(&late_queue, &late_id).await) })?;
        self.way
            .call(async {
                self.given_up.lock().await.insert(id.clone());
                self.inner.leave(queue, id).await
            })
            .await
    }

    async fn read(&self, queue: &QueueName, who: &Contender) -> Result<Option<Record>> {
        self.way.call(self.inner.read(queue, who)).await
    }

    async fn write(&self, queue: &QueueName, id: &ContenderId, version: Version, value: &[u8]) -> Result<Version> {
        self.way.call(self.inner.write(queue, id, version, value)).await
    }

    async fn settle_token_base(&self, base: u64) -> Result<u64> {
        self.way.call(self.inner.settle_token_base(base)).await
    }

    async fn close(&self) -> Result<()> {
        self.way.call(self.inner.close()).await
    }

    fn fenced(&self) -> Option<&dyn FencedStore> {
        self.inner.fenced().map(|_| self as &dyn FencedStore)
    }
}
