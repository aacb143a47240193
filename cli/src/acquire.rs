//! The three kinds of locks, as one.

use std::{ops::Deref, time::Duration};

use tenure::{Coordinator, LockGuard, Permit, ReadGuard, Result, Tenure};

use crate::args::Lock;

/// What is held, of whichever kind.
#[derive(Debug)]
pub(crate) enum Held {
    /// Alone.
    Lock(LockGuard),
    /// With other readers.
    Read(ReadGuard),
    /// With up to so many.
    Permit(Permit),
}

impl Held {
    /// The token, which only exclusive locks have.
    pub(crate) fn token(&self) -> Option<u64> {
        match self {
            Self::Lock(guard) => Some(guard.token().get()),
            Self::Read(_) | Self::Permit(_) => None,
        }
    }

    /// Releases, and waits until the backend has said so.
    ///
    /// # Errors
    /// As the guards.
    pub(crate) async fn release(self) -> Result<()> {
        match self {
            Self::Lock(guard) => guard.release().await,
            Self::Read(guard) => guard.release().await,
            Self::Permit(guard) => guard.release().await,
        }
    }
}

impl Deref for Held {
    type Target = Tenure;

    fn deref(&self) -> &Tenure {
        match self {
            Self::Lock(guard) => guard,
            Self::Read(guard) => guard,
            Self::Permit(guard) => guard,
        }
    }
}

/// Acquires what the command line asks for; `None` if it is not to be had, or not in time.
///
/// # Errors
/// As [`Coordinator::lock`] and [`Coordinator::try_lock`].
pub(crate) async fn acquire(coordinator: &Coordinator, lock: &Lock) -> Result<Option<Held>> {
    match lock.wait {
        _ if lock.nonblock => attempt(coordinator, lock).await,
        Some(Duration::ZERO) => attempt(coordinator, lock).await,
        // Given up, the entry is left in the background; closing the coordinator waits for that.
        Some(limit) => tokio::time::timeout(limit, wait(coordinator, lock)).await.ok().transpose(),
        None => wait(coordinator, lock).await.map(Some),
    }
}

async fn wait(coordinator: &Coordinator, lock: &Lock) -> Result<Held> {
    match lock.permits {
        Some(of) => coordinator.permit(&lock.name, of).await.map(Held::Permit),
        None if lock.shared => coordinator.read(&lock.name).await.map(Held::Read),
        None => coordinator.lock(&lock.name).await.map(Held::Lock),
    }
}

async fn attempt(coordinator: &Coordinator, lock: &Lock) -> Result<Option<Held>> {
    Ok(match lock.permits {
        Some(of) => coordinator.try_permit(&lock.name, of).await?.map(Held::Permit),
        None if lock.shared => coordinator.try_read(&lock.name).await?.map(Held::Read),
        None => coordinator.try_lock(&lock.name).await?.map(Held::Lock),
    })
}
