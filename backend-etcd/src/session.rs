//! A session: a lease, a key that stands for it, and the entries bound to the lease.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use etcd_client::{Compare, CompareOp, KeyValue, PutOptions, Txn, TxnOp};
use tenure_core::{
    Clock, Contender, ContenderId, Entered, Error, ErrorKind, FencedStore, LossReason, Moment, QueueName, Record,
    Result, Session, Snapshot, Version, Wake, async_trait,
};
use tokio::{sync::Mutex, time::Instant};

use crate::{
    data::Unsettled,
    doubts::Doubts,
    endpoints::{Endpoints, Link},
    entries,
    error::{Blame, Failure, lost, no_header},
    keys::Keys,
    lease::Beat,
    look::{Get, snapshot},
    reply::Reply,
    timeline::Timeline,
    token_base, watch,
};

/// An open session.
pub(crate) struct EtcdSession {
    pub(crate) endpoints: Arc<Endpoints>,
    pub(crate) keys: Keys,
    pub(crate) lease: i64,
    /// What was granted.
    pub(crate) ttl: Duration,
    /// The key that stands for the session, and when it was made.
    pub(crate) marker: String,
    pub(crate) made: i64,
    pub(crate) doubts: Doubts,
    pub(crate) unsettled: Unsettled,
    /// The revision of the marker's last change that we know of: what an `enter` or `edit` must find to take effect.
    epoch: AtomicI64,
    pub(crate) timeline: Timeline,
    clock: Clock,
    beat: Mutex<Option<Beat>>,
}

impl EtcdSession {
    /// Makes the key that stands for the session of this lease. Tried once, within `limit`.
    pub(crate) async fn begin(
        endpoints: &Arc<Endpoints>,
        keys: &Keys,
        clock: &Clock,
        (lease, ttl): (i64, Duration),
        limit: Duration,
    ) -> Result<Self, Failure> {
        let marker = keys.session(lease);
        let put = Txn::new().and_then([put_marker(&marker, lease)]);
        let answer = endpoints.attempt(limit, |link| transact(link, put)).await?;
        let header = answer.header().ok_or_else(no_header)?;
        let (made, timeline) = (header.revision(), Timeline::new(header));
        Ok(Self {
            endpoints: endpoints.clone(),
            keys: keys.clone(),
            lease,
            ttl,
            marker,
            made,
            doubts: Doubts::default(),
            unsettled: Unsettled::default(),
            epoch: made.into(),
            timeline,
            clock: clock.clone(),
            beat: Mutex::new(None),
        })
    }

    /// The time limit of a call: less than what is waited for it, so that a server that is silent is left for another one.
    pub(crate) fn limit(&self) -> Duration {
        (self.ttl / 4).min(Duration::from_secs(5))
    }

    /// One transaction on the current server. A failure that is not settled is ambiguous.
    pub(crate) async fn transact(&self, txn: Txn) -> Result<Reply, Failure> {
        let floor = self.timeline.floor()?;
        let answer = self.endpoints.attempt(self.limit(), |link| transact(link, txn)).await?;
        let header = answer.header().ok_or_else(no_header)?;
        self.timeline.follow(floor, header)?;
        Ok(Reply::new(header.revision(), &answer))
    }

    pub(crate) fn get_marker(&self) -> TxnOp {
        Get::entry(&*self.marker).step()
    }

    /// A new epoch: whatever compares the old one comes too late.
    pub(crate) fn next_epoch(&self) -> TxnOp {
        put_marker(&self.marker, self.lease)
    }

    pub(crate) fn in_epoch(&self) -> Compare {
        self.is_in(self.epoch())
    }

    pub(crate) fn is_in(&self, epoch: i64) -> Compare {
        Compare::mod_revision(&*self.marker, CompareOp::Equal, epoch)
    }

    pub(crate) fn epoch(&self) -> i64 {
        self.epoch.load(Ordering::Acquire)
    }

    /// The session's key is the one that it began with.
    pub(crate) fn stands(&self) -> Compare {
        Compare::create_revision(&*self.marker, CompareOp::Equal, self.made)
    }

    pub(crate) fn is_own(&self, key: &str) -> Compare {
        Compare::lease(key, CompareOp::Equal, self.lease)
    }

    pub(crate) fn learn_epoch(&self, revision: i64) {
        self.epoch.fetch_max(revision, Ordering::AcqRel);
    }

    /// Takes the marker, if it is still there.
    ///
    /// # Errors
    /// `SessionLost` if it is not.
    pub(crate) fn check_marker(&self, marker: Option<&KeyValue>) -> Result<()> {
        match marker {
            Some(marker) if marker.create_revision() == self.made => {
                self.learn_epoch(marker.mod_revision());
                Ok(())
            }
            Some(_) => Err(lost("the session is over: its key was removed and made anew")),
            None => Err(lost("the session is over: its lease has expired or was revoked, or its key was removed")),
        }
    }

    /// One keep-alive: for how long the lease lives after it, and the term of the server that answered, from before it did. Two servers
    /// are tried if need be, or three if they fail at once.
    async fn renew(&self) -> Result<(Duration, u64)> {
        let mut beat = self.beat.lock().await;
        let each = (self.ttl / 7).min(Duration::from_secs(5)); // two of them are less than what is waited for a keep-alive
        let end = Instant::now() + 2 * each;
        // A server that is given less may be taken for a silent one although nothing is wrong with it.
        let limit = || Some(each.min(end.saturating_duration_since(Instant::now()))).filter(|left| *left >= each / 2);
        let mut tries = self.endpoints.count() + 1;
        loop {
            tries -= 1;
            let stream = match beat.take().filter(|stream| stream.is_current(&self.endpoints)) {
                Some(stream) => Ok(stream),
                // The answer to the keep-alive that opens a stream is not shown: it is followed by one whose answer is.
                None => Beat::open(&self.endpoints, self.lease, limit().unwrap_or(each / 2)).await,
            };
            let answer = match (stream, limit()) {
                (Ok(stream), Some(limit)) => stream.again(&self.endpoints, limit).await,
                (Ok(stream), None) => {
                    *beat = Some(stream); // the next keep-alive has it from the start
                    return Err(Error::new(ErrorKind::Unavailable, "there was no time left for a keep-alive of etcd"));
                }
                (Err(error), _) => Err(error),
            };
            match answer {
                Ok((stream, answer)) => {
                    let header = answer.header().ok_or_else(no_header)?;
                    self.timeline.same_cluster(header)?;
                    *beat = Some(stream);
                    return Ok((seconds(answer.ttl()).min(self.ttl), header.raft_term()));
                }
                Err(error) if error.is_retryable() && tries > 0 && limit().is_some() => {}
                Err(error) => return Err(error),
            }
        }
    }
}

pub(crate) async fn transact(link: Link, txn: Txn) -> Result<etcd_client::TxnResponse, etcd_client::Error> {
    link.client.kv_client().txn(txn).await
}

pub(crate) fn seconds(count: i64) -> Duration {
    Duration::from_secs(count.try_into().unwrap_or(0))
}

fn put_marker(marker: &str, lease: i64) -> TxnOp {
    TxnOp::put(marker, env!("CARGO_PKG_VERSION"), Some(PutOptions::new().with_lease(lease)))
}

impl fmt::Debug for EtcdSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EtcdSession").field("key", &self.marker).field("ttl", &self.ttl).finish_non_exhaustive()
    }
}

#[async_trait]
impl Session for EtcdSession {
    /// A keep-alive alone proves nothing: a leader that was stopped, and goes on while the others have another one, answers it from what it
    /// remembers (seen on 3.4.23), while the new leader's clock for the lease runs on from before. So a majority has to confirm a leader
    /// of the same term, after both requests were sent: then any later leader is elected later still, and gives the lease a whole ttl from
    /// then. The same look shows when the data is older than it was.
    async fn keep_alive(&self) -> Result<Moment> {
        let sent = self.clock.now();
        let (renewed, confirmed) = tokio::join!(self.renew(), self.confirm());
        match (renewed, confirmed) {
            (Ok((ttl, term)), Ok(confirmed)) if term == confirmed => Ok(sent + ttl),
            (Ok(_), Ok(_)) => {
                Err(Error::new(ErrorKind::Unavailable, "the servers of etcd changed their leader during a keep-alive"))
            }
            (Err(error), Err(other)) if error.kind() == ErrorKind::SessionLost => {
                // That its lease has gone is true after a restore too, and not all that is to be said.
                Err(if other.loss() == LossReason::DataReplaced { other } else { error })
            }
            (_, Err(error)) | (Err(error), _) => Err(error),
        }
    }

    async fn enter(&self, queue: &QueueName, id: &ContenderId, value: &[u8]) -> Result<Entered> {
        entries::enter(self, queue, id, value).await
    }

    async fn list(&self, queue: &QueueName) -> Result<Snapshot> {
        let prefix = self.keys.queue(queue);
        let found = self.look(Get::queue(&prefix)).await?;
        Ok(snapshot(&prefix, found.revision, &found.entries))
    }

    async fn wait(&self, queue: &QueueName, seen: &Snapshot, wake: Wake<'_>) -> Result<()> {
        watch::wait(self, &self.keys.queue(queue), seen, wake).await
    }

    async fn leave(&self, queue: &QueueName, id: &ContenderId) -> Result<()> {
        entries::leave(self, queue, id).await
    }

    async fn read(&self, _: &QueueName, who: &Contender) -> Result<Option<Record>> {
        entries::read(self, who).await
    }

    async fn write(&self, queue: &QueueName, id: &ContenderId, version: Version, value: &[u8]) -> Result<Version> {
        entries::write(self, queue, id, version, value).await
    }

    async fn settle_token_base(&self, base: u64) -> Result<u64> {
        token_base::settle(self, base).await
    }

    /// Tries every server once: a revoke may be repeated.
    async fn close(&self) -> Result<()> {
        self.beat.lock().await.take();
        let end = Instant::now() + self.limit();
        let mut left = u32::try_from(self.endpoints.count()).unwrap_or(u32::MAX);
        loop {
            // A server that fails at once leaves its time to the others; a slow one that is well has enough of it.
            let limit = end.saturating_duration_since(Instant::now()) / left.min(2);
            left -= 1;
            let revoke = |link: Link| async move { link.client.lease_client().revoke(self.lease).await };
            match self.endpoints.attempt(limit, revoke).await {
                Err(failure) if failure.kind == ErrorKind::SessionLost => return Ok(()), // revoked before
                Err(failure) if failure.blame != Blame::Request && left > 0 => {}
                Err(failure) => return Err(failure.into()),
                Ok(_) => return Ok(()),
            }
        }
    }

    fn fenced(&self) -> Option<&dyn FencedStore> {
        Some(self)
    }
}
