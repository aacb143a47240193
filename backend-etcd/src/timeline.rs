//! Whether the service is still the one that the session was opened on. Revisions only grow, unless the data was replaced by an older copy
//! (a restore from a backup): then tokens may repeat, entries may be back that had gone, and nothing that was granted can be relied on.

use std::sync::{
    OnceLock,
    atomic::{AtomicI64, Ordering},
};

use crate::error::Failure;
use etcd_client::ResponseHeader;

/// What a session has seen of its service.
#[derive(Debug)]
pub(crate) struct Timeline {
    cluster: u64,
    newest: AtomicI64,
    broken: OnceLock<String>,
}

/// The newest revision that was known when a request was about to be sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Floor(i64);

impl Timeline {
    /// Begins with the answer to the request that opened the session.
    pub(crate) fn new(header: &ResponseHeader) -> Self {
        Self { cluster: header.cluster_id(), newest: header.revision().into(), broken: OnceLock::new() }
    }

    /// What the answer to a request that is sent now must not be older than.
    ///
    /// # Errors
    /// `SessionLost` once the timeline has been seen to be broken: for good.
    pub(crate) fn floor(&self) -> Result<Floor, Failure> {
        match self.broken.get() {
            Some(why) => Err(Failure::replaced(why)),
            None => Ok(Floor(self.newest.load(Ordering::Acquire))),
        }
    }

    /// Takes the answer to a linearizable key-value request. Only of those it is certain that the answer is newer than what was known
    /// when the request was *sent*: a follower that lags answers keep-alives with an old revision, and nothing is wrong with that.
    ///
    /// # Errors
    /// `SessionLost`, with what has happened.
    pub(crate) fn follow(&self, floor: Floor, header: &ResponseHeader) -> Result<(), Failure> {
        self.same_cluster(header)?;
        let revision = header.revision();
        if revision < floor.0 {
            return Err(self.breaks(format!(
                "the data of etcd went back from revision {} to {revision}, as after a restore from a backup: tokens may repeat, so raise \
                 token_base above every token that was given",
                floor.0
            )));
        }
        self.newest.fetch_max(revision, Ordering::AcqRel);
        Ok(())
    }

    /// Takes any other answer.
    ///
    /// # Errors
    /// `SessionLost`, if it comes from another cluster.
    pub(crate) fn same_cluster(&self, header: &ResponseHeader) -> Result<(), Failure> {
        if header.cluster_id() == self.cluster {
            return Ok(());
        }
        Err(self.breaks(
            "another etcd cluster answers than the one that the session was opened on: all hosts must be of one cluster, and if it was \
             restored from a backup, raise token_base above every token that was given"
                .to_owned(),
        ))
    }

    fn breaks(&self, why: String) -> Failure {
        tracing::error!("{why}");
        Failure::replaced(self.broken.get_or_init(|| why))
    }
}
