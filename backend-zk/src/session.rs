//! A session: ZooKeeper's own, a node that stands for it, and the nodes of its entries. It is on one server at a time, and taken to another
//! one when that does not serve.

use std::{
    fmt,
    sync::{Arc, OnceLock, Weak, atomic::AtomicI64},
    time::Duration,
};

use tenure_core::{
    Clock, Contender, ContenderId, Entered, Error, FencedStore, LossReason, Moment, QueueName, Record, Result, Session,
    Snapshot, Version, Wake, async_trait,
};
use tokio::{runtime::Handle, sync::Mutex, time::timeout};

use crate::{
    data::Removals,
    entries,
    epochs::Epochs,
    error::{Failure, Fault, Refusal, lost},
    hosts::Hosts,
    keys::Keys,
    lease::Lease,
    link::{Identity, Kind, Link, Step},
    places::Places,
    reach::Slot,
    sightings::Sightings,
    token_base, values, watch,
};

/// Why a session is over that nobody has renewed.
pub(crate) const PASSED: &str = "the session is over: its deadline has passed";

/// Why a session is over that was closed.
const CLOSED: &str = "the session is over: it was closed";

/// What is in the node that stands for a session.
pub(crate) const MARK: &[u8] = env!("CARGO_PKG_VERSION").as_bytes();

/// An open session, as its user has it.
pub(crate) struct ZkSession(pub(crate) Arc<Shared>);

/// An open session.
pub(crate) struct Shared {
    pub(crate) me: Weak<Self>,
    pub(crate) keys: Keys,
    pub(crate) clock: Clock,
    /// The number that ZooKeeper gave it, which its nodes have as their owner.
    pub(crate) id: i64,
    /// The node that stands for the session.
    pub(crate) marker: String,
    pub(crate) places: Places,
    pub(crate) epochs: Epochs,
    pub(crate) removals: Removals,
    /// The highest number that a node of ours was given.
    pub(crate) newest: AtomicI64,
    pub(crate) sightings: Sightings,
    pub(crate) hosts: Arc<Hosts>,
    pub(crate) identity: Identity,
    /// For how long the servers keep it without a word.
    pub(crate) timeout: Duration,
    pub(crate) lease: Lease,
    pub(crate) slot: Mutex<Slot>,
    /// Where it was begun, and is kept alive: a caller's runtime may stop at any time, with the slot in its hands.
    pub(crate) runtime: Handle,
    /// One keep-alive at a time.
    beating: Mutex<()>,
    pub(crate) over: OnceLock<(String, LossReason)>,
}

impl Shared {
    /// Makes the node that stands for the session of this link, whose opening was sent then.
    pub(crate) async fn begin(
        hosts: &Arc<Hosts>,
        keys: &Keys,
        clock: &Clock,
        link: Link,
        opening: Moment,
    ) -> Result<Arc<Self>, Failure> {
        let (sessions, id) = (keys.sessions(), link.session());
        let marker = format!("{sessions}/{id:016x}");
        let sent =
            mark(&link, &marker, &sessions, clock).await.map_err(|fault| Failure::of(fault, &link.host, &sessions))?;
        let lease = Lease::new(link.granted, opening);
        lease.renewed(sent, clock.now());
        let shared = Arc::new_cyclic(|me| Self {
            me: me.clone(),
            keys: keys.clone(),
            clock: clock.clone(),
            id,
            marker,
            places: Places::default(),
            epochs: Epochs::default(),
            removals: Removals::default(),
            newest: AtomicI64::new(0),
            sightings: Sightings::default(),
            hosts: hosts.clone(),
            identity: link.identity.clone(),
            timeout: link.granted,
            lease,
            slot: Mutex::new(Slot::new(link)),
            runtime: Handle::current(),
            beating: Mutex::new(()),
            over: OnceLock::new(),
        });
        shared.slot.lock().await.end_in_time(&shared.me); // not before: it would find no session to end
        Ok(shared)
    }

    pub(crate) fn deadline(&self) -> Moment {
        self.lease.deadline()
    }

    pub(crate) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// The time limit of a call: less than what is waited for it, so that a server that is silent is left for another one.
    pub(crate) fn limit(&self) -> Duration {
        (self.timeout / 6).min(Duration::from_secs(5))
    }

    /// Whether the session is still to be used.
    ///
    /// # Errors
    /// `SessionLost`, with the reason, once it is not.
    pub(crate) fn check(&self) -> Result<()> {
        if self.lease.is_over(&self.clock) {
            self.end(PASSED);
        }
        self.over.get().map_or(Ok(()), |(why, reason)| Err(lost(why).with_loss(*reason)))
    }

    /// The session is over for this reason, or for the one before it.
    pub(crate) fn end(&self, why: &str) -> Error {
        self.end_by(LossReason::SessionEnded, why)
    }

    /// The same, with what its loss is put down to.
    pub(crate) fn end_by(&self, reason: LossReason, why: &str) -> Error {
        let (why, reason) = self.over.get_or_init(|| (why.to_owned(), reason));
        lost(why).with_loss(*reason)
    }

    pub(crate) fn end_unmarked(&self) -> Error {
        self.end("the session is over: the node that stands for it has gone, so it has expired or was removed")
    }

    /// One keep-alive, as early as it proves anything.
    async fn renew(&self) -> Result<Moment> {
        let _alone = self.beating.lock().await;
        self.check()?;
        if let Some(due) = self.lease.due() {
            self.clock.sleep_until(due).await;
        }
        let (marker, clock) = (&self.marker, &self.clock);
        let beat = |link: Arc<Link>| async move {
            let sent = clock.now();
            link.check(marker).await.map(|()| (sent, clock.now()))
        };
        match self.attempt(beat).await? {
            Ok((sent, answered)) => {
                let renewed = self.lease.tell(sent, answered);
                renewed.ok_or_else(|| self.end(PASSED))
            }
            Err(Refusal::NoNode) => Err(self.end_unmarked()),
            Err(refusal) => Err(refusal.into_error(&self.marker)),
        }
    }
}

/// Makes the node that stands for a session, and counts it in its parent; answers with when that was asked for.
async fn mark(link: &Link, marker: &str, sessions: &str, clock: &Clock) -> Result<Moment, Fault> {
    loop {
        let sent = clock.now();
        let steps = [Step::Create(marker, Kind::Ephemeral, MARK), Step::Set(sessions, None, b"")];
        match link.commit(&steps).await {
            Err(Fault::Refused(Refusal::NoNode)) => entries::make(link, sessions, Kind::Persistent).await?,
            registered => return registered.map(|()| sent),
        }
    }
}

impl fmt::Debug for ZkSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ZkSession")
            .field("node", &self.0.marker)
            .field("timeout", &self.0.timeout)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl Session for ZkSession {
    async fn keep_alive(&self) -> Result<Moment> {
        let deadline = self.0.renew().await?;
        let strays = self.0.places.strays(&self.0.clock);
        if !strays.is_empty() {
            let session = self.0.clone();
            tokio::spawn(async move { entries::remove_strays(&session, strays).await });
        }
        Ok(deadline)
    }

    async fn enter(&self, queue: &QueueName, id: &ContenderId, value: &[u8]) -> Result<Entered> {
        entries::enter(&self.0, queue, id, value).await
    }

    async fn list(&self, queue: &QueueName) -> Result<Snapshot> {
        entries::list(&self.0, queue).await
    }

    async fn list_now(&self, queue: &QueueName) -> Result<Snapshot> {
        entries::list_now(&self.0, queue).await
    }

    async fn wait(&self, queue: &QueueName, seen: &Snapshot, wake: Wake<'_>) -> Result<()> {
        watch::wait(&self.0, &self.0.keys.queue(queue), seen, wake).await
    }

    async fn leave(&self, queue: &QueueName, id: &ContenderId) -> Result<()> {
        entries::leave(&self.0, queue, id).await
    }

    async fn read(&self, queue: &QueueName, who: &Contender) -> Result<Option<Record>> {
        values::read(&self.0, queue, who).await
    }

    async fn write(&self, queue: &QueueName, id: &ContenderId, version: Version, value: &[u8]) -> Result<Version> {
        values::write(&self.0, queue, id, version, value).await
    }

    async fn settle_token_base(&self, base: u64) -> Result<u64> {
        token_base::settle(&self.0, base).await
    }

    fn fenced(&self) -> Option<&dyn FencedStore> {
        Some(self)
    }

    async fn close(&self) -> Result<()> {
        // Also if it is over for us for another reason: the server may keep it, and what is bound to it, for a while.
        self.0.over.get_or_init(|| (CLOSED.to_owned(), LossReason::SessionEnded));
        let limit = self.0.limit();
        match timeout(limit, self.0.close_at_server()).await {
            Ok(closed) => closed.map_err(Failure::in_session),
            Err(_) => Err(Failure::silent(&self.0.hosts.names(), limit).in_session()),
        }
    }
}
