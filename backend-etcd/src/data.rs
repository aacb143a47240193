//! Data that only the holder changes: one transaction compares the writer's entry and its place, and writes.
//!
//! # Given up is dead (clause 5 of [`FencedStore`])
//! As with an `enter`, an edit takes effect only in the epoch of the session that it was sent in. One that failed without an answer, or was
//! dropped, leaves that epoch in doubt; the next call on the data ends the epoch before it does anything else, and what comes late finds
//! another one. So without a doubt an edit is one request, and after one it is two.

use std::sync::atomic::{AtomicI64, Ordering};

use etcd_client::{Compare, CompareOp, KeyValue, Txn, TxnOp};
use tenure_core::{
    ContenderId, DataKey, Datum, Edit, Error, ErrorKind, Expect, Fence, FencedStore, FencingToken, Outcome, QueueName,
    Result, Version, async_trait,
};

use crate::{
    error::Failure,
    keys::contender,
    look::Get,
    reply::{Reply, unsigned},
    session::EtcdSession,
};

/// How often an edit is sent again because the epoch was another one.
const EPOCHS: usize = 10;

/// The newest epoch in which an edit was sent that has no answer.
#[derive(Debug, Default)]
pub(crate) struct Unsettled(AtomicI64);

impl Unsettled {
    fn is_in(&self, epoch: i64) -> bool {
        self.0.load(Ordering::Acquire) >= epoch
    }
}

/// An edit under way. Unless it is answered, its epoch is in doubt: also if nobody waits for it any more.
struct Attempt<'a> {
    unsettled: &'a Unsettled,
    epoch: i64,
    is_answered: bool,
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        if !self.is_answered {
            self.unsettled.0.fetch_max(self.epoch, Ordering::AcqRel);
        }
    }
}

/// What a refused edit has found.
struct Found {
    marker: Option<KeyValue>,
    entry: Option<KeyValue>,
    first: Option<KeyValue>,
    datum: Option<KeyValue>,
}

impl Found {
    fn of(mut reply: Reply, prefix: &str) -> Result<Self> {
        let mut one = || reply.next_get().map(|found| found.into_iter().next());
        let (marker, entry, datum) = (one()?, one()?, one()?);
        // What another namespace keeps below the queue is no part of it.
        let first = reply.next_get()?.into_iter().find(|entry| contender(prefix, entry).is_some());
        Ok(Self { marker, entry, first, datum })
    }

    fn now(&self) -> Option<Datum> {
        self.datum.as_ref().and_then(|datum| decoded(datum).ok())
    }

    fn first(&self, prefix: &str) -> Option<(ContenderId, FencingToken)> {
        let first = self.first.as_ref()?;
        Some((contender(prefix, first)?.id, FencingToken::new(unsigned(first.create_revision()))))
    }
}

fn decoded(datum: &KeyValue) -> Result<Datum> {
    Datum::from_bytes(datum.value(), Version(unsigned(datum.mod_revision())))
}

/// One edit, through its attempts.
struct Edition<'a> {
    session: &'a EtcdSession,
    fence: Fence<'a>,
    edit: Edit<'a>,
    prefix: String,
    entry: String,
    datum: String,
    /// Once it was seen to be the first it stays so, and only that it is still there is compared: below the prefix another namespace may have
    /// older keys.
    is_first: bool,
}

impl Edition<'_> {
    fn expected(&self, epoch: i64) -> Vec<Compare> {
        let token = signed(self.fence.token.get());
        let mut expected = vec![
            Compare::create_revision(&*self.entry, CompareOp::Equal, token),
            self.session.is_own(&self.entry),
            self.session.is_in(epoch),
        ];
        if !self.is_first {
            let nobody_ahead = Compare::create_revision(&*self.prefix, CompareOp::Greater, token.saturating_sub(1));
            expected.push(nobody_ahead.with_prefix());
        }
        match self.edit.expect {
            Expect::Anything => {}
            Expect::Absent => expected.push(Compare::create_revision(&*self.datum, CompareOp::Equal, 0)),
            Expect::Version(version) => {
                expected.push(Compare::create_revision(&*self.datum, CompareOp::Greater, 0));
                expected.push(Compare::mod_revision(&*self.datum, CompareOp::Equal, signed(version.0)));
            }
        }
        expected
    }

    fn change(&self) -> TxnOp {
        match self.edit.value {
            Some(value) => TxnOp::put(&*self.datum, Datum::to_bytes(self.fence.raised, self.edit.id, value), None),
            None => TxnOp::delete(&*self.datum, None),
        }
    }

    /// `None` if it is to be sent again: it has not taken effect, and the epoch is known now.
    async fn attempt(&mut self) -> Result<Option<Outcome>> {
        let epoch = self.session.epoch();
        let look = [
            self.session.get_marker(),
            Get::entry(&*self.entry).step(),
            Get::value(&*self.datum).step(),
            Get::queue(&self.prefix).step(),
        ];
        let txn = Txn::new().when(self.expected(epoch)).and_then([self.change()]).or_else(look);
        let mut attempt = Attempt { unsettled: &self.session.unsettled, epoch, is_answered: false };
        let answer = self.session.transact(txn).await;
        attempt.is_answered = answer.as_ref().err().is_none_or(Failure::is_settled);
        drop(attempt);
        match answer {
            Ok(reply) if reply.succeeded => {
                Ok(Some(Outcome::Done(self.edit.value.map(|_| Version(unsigned(reply.revision))))))
            }
            Ok(reply) => self.refused(Found::of(reply, &self.prefix)?),
            // A session that is over may have been found to be so by the answer.
            Err(failure) if failure.is_settled() && failure.kind != ErrorKind::SessionLost => {
                Ok(Some(Outcome::Refused(failure.into())))
            }
            Err(failure) => Err(failure.into()),
        }
    }

    fn refused(&mut self, found: Found) -> Result<Option<Outcome>> {
        let session = self.session;
        let is_mine = found.entry.as_ref().is_some_and(|entry| {
            entry.lease() == session.lease
                && unsigned(entry.create_revision()) == self.fence.token.get()
                && found.first.as_ref().is_some_and(|first| first.key() == entry.key())
        });
        if !is_mine {
            return Ok(Some(Outcome::Fenced { first: found.first(&self.prefix), now: found.now() }));
        }
        self.is_first = true;
        let is_expected = match (self.edit.expect, &found.datum) {
            (Expect::Anything, _) | (Expect::Absent, None) => true,
            (Expect::Version(version), Some(datum)) => unsigned(datum.mod_revision()) == version.0,
            (Expect::Absent, Some(_)) | (Expect::Version(_), None) => false,
        };
        if !is_expected {
            return Ok(Some(Outcome::Conflict(found.now())));
        }
        match session.check_marker(found.marker.as_ref()) {
            Ok(()) => Ok(None),
            Err(over) => Ok(Some(Outcome::Refused(over))),
        }
    }
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

impl EtcdSession {
    /// Ends the epoch if an edit of it is in doubt.
    async fn settle(&self) -> Result<()> {
        if !self.unsettled.is_in(self.epoch()) {
            return Ok(());
        }
        let end = Txn::new().when([self.stands()]).and_then([self.next_epoch()]).or_else([self.get_marker()]);
        let reply = self.transact(end).await?;
        if reply.succeeded {
            self.learn_epoch(reply.revision);
        } // else the session's key has gone, and with it all epochs
        Ok(())
    }
}

#[async_trait]
impl FencedStore for EtcdSession {
    async fn get(&self, queue: &QueueName, key: &DataKey) -> Result<Option<Datum>> {
        self.settle().await?;
        let found = self.get(Get::value(self.keys.datum(queue, key))).await?;
        found.entries.first().map(decoded).transpose()
    }

    async fn edit(&self, fence: Fence<'_>, edit: Edit<'_>) -> Result<Outcome> {
        if let Err(error) = self.settle().await {
            return Ok(Outcome::Refused(error)); // it was not sent
        }
        let (prefix, datum) = (self.keys.queue(fence.queue), self.keys.datum(fence.queue, edit.key));
        let entry = self.keys.entry(fence.queue, &fence.entry.id);
        let mut edition = Edition { session: self, fence, edit, prefix, entry, datum, is_first: false };
        for _ in 0..EPOCHS {
            if let Some(outcome) = edition.attempt().await? {
                return Ok(outcome);
            }
        }
        let message = format!("too much was given up while '{}' of '{}' was changed", edit.key, fence.queue);
        Ok(Outcome::Refused(Error::new(ErrorKind::Unavailable, message)))
    }
}
