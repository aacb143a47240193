//! In place of the sidecar, where HTTP is not compiled in.

use tenure::{Coordinator, Leadership};

use crate::{args::Elect, outcome::Outcome};

/// Tells nobody.
#[derive(Debug)]
pub(super) struct Sidecar;

#[allow(clippy::unnecessary_wraps, clippy::unused_self, reason = "the other one can fail, and has something to tell")]
impl Sidecar {
    pub(super) fn bind(_: &Elect) -> Result<Self, Outcome> {
        Ok(Self)
    }

    pub(super) fn serve(self, _: &Elect, _: &str, _: &Coordinator) -> Result<Self, Outcome> {
        Ok(self)
    }

    pub(super) fn loses(&self) {}

    pub(super) fn keeps_word(&self) -> std::future::Ready<()> {
        std::future::ready(())
    }

    pub(super) fn leads(&self, _: &Leadership, _: &[u8]) -> Self {
        Self
    }
}
