//! Data that only the holder changes: the look at the queue and the write are one transaction under the write lock.
//!
//! What was given up is dead once a later call was answered (clause 5 of [`FencedStore`](tenure_core::FencedStore)), since one thread does all
//! calls in the order in which they were sent.

use rusqlite::{Connection, OptionalExtension, params};
use tenure_core::{
    ContenderId, DataKey, Datum, Edit, EditId, Expect, Fence, FencingToken, Outcome, Result, Stored, Version,
};

use crate::{
    error::{Failure, config},
    keys::{QueueKey, unsigned},
    ledger::{Change, Ledger},
    rows,
};

/// An edit on its way to the thread that does it.
pub(crate) struct OwnedEdit {
    queue: QueueKey,
    key: DataKey,
    writer: ContenderId,
    token: u64,
    raised: i64,
    expect: Expect,
    value: Option<Vec<u8>>,
    id: EditId,
}

impl OwnedEdit {
    pub(crate) fn new(queue: QueueKey, fence: Fence<'_>, edit: Edit<'_>) -> Result<Self> {
        let raised = i64::try_from(fence.raised.get()).map_err(|_| {
            config(format!("token {} is more than SQLite can count: lower the token_base", fence.raised))
        })?;
        let (writer, token) = (fence.entry.id.clone(), fence.token.get());
        let (key, value, id) = (edit.key.clone(), edit.value.map(<[u8]>::to_vec), edit.id.clone());
        Ok(Self { queue, key, writer, token, raised, expect: edit.expect, value, id })
    }

    pub(crate) fn apply(self, ledger: &mut Ledger, session: &str) -> Result<Outcome> {
        let mut is_decided = false;
        let done = ledger.change(|change| {
            let outcome = self.decide(change, session)?;
            is_decided = true;
            Ok(outcome)
        });
        match done {
            Err(error) if !is_decided => Ok(Outcome::Refused(error)), // rolled back; only a commit that fails leaves a doubt
            answer => answer,
        }
    }

    fn decide(self, change: &Change<'_>, session: &str) -> Result<Outcome, Failure> {
        let now = datum(&change.at, &self.queue, &self.key)?;
        let first = rows::first(&change.at, &self.queue)?;
        let is_mine = |(id, entry): &(ContenderId, rows::Entry)| {
            *id == self.writer && unsigned(entry.token) == self.token && entry.session == session
        };
        if !first.as_ref().is_some_and(is_mine) {
            let first = first.map(|(id, entry)| (id, FencingToken::new(unsigned(entry.token))));
            return Ok(Outcome::Fenced { first, now });
        }
        let is_expected = match self.expect {
            Expect::Anything => true,
            Expect::Absent => now.is_none(),
            Expect::Version(version) => now.as_ref().is_some_and(|now| now.stored.version == version),
        };
        if !is_expected {
            return Ok(Outcome::Conflict(now));
        }
        self.write(&change.at).map(Outcome::Done)
    }

    fn write(self, at: &Connection) -> Result<Option<Version>, Failure> {
        let Self { queue, key, raised, value, id, .. } = self;
        let (namespace, name) = (&*queue.namespace, queue.name.as_str());
        let Some(value) = value else {
            at.prepare_cached("DELETE FROM data WHERE namespace = ? AND queue = ? AND key = ?")?.execute(params![
                namespace,
                name,
                key.as_str()
            ])?;
            return Ok(None);
        };
        // The row is made anew, so that it gets a version that nothing ever had.
        at.prepare_cached("REPLACE INTO data (namespace, queue, key, token, edit, value) VALUES (?, ?, ?, ?, ?, ?)")?
            .execute(params![namespace, name, key.as_str(), raised, id.as_str(), value])?;
        Ok(Some(Version(unsigned(at.last_insert_rowid()))))
    }
}

pub(crate) fn datum(at: &Connection, queue: &QueueKey, key: &DataKey) -> rusqlite::Result<Option<Datum>> {
    let mut sql = at
        .prepare_cached("SELECT version, token, edit, value FROM data WHERE namespace = ? AND queue = ? AND key = ?")?;
    sql.query_row(params![queue.namespace, queue.name.as_str(), key.as_str()], |row| {
        let (version, token, edit): (i64, i64, String) = (row.get(0)?, row.get(1)?, row.get(2)?);
        let (version, token) = (Version(unsigned(version)), FencingToken::new(unsigned(token)));
        Ok(Datum { stored: Stored { value: row.get(3)?, version, token }, edit: EditId::from_backend(edit) })
    })
    .optional()
}
