//! The answer to a transaction: the results of its steps, one after the other.

use std::vec;

use etcd_client::{KeyValue, TxnOpResponse, TxnResponse};
use tenure_core::{Error, Result, Snapshot};

use crate::{error::unexpected, look::snapshot};

/// What a transaction has found or done.
#[derive(Debug)]
pub(crate) struct Reply {
    /// The revision that it saw, or made.
    pub(crate) revision: i64,
    /// Whether its comparisons were true.
    pub(crate) succeeded: bool,
    steps: vec::IntoIter<TxnOpResponse>,
}

impl Reply {
    pub(crate) fn new(revision: i64, answer: &TxnResponse) -> Self {
        Self { revision, succeeded: answer.succeeded(), steps: answer.op_responses().into_iter() }
    }

    /// The next step was one that changes something.
    pub(crate) fn skip(&mut self) -> Result<()> {
        self.steps.next().map(drop).ok_or_else(mismatch)
    }

    /// The next step was a look at some keys.
    pub(crate) fn next_get(&mut self) -> Result<Vec<KeyValue>> {
        match self.steps.next() {
            Some(TxnOpResponse::Get(mut found)) => Ok(found.take_kvs()),
            _ => Err(mismatch()),
        }
    }

    /// The next step was a look at a queue.
    pub(crate) fn next_snapshot(&mut self, prefix: &str) -> Result<Snapshot> {
        Ok(snapshot(prefix, self.revision, &self.next_get()?))
    }
}

fn mismatch() -> Error {
    unexpected("etcd answered a transaction with other steps than it was asked for")
}

/// Revisions and versions never go below zero.
pub(crate) fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}
