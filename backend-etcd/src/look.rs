//! Linearizable reads. Each is a request of its own and no transaction: etcd refuses those once its quota is used up, also those that only
//! read (seen on 3.5.1), and a holder wants to know that it holds, and a waiter who is ahead, all the more then.

use etcd_client::{GetOptions, KeyValue, SortOrder, SortTarget, TxnOp};
use tenure_core::{Result, Snapshot};

use crate::{
    endpoints::Link,
    error::{Failure, no_header},
    keys,
    reply::unsigned,
    session::EtcdSession,
};

/// What is to be read.
#[derive(Clone, Debug)]
pub(crate) struct Get {
    key: Vec<u8>,
    options: GetOptions,
}

impl Get {
    /// One key, with its value.
    pub(crate) fn value(key: impl Into<Vec<u8>>) -> Self {
        Self { key: key.into(), options: GetOptions::new() }
    }

    /// One key, without its value.
    pub(crate) fn entry(key: impl Into<Vec<u8>>) -> Self {
        Self { key: key.into(), options: GetOptions::new().with_keys_only() }
    }

    /// A queue in its order, without values.
    pub(crate) fn queue(prefix: &str) -> Self {
        let order = GetOptions::new().with_prefix().with_keys_only().with_sort(SortTarget::Create, SortOrder::Ascend);
        Self { key: prefix.into(), options: order }
    }

    /// The same, as a step of a transaction that writes.
    pub(crate) fn step(self) -> TxnOp {
        TxnOp::get(self.key, Some(self.options))
    }
}

/// What was read.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) revision: i64,
    /// The term of the leader that has confirmed it.
    pub(crate) term: u64,
    pub(crate) entries: Vec<KeyValue>,
}

/// A queue, from what stands under its prefix.
pub(crate) fn snapshot(prefix: &str, revision: i64, entries: &[KeyValue]) -> Snapshot {
    let queue = entries.iter().filter_map(|entry| keys::contender(prefix, entry)).collect();
    Snapshot { revision: unsigned(revision), queue }
}

impl EtcdSession {
    /// A read, for a session that was not over when it was sent. The look at the session's key is under way at the same time: if that is
    /// removed between the two, so are its entries, and the next call tells.
    pub(crate) async fn look(&self, get: Get) -> Result<Found> {
        let (found, confirmed) = tokio::join!(self.get(get), self.confirm());
        confirmed?;
        Ok(found?)
    }

    /// Has a majority confirm a leader, and looks at the session's key: in which term that was.
    pub(crate) async fn confirm(&self) -> Result<u64> {
        let found = self.get(Get::entry(&*self.marker)).await?;
        self.check_marker(found.entries.first()).map(|()| found.term)
    }

    /// One attempt on the current server.
    pub(crate) async fn get(&self, Get { key, options }: Get) -> Result<Found, Failure> {
        let floor = self.timeline.floor()?;
        let get = |link: Link| async move { link.client.kv_client().get(key, Some(options)).await };
        let mut answer = self.endpoints.attempt(self.limit(), get).await?;
        let header = answer.header().ok_or_else(no_header)?;
        let (revision, term) = (header.revision(), header.raft_term());
        self.timeline.follow(floor, header)?;
        Ok(Found { revision, term, entries: answer.take_kvs() })
    }
}
