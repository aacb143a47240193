//! Work that is to succeed once: whoever succeeded is remembered in the service, under the lock of the same name.

use std::time::Duration;

use self::memory::{Memory, key};
pub use self::{attempt::Attempt, memory::Success};
use crate::{
    clock::Clock,
    coordinator::{Coordinator, is_lost_or_away},
    data::Data,
    error::{Error, ErrorKind, Result},
    fenced::{Expect, Stored},
    guard::LockGuard,
    queue::Version,
};

mod attempt;
mod memory;

/// Work that is to succeed once, by a key: **at most one recorded success, at least one run**.
///
/// Of all attempts, on all hosts, at most one is recorded as the success; from then on there are no more. An attempt holds the lock of that
/// name, so two never run at one time, and it is recorded by a write that the service itself refuses once the lock has passed on.
/// The limit: who dies after the work is done and before that is recorded has done it unseen, and it is done again. So the work has to bear
/// being repeated, or be [fenced](LockGuard::token) where it has its effect.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
/// use tenure_core::{Begun, Coordinator, MemoryBackend, Options};
///
/// let coordinator = Coordinator::new(MemoryBackend::new(), Options::default())?;
/// let once = coordinator.once("migrate-2026-03")?;
/// for _ in 0..2 {
///     match once.begin().await? {
///         Begun::Now(attempt) => {
///             attempt.run(async { /* the work */ }).await?;
///             attempt.record().await?; // dropped without that, it has failed
///             attempt.release().await?;
///         }
///         Begun::Before(success) => println!("done before, with token {}", success.token),
///     }
/// }
/// # Ok::<(), tenure_core::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct Once {
    coordinator: Coordinator,
    name: String,
    data: Data,
    expiry: Option<Duration>,
}

/// Whether there is anything to do.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "it lives for one match")]
#[must_use = "an attempt that is dropped has failed"]
pub enum Begun {
    /// No: it was done before.
    Before(Success),
    /// Yes, and nobody else does it.
    Now(Attempt),
}

impl Coordinator {
    /// Work by this key that is to succeed once. Nothing is sent yet. The lock is that of the name `key`, whatever else it is used for.
    ///
    /// # Errors
    /// `Config` for a bad key: the rules are those of names.
    pub fn once(&self, key: &str) -> Result<Once> {
        Ok(Once { coordinator: self.clone(), name: key.to_owned(), data: self.data(key)?, expiry: None })
    }
}

impl Once {
    /// Forgets a success after so long: then the work is done again.
    ///
    /// No wall clock is asked, and clocks of different hosts are never compared. A host forgets once its *own* clock, which nobody can set, has
    /// counted this long since it first knew of the success: the host that did the work counts from its end, any other one from its first
    /// [`Once::begin`] after it, which notes that in the service. So it is never forgotten sooner. The limit is that it may be later: after
    /// a restart a host counts anew, and so does one that more than 256 others have come after; one that never asked before has not
    /// begun to count. Hosts whose boots cannot be told apart (without Linux) never forget.
    #[must_use]
    pub fn expires_after(self, expiry: Duration) -> Self {
        Self { expiry: Some(expiry), ..self }
    }

    /// The success that is remembered, also if it has expired for some or all hosts. The lock is not needed.
    ///
    /// # Errors
    /// `Unsupported` if the backend keeps no data behind a fence, and so cannot remember; `Unavailable` if it does not serve within the
    /// `connect_timeout`.
    pub async fn success(&self) -> Result<Option<Success>> {
        Ok(self.look().await?.map(|(_, memory)| memory.success))
    }

    /// Waits until nobody else attempts it; then there is a success, or it is our turn. A success that needs no more than a look is told at
    /// once. While the backend is away it waits on.
    ///
    /// # Errors
    /// As [`Once::success`] and [`Coordinator::lock`].
    ///
    /// # Cancel safety
    /// As [`Coordinator::lock`].
    pub async fn begin(&self) -> Result<Begun> {
        loop {
            match self.settled().await {
                Ok(Some(success)) => return Ok(Begun::Before(success)),
                Err(error) if !is_lost_or_away(&error) => return Err(error),
                _ => {} // whoever waits for the lock waits for the backend too
            }
            match self.decide(self.coordinator.lock(&self.name).await?).await {
                Err(error) if is_lost_or_away(&error) => {} // the lock is lost: the next one will be another
                begun => return begun,
            }
        }
    }

    /// `None` if somebody else attempts it, or holds the lock of that name for something else.
    ///
    /// # Errors
    /// As [`Once::success`] and [`Coordinator::try_lock`].
    ///
    /// # Cancel safety
    /// As [`Coordinator::try_lock`].
    pub async fn try_begin(&self) -> Result<Option<Begun>> {
        let settled = self.settled().await?;
        if let Some(success) = settled {
            return Ok(Some(Begun::Before(success)));
        }
        let free = self.coordinator.try_lock(&self.name).await?;
        match free {
            Some(guard) => self.decide(guard).await.map(Some),
            None => Ok(None),
        }
    }

    /// Forgets a success, so that the work is done again; says whether there was one. Waits for the lock.
    ///
    /// # Errors
    /// As [`Once::begin`]; `Unknown` if it may have been forgotten or not, `SessionLost` or `Fenced` if the lock was lost before it was.
    ///
    /// # Cancel safety
    /// If the future is dropped, it may or may not be forgotten.
    pub async fn forget(&self) -> Result<bool> {
        self.look_at_bytes().await?; // who cannot remember has no lock to wait for
        let guard = self.coordinator.lock(&self.name).await?;
        let fenced = guard.fenced()?;
        let forgotten = match fenced.get_at(&key()).await? {
            Some(Stored { version, .. }) => fenced.edit(&key(), Expect::Version(version), None).await?.is_some(),
            None => false,
        };
        let _ = guard.release().await; // it is forgotten or not, whatever has come since
        Ok(forgotten)
    }

    async fn look_at_bytes(&self) -> Result<Option<Stored>> {
        self.data.get_at(&key()).await.map_err(|error| match error.kind() {
            ErrorKind::Unsupported => {
                let message = format!(
                    "this backend keeps no data behind a fence, so it cannot remember that '{}' was done: use etcd, zk or sqlite",
                    self.name
                );
                Error::new(ErrorKind::Unsupported, message)
            }
            _ => error,
        })
    }

    async fn look(&self) -> Result<Option<(Version, Memory)>> {
        self.look_at_bytes().await?.map(|stored| Ok((stored.version, Memory::read(&self.name, &stored)?))).transpose()
    }

    /// The success, if there is no more to do than to tell of it.
    async fn settled(&self) -> Result<Option<Success>> {
        let Some((_, memory)) = self.look().await? else { return Ok(None) };
        let now = self.clock().now();
        let is_settled = self.expiry.is_none_or(|expiry| memory.is_known_at(now) && memory.counts(now, expiry));
        Ok(is_settled.then_some(memory.success))
    }

    /// Under the lock: what is read now is final for as long as that is held.
    async fn decide(&self, guard: LockGuard) -> Result<Begun> {
        let fenced = guard.fenced()?;
        let found = fenced.get_at(&key()).await?;
        let (mut version, now) = (None, self.clock().now());
        if let Some(stored) = found {
            let memory = Memory::read(&self.name, &stored)?;
            if self.expiry.is_none_or(|expiry| memory.counts(now, expiry)) {
                if self.expiry.is_some() && !memory.is_known_at(now) {
                    let noted = memory.known_since(now).to_value();
                    // If that fails it is forgotten later, never sooner.
                    let _ = fenced.edit(&key(), Expect::Version(stored.version), Some(&noted)).await;
                }
                let _ = guard.release().await; // it was read while we held it, whatever has come since
                return Ok(Begun::Before(memory.success));
            }
            version = Some(stored.version);
        }
        let program = self.coordinator.options().program.clone();
        Ok(Begun::Now(Attempt { guard, version, clock: self.clock().clone(), program }))
    }

    fn clock(&self) -> &Clock {
        self.coordinator.backend().clock()
    }
}
