//! One attempt.

use std::ops::Deref;

use super::memory::{Memory, Success, key};
use crate::{
    clock::Clock,
    error::{Error, ErrorKind, Result},
    fenced::Expect,
    guard::LockGuard,
    queue::Version,
};

/// An attempt, which holds the lock: it derefs to [`LockGuard`]. Dropped before [`Attempt::record`], it has failed, and the next one may
/// try.
#[derive(Debug)]
#[must_use = "an attempt that is dropped has failed"]
#[clippy::has_significant_drop]
pub struct Attempt {
    pub(super) guard: LockGuard,
    /// Of the success that is forgotten by now.
    pub(super) version: Option<Version>,
    pub(super) clock: Clock,
    pub(super) program: Option<String>,
}

impl Attempt {
    /// Records that it has succeeded: from then on nobody attempts it. The lock is held on; release it, or drop it. May be called again after an
    /// error, while the lock is held.
    ///
    /// # Errors
    /// * `SessionLost`, `Fenced`: the lock was lost before. It is not recorded, and the work will be done again.
    /// * `Unknown`: it may be recorded or not: [`Once::success`](super::Once::success) or the next [`Once::begin`](super::Once::begin) tells.
    /// * all others: it is not recorded.
    ///
    /// # Cancel safety
    /// If the future is dropped, it may or may not be recorded.
    pub async fn record(&self) -> Result<Success> {
        let memory = Memory::of(self.guard.token(), self.program.as_deref(), self.clock.now());
        let fenced = self.guard.fenced()?;
        let expect = self.version.map_or(Expect::Absent, Expect::Version);
        if fenced.edit(&key(), expect, Some(&memory.to_value())).await?.is_some() {
            return Ok(memory.success);
        }
        let name = self.guard.name().as_str();
        let found = fenced.get_at(&key()).await?.map(|stored| Memory::read(name, &stored)).transpose()?;
        match found {
            // By an earlier call, whose answer was lost.
            Some(Memory { success, .. }) if success.token == self.guard.token() => Ok(success),
            _ => {
                let message = format!("the record of '{name}' was changed past its lock: look who writes there");
                Err(Error::new(ErrorKind::Unexpected, message))
            }
        }
    }

    /// Releases the lock, and waits until the backend has said so. As [`LockGuard::release`]; what was recorded stays recorded.
    ///
    /// # Errors
    /// As there.
    ///
    /// # Cancel safety
    /// As there.
    pub async fn release(self) -> Result<()> {
        self.guard.release().await
    }
}

impl Deref for Attempt {
    type Target = LockGuard;

    fn deref(&self) -> &LockGuard {
        &self.guard
    }
}
