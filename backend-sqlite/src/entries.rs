//! What happens to an entry of ours, under the write lock.

use rusqlite::params;
use tenure_core::{ContenderId, Entered, Error, ErrorKind, FencingToken, Result, Version};

use crate::{
    error::Failure,
    keys::{QueueKey, unsigned},
    ledger::Change,
    rows::{self, Removed},
};

/// Appends an entry, or finds the one that an earlier try of this session appended (contract clause 5).
pub(crate) fn enter(
    change: &mut Change<'_>,
    session: &str,
    queue: &QueueKey,
    id: &ContenderId,
    value: &[u8],
) -> Result<Entered, Failure> {
    let entry = match rows::entry(&change.at, queue, id)? {
        Some(entry) if entry.session == session => entry,
        Some(_) => {
            let message = format!("the id {id} on {} is another session's: enter with a new one", queue.name);
            return Err(Error::new(ErrorKind::Unexpected, message).into());
        }
        None => {
            change
                .at
                .prepare_cached("INSERT INTO entries (namespace, queue, id, session, value) VALUES (?, ?, ?, ?, ?)")?
                .execute(params![queue.namespace, queue.name.as_str(), id.as_str(), session, value])?;
            change.tell_changed(queue)?;
            rows::Entry { token: change.at.last_insert_rowid(), version: 1, session: session.to_owned() }
        }
    };
    let (token, version) = (FencingToken::new(unsigned(entry.token)), Version(unsigned(entry.version)));
    Ok(Entered { token, version, snapshot: rows::snapshot(&change.at, queue)? })
}

/// Replaces the value of our entry, or finds that an earlier try did.
pub(crate) fn write(
    change: &mut Change<'_>,
    session: &str,
    queue: &QueueKey,
    id: &ContenderId,
    version: Version,
    value: Vec<u8>,
) -> Result<Version, Failure> {
    let Some(entry) = rows::entry(&change.at, queue, id)?.filter(|entry| entry.session == session) else {
        return Err(Error::new(ErrorKind::Unexpected, format!("our entry on {} has gone", queue.name)).into());
    };
    let next = Version(version.0.saturating_add(1));
    if unsigned(entry.version) == version.0 {
        let sql = "UPDATE entries SET value = ?, version = version + 1 WHERE token = ?";
        change.at.prepare_cached(sql)?.execute(params![value, entry.token])?;
        change.tell_changed(queue)?;
        return Ok(next);
    }
    // A repeat whose first try took effect (contract clause 5).
    match rows::record(&change.at, queue, entry.token)? {
        Some(record) if record.version == next && record.value == value => Ok(next),
        _ => {
            let message = format!("the value on {} is of another version by now: read it again", queue.name);
            Err(Error::new(ErrorKind::Unexpected, message).into())
        }
    }
}

/// Removes our entry, if there is one, and says which it was. An entry of another session with that id is not ours (contract clause 8).
pub(crate) fn leave(
    change: &mut Change<'_>,
    session: &str,
    queue: &QueueKey,
    id: &ContenderId,
) -> Result<Option<i64>, Failure> {
    let Some(entry) = rows::entry(&change.at, queue, id)?.filter(|entry| entry.session == session) else {
        return Ok(None);
    };
    change.at.prepare_cached("DELETE FROM entries WHERE token = ?")?.execute([entry.token])?;
    let (namespace, queue) = (queue.namespace.to_string(), queue.name.as_str().to_owned());
    change.tell_gone(&Removed { namespace, queue, token: entry.token })?;
    Ok(Some(entry.token))
}
