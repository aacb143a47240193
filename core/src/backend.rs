//! What a coordination service must do to carry Tenure: hold ordered queues of ephemeral entries, and nothing more.

use std::{
    fmt::{self, Debug},
    str::FromStr,
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;

use crate::{
    clock::{Clock, Moment},
    error::{Error, ErrorKind, Result},
    fenced::FencedStore,
    queue::{Contender, ContenderId, Entered, QueueName, Record, Snapshot, Version, Wake},
};

/// What a backend's answers survive, weakest first, so that a configuration can ask for "at least".
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Strength {
    /// Nothing: it lives in this process.
    Process,
    /// The end of the process: it lives on this host.
    Host,
    /// The end of this host; it is lost, or forks, with the one server.
    SingleServer,
    /// The end of a minority of its servers.
    Consensus,
}

impl Strength {
    const NAMES: [(&'static str, Self); 4] = [
        ("process", Self::Process),
        ("host", Self::Host),
        ("single-server", Self::SingleServer),
        ("consensus", Self::Consensus),
    ];
}

impl fmt::Display for Strength {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Self::NAMES.iter().find(|(_, strength)| strength == self).map_or("unknown", |(name, _)| name))
    }
}

impl FromStr for Strength {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::NAMES.iter().find(|(name, _)| *name == text).map(|(_, strength)| *strength).ok_or_else(|| {
            let known = Self::NAMES.map(|(name, _)| name).join(", ");
            Error::new(ErrorKind::Config, format!("require = '{text}' is no strength: write one of {known}"))
        })
    }
}

/// A session as it was opened.
#[derive(Debug)]
pub struct Opened {
    /// What entries are bound to from now on.
    pub session: Box<dyn Session>,
    /// The validity that one keep-alive gives: at least what was asked for, or the caller refuses it.
    pub ttl: Duration,
    /// Until when the session is certainly ours, counted from the *sending* of the opening request.
    pub deadline: Moment,
}

/// A coordination service that can hold queues of contenders.
#[async_trait]
pub trait Backend: Debug + Send + Sync + 'static {
    /// How much this backend's answers can be relied on.
    fn strength(&self) -> Strength;

    /// The clock that its deadlines are told by.
    fn clock(&self) -> &Clock;

    /// Opens a session: the lifetime that entries are bound to. `ttl` is the validity wanted; what was granted is in the answer.
    async fn open(&self, ttl: Duration) -> Result<Opened>;
}

#[async_trait]
impl<B: Backend + ?Sized> Backend for Arc<B> {
    fn strength(&self) -> Strength {
        (**self).strength()
    }

    fn clock(&self) -> &Clock {
        (**self).clock()
    }

    async fn open(&self, ttl: Duration) -> Result<Opened> {
        (**self).open(ttl).await
    }
}

/// A lifetime, and the queues seen through it.
///
/// # Contract
/// 1. *Order.* An entry never appears in front of one that was already visible to anyone.
/// 2. *Tokens.* In one queue tokens rise in queue order, for as long as the service's data exists.
/// 3. *Life.* An entry ends by `leave`, by `close`, or after its session's deadline; never sooner, except by an operator.
/// 4. *Freshness.* A snapshot is no older than this session's last completed call; that of `list_now` is no older than the call itself.
/// 5. *Retries.* Every call may be repeated after `Unavailable`; the repeat must not do it twice.
/// 6. *Cancelling.* Dropping any future is allowed at any await; the request may still take effect.
///    *Given up is dead:* once `leave(id)` has succeeded, no earlier `enter(id)` may take effect, however late a server gets to it.
/// 7. *Authority.* `keep_alive` is `Ok` only if the authority (leader, quorum, database) extended the session: not a cache, not a
///    follower, not a connection state.
/// 8. *Identity.* An entry is ours only if it was made by this session, with this id.
///
/// Every call must end by itself within a time that the backend states, whatever its server does.
///
/// # Errors
/// Any call: `SessionLost` once the session is over, `Unavailable` when it is worth trying again, the other kinds when it is not.
#[async_trait]
pub trait Session: Debug + Send + Sync + 'static {
    /// Extends the session. The answer is the instant until which nobody else can be granted what is bound to it: computed by the
    /// backend, which alone knows its server's rules, from when calls were *sent*.
    async fn keep_alive(&self) -> Result<Moment>;

    /// Appends an entry called `id`, or finds the one an earlier try appended. One round trip. A value above
    /// [`MAX_VALUE`](crate::MAX_VALUE) is refused as `Config` (see [`check_value`](crate::check_value)).
    async fn enter(&self, queue: &QueueName, id: &ContenderId, value: &[u8]) -> Result<Entered>;

    /// The queue, first to last.
    async fn list(&self, queue: &QueueName) -> Result<Snapshot>;

    /// The queue as of a moment after the call: with all in it that had happened before, wherever. [`Session::list`], unless that may be older.
    /// Decorators hand it on.
    async fn list_now(&self, queue: &QueueName) -> Result<Snapshot> {
        self.list(queue).await
    }

    /// Returns when the queue differs from `seen` in the way `wake` says. May return early for no reason.
    async fn wait(&self, queue: &QueueName, seen: &Snapshot, wake: Wake<'_>) -> Result<()>;

    /// Removes our entry called `id`; succeeds if there is none.
    async fn leave(&self, queue: &QueueName, id: &ContenderId) -> Result<()>;

    /// An entry's number and value, or `None` if it has gone.
    async fn read(&self, queue: &QueueName, who: &Contender) -> Result<Option<Record>>;

    /// Replaces our entry's value if it still has `version`; so a repeat cannot overwrite a newer value of our own. A repeat of a write
    /// that took effect succeeds. `Unexpected` if the entry has gone, or has another value by now.
    async fn write(&self, queue: &QueueName, id: &ContenderId, version: Version, value: &[u8]) -> Result<Version>;

    /// Settles the namespace's token base: stores `base` if none is stored, or if a lower one is and no other session is open; answers
    /// with what is stored then.
    async fn settle_token_base(&self, base: u64) -> Result<u64>;

    /// Ends the session and removes its entries.
    async fn close(&self) -> Result<()>;

    /// Data that the service itself refuses to change for anybody but the holder, where it can do that.
    fn fenced(&self) -> Option<&dyn FencedStore> {
        None
    }
}
