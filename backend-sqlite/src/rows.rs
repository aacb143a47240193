//! The statements. No reading one filters by time: whether a session is over is decided only where it is removed, under the write lock.
//! Else an entry whose owner is about to renew could be missing from one snapshot and stand in front of a granted one in the next
//! (contract clause 1).

use std::collections::BTreeSet;

use rusqlite::{Connection, OptionalExtension, Row, named_params, params};
use tenure_core::{Contender, ContenderId, FencingToken, Record, Snapshot, Version};

use crate::keys::{QueueKey, Stamp, unsigned};

/// An entry, without its value.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) token: i64,
    pub(crate) version: i64,
    pub(crate) session: String,
}

/// An entry that has just been removed.
#[derive(Debug)]
pub(crate) struct Removed {
    pub(crate) namespace: String,
    pub(crate) queue: String,
    pub(crate) token: i64,
}

impl Removed {
    fn of(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self { namespace: row.get(0)?, queue: row.get(1)?, token: row.get(2)? })
    }
}

/// An entry as a waiter sees it: until when its session lives, and when it last changed.
#[derive(Debug)]
pub(crate) struct Standing {
    pub(crate) token: i64,
    pub(crate) changed: i64,
    pub(crate) session: String,
    pub(crate) end: Stamp,
}

pub(crate) fn session_end(at: &Connection, session: &str) -> rusqlite::Result<Option<Stamp>> {
    let mut sql = at.prepare_cached("SELECT boot, expires_ms FROM sessions WHERE id = ?")?;
    sql.query_row([session], |row| Ok(Stamp { boot: row.get(0)?, ms: row.get(1)? })).optional()
}

pub(crate) fn revision(at: &Connection) -> rusqlite::Result<u64> {
    at.prepare_cached("SELECT revision FROM counter")?.query_row([], |row| row.get(0)).map(unsigned)
}

pub(crate) fn snapshot(at: &Connection, queue: &QueueKey) -> rusqlite::Result<Snapshot> {
    let mut sql =
        at.prepare_cached("SELECT id, token FROM entries WHERE namespace = ? AND queue = ? ORDER BY token")?;
    let rows = sql.query_map(params![queue.namespace, queue.name.as_str()], |row| {
        let (id, token): (String, i64) = (row.get(0)?, row.get(1)?);
        Ok(Contender { id: ContenderId::from_backend(id), key: token.to_string().into() })
    })?;
    Ok(Snapshot { revision: revision(at)?, queue: rows.collect::<Result<_, _>>()? })
}

pub(crate) fn entry(at: &Connection, queue: &QueueKey, id: &ContenderId) -> rusqlite::Result<Option<Entry>> {
    let mut sql =
        at.prepare_cached("SELECT token, version, session FROM entries WHERE namespace = ? AND queue = ? AND id = ?")?;
    sql.query_row(params![queue.namespace, queue.name.as_str(), id.as_str()], |row| {
        Ok(Entry { token: row.get(0)?, version: row.get(1)?, session: row.get(2)? })
    })
    .optional()
}

/// The entry whose turn it is.
pub(crate) fn first(at: &Connection, queue: &QueueKey) -> rusqlite::Result<Option<(ContenderId, Entry)>> {
    let mut sql = at.prepare_cached(
        "SELECT id, token, version, session FROM entries WHERE namespace = ? AND queue = ? ORDER BY token LIMIT 1",
    )?;
    sql.query_row(params![queue.namespace, queue.name.as_str()], |row| {
        let entry = Entry { token: row.get(1)?, version: row.get(2)?, session: row.get(3)? };
        Ok((ContenderId::from_backend(row.get::<_, String>(0)?), entry))
    })
    .optional()
}

pub(crate) fn record(at: &Connection, queue: &QueueKey, token: i64) -> rusqlite::Result<Option<Record>> {
    let mut sql =
        at.prepare_cached("SELECT token, version, value FROM entries WHERE token = ? AND namespace = ? AND queue = ?")?;
    sql.query_row(params![token, queue.namespace, queue.name.as_str()], |row| {
        let token = FencingToken::new(unsigned(row.get(0)?));
        Ok(Record { token, version: Version(unsigned(row.get(1)?)), value: row.get(2)? })
    })
    .optional()
}

/// All that stand in a queue, or only one of them.
pub(crate) fn standing(at: &Connection, queue: &QueueKey, only: Option<i64>) -> rusqlite::Result<Vec<Standing>> {
    let mut sql = at.prepare_cached(
        "SELECT token, changed, session, boot, expires_ms
         FROM entries JOIN sessions ON sessions.id = session
         WHERE entries.namespace = :namespace AND queue = :queue AND token BETWEEN :least AND :most ORDER BY token",
    )?;
    let (least, most) = only.map_or((0, i64::MAX), |token| (token, token));
    let rows = sql.query_map(
        named_params! {":namespace": queue.namespace, ":queue": queue.name.as_str(), ":least": least, ":most": most},
        |row| {
            let end = Stamp { boot: row.get(3)?, ms: row.get(4)? };
            Ok(Standing { token: row.get(0)?, changed: row.get(1)?, session: row.get(2)?, end })
        },
    )?;
    rows.collect()
}

/// Whether the session has an entry behind this one: then it is told when this one goes.
pub(crate) fn is_behind(at: &Connection, queue: &QueueKey, session: &str, token: i64) -> rusqlite::Result<bool> {
    let mut sql = at.prepare_cached(
        "SELECT EXISTS (SELECT 1 FROM entries WHERE session = ? AND namespace = ? AND queue = ? AND token > ?)",
    )?;
    sql.query_row(params![session, queue.namespace, queue.name.as_str(), token], |row| row.get(0))
}

/// Removes the entries of a session.
pub(crate) fn remove_entries(at: &Connection, session: &str) -> rusqlite::Result<Vec<Removed>> {
    let mut sql = at.prepare_cached("DELETE FROM entries WHERE session = ? RETURNING namespace, queue, token")?;
    sql.query_map([session], Removed::of)?.collect()
}

/// The sessions whose time is over. The times of another time namespace cannot be compared with ours, unless they are of another boot.
pub(crate) fn over(at: &Connection, now: &Stamp, time_namespace: &str) -> rusqlite::Result<Vec<String>> {
    let mut sql =
        at.prepare_cached("SELECT id FROM sessions WHERE boot <> ? OR (time_namespace = ? AND expires_ms <= ?)")?;
    sql.query_map(params![now.boot, time_namespace, now.ms], |row| row.get(0))?.collect()
}

/// The addresses of those who stand behind an entry.
pub(crate) fn behind(at: &Connection, gone: &Removed) -> rusqlite::Result<BTreeSet<String>> {
    let mut sql = at.prepare_cached(
        "SELECT address FROM sessions WHERE id IN
         (SELECT session FROM entries WHERE namespace = ? AND queue = ? AND token > ?)",
    )?;
    sql.query_map(params![gone.namespace, gone.queue, gone.token], |row| row.get(0))?.collect()
}

/// The numbers and addresses of those who watch a queue.
pub(crate) fn watching(at: &Connection, namespace: &str, queue: &str) -> rusqlite::Result<Vec<(i64, String)>> {
    let mut sql = at.prepare_cached(
        "SELECT number, address FROM watches JOIN sessions ON sessions.id = session
         WHERE watches.namespace = ? AND queue = ?",
    )?;
    sql.query_map([namespace, queue], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
}
