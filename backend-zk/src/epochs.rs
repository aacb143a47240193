//! Given up is dead, also for data (clause 5 of [`FencedStore`](tenure_core::FencedStore)).
//!
//! Each edit checks the version of the node that stands for the session: its epoch. One that failed without an answer, or was dropped, leaves
//! that epoch in doubt, and the next call on the data ends it before it does anything else. What comes late then finds another version. So
//! without a doubt an edit is one request, and after one it is two. The leader refuses what another server still sends of a session that was
//! taken elsewhere (see `entries`); this holds whoever sends it, and closes the gap that is left there.

use std::sync::atomic::{AtomicI32, Ordering};

use tenure_core::Result;

use crate::{
    error::{Fault, Refusal},
    link::Transacted,
    session::{MARK, Shared},
};

/// The epochs of a session: the present one, and the newest in which an edit was sent that has no answer.
#[derive(Debug)]
pub(crate) struct Epochs {
    present: AtomicI32,
    in_doubt: AtomicI32,
}

impl Default for Epochs {
    fn default() -> Self {
        Self { present: AtomicI32::new(0), in_doubt: AtomicI32::new(-1) }
    }
}

impl Epochs {
    pub(crate) fn present(&self) -> i32 {
        self.present.load(Ordering::Acquire)
    }

    /// An edit is about to be sent in this epoch.
    pub(crate) fn attempt(&self, epoch: i32) -> Attempt<'_> {
        Attempt { epochs: self, epoch, is_answered: false }
    }

    fn is_in_doubt(&self, epoch: i32) -> bool {
        self.in_doubt.load(Ordering::Acquire) >= epoch
    }

    fn begins(&self, epoch: i32) {
        self.present.fetch_max(epoch, Ordering::AcqRel);
    }
}

/// An edit under way. Unless it is answered, its epoch is in doubt: also if nobody waits for it any more.
pub(crate) struct Attempt<'a> {
    epochs: &'a Epochs,
    epoch: i32,
    is_answered: bool,
}

impl Attempt<'_> {
    /// What came of it, if anything has.
    pub(crate) fn ended(mut self, answer: &Result<Transacted, Fault>) {
        self.is_answered = matches!(answer, Ok(_) | Err(Fault::Refused(_)));
    }
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        if !self.is_answered {
            self.epochs.in_doubt.fetch_max(self.epoch, Ordering::AcqRel);
        }
    }
}

impl Shared {
    /// Ends the epoch if an edit of it is in doubt.
    pub(crate) async fn settle(&self) -> Result<()> {
        let (epoch, marker) = (self.epochs.present(), &*self.marker);
        if !self.epochs.is_in_doubt(epoch) {
            return self.check();
        }
        match self.attempt(|link| async move { link.set(marker, MARK, epoch).await }).await? {
            Ok(node) => self.epochs.begins(node.version),
            Err(Refusal::BadVersion) => self.learn_epoch(epoch).await?, // another call has ended it
            Err(Refusal::NoNode) => return Err(self.end_unmarked()),
            Err(refusal) => return Err(refusal.into_error(marker)),
        }
        Ok(())
    }

    /// This epoch is over: asks which one it is now, unless that is known.
    pub(crate) async fn learn_epoch(&self, over: i32) -> Result<()> {
        let marker = &*self.marker;
        if self.epochs.present() == over {
            let node = self.attempt(|link| async move { link.node(marker).await }).await?;
            let node = node.map_err(|refusal| refusal.into_error(marker))?;
            self.epochs.begins(node.ok_or_else(|| self.end_unmarked())?.version);
        }
        Ok(())
    }
}
