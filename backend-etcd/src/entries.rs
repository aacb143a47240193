//! What happens to an entry of ours: one transaction each.
//!
//! # Given up is dead (contract clause 6)
//! A request whose answer was not seen may still be under way, and be applied later than the requests that were sent after it by another
//! server. So an `enter` takes effect only in the epoch it was sent in, which is the revision of the session's own key. A `leave` of an
//! entry of whose every `enter` the answer is known deletes it, and that is all. Any other `leave` deletes it *and* changes the session's key
//! in one transaction: an `enter` that was applied before is undone by it, and one that comes after it finds another epoch. No `enter`
//! of that id is sent later. Revisions do not return, so an epoch that is over is over for good. Other `enter`s of the session that were
//! under way learn the new epoch from their refusal, and are sent again.

use etcd_client::{Compare, CompareOp, GetOptions, PutOptions, SortOrder, SortTarget, Txn, TxnOp};
use tenure_core::{
    Contender, ContenderId, Entered, Error, ErrorKind, FencingToken, QueueName, Record, Result, Version, check_value,
};

use crate::{
    error::unexpected,
    keys::{incarnation, path_of},
    reply::{Reply, unsigned},
    session::EtcdSession,
};

/// How often an `enter` is sent again because the epoch was another one.
const EPOCHS: usize = 10;

/// The queue in its order, without values.
pub(crate) fn get_queue(prefix: &str) -> TxnOp {
    let order = GetOptions::new().with_prefix().with_keys_only().with_sort(SortTarget::Create, SortOrder::Ascend);
    TxnOp::get(prefix, Some(order))
}

/// Appends an entry, or finds the one that an earlier try of this session appended (contract clause 5).
pub(crate) async fn enter(session: &EtcdSession, queue: &QueueName, id: &ContenderId, value: &[u8]) -> Result<Entered> {
    check_value(queue, value)?;
    session.doubts.begin(id);
    for _ in 0..EPOCHS {
        if let Some(entered) = enter_in_epoch(session, queue, id, value).await? {
            session.doubts.end(id);
            return Ok(entered);
        }
    }
    session.doubts.end(id);
    Err(Error::new(ErrorKind::Unavailable, format!("too many entries were given up while one entered {queue}")))
}

/// `None` if the epoch was another one: it is known now.
async fn enter_in_epoch(
    session: &EtcdSession,
    queue: &QueueName,
    id: &ContenderId,
    value: &[u8],
) -> Result<Option<Entered>> {
    let (prefix, key) = (session.keys.queue(queue), session.keys.entry(queue, id));
    let txn = Txn::new()
        .when([Compare::create_revision(&*key, CompareOp::Equal, 0), session.in_epoch()])
        .and_then([TxnOp::put(&*key, value, Some(PutOptions::new().with_lease(session.lease))), get_queue(&prefix)])
        .or_else([session.get_marker(), get_entry(&*key), get_queue(&prefix)]);
    let mut reply = session.transact(txn).await?;
    let (token, version) = if reply.succeeded {
        reply.skip()?;
        (reply.revision, 1)
    } else {
        session.check_marker(&mut reply)?;
        match reply.next_get()?.first() {
            Some(entry) if entry.lease() == session.lease => (entry.create_revision(), entry.version()),
            Some(_) => {
                return Err(unexpected(format!("the id {id} on {queue} is another session's: enter with a new one")));
            }
            None => return Ok(None),
        }
    };
    let (token, version) = (FencingToken::new(unsigned(token)), Version(unsigned(version)));
    Ok(Some(Entered { token, version, snapshot: reply.next_snapshot(&prefix)? }))
}

/// One entry, without its value.
pub(crate) fn get_entry(key: impl Into<Vec<u8>>) -> TxnOp {
    TxnOp::get(key, Some(GetOptions::new().with_keys_only()))
}

/// Removes our entry, if there is one. An entry of another lease is not ours (contract clause 8).
pub(crate) async fn leave(session: &EtcdSession, queue: &QueueName, id: &ContenderId) -> Result<()> {
    let key = session.keys.entry(queue, id);
    let in_doubt = session.doubts.about(id);
    let (mut then, mut otherwise) = (vec![TxnOp::delete(&*key, None)], vec![session.get_marker()]);
    if in_doubt {
        then.push(session.next_epoch());
        otherwise.push(session.next_epoch());
    }
    let mut reply = session.transact(Txn::new().when([session.is_own(&key)]).and_then(then).or_else(otherwise)).await?;
    if !reply.succeeded {
        session.check_marker(&mut reply)?;
    }
    if in_doubt {
        session.learn_epoch(reply.revision);
        session.doubts.forget(id);
    }
    Ok(())
}

/// An entry's number and value. Also of strangers.
pub(crate) async fn read(session: &EtcdSession, who: &Contender) -> Result<Option<Record>> {
    let mut reply = session.look([TxnOp::get(path_of(who), None)]).await?;
    let found = reply.next_get()?.into_iter().find(|entry| incarnation(entry) == *who.key);
    Ok(found.map(|entry| Record {
        token: FencingToken::new(unsigned(entry.create_revision())),
        version: Version(unsigned(entry.version())),
        value: entry.value().to_vec(),
    }))
}

/// Replaces the value of our entry, or finds that an earlier try did. The version counts the values of this entry, from 1.
pub(crate) async fn write(
    session: &EtcdSession,
    queue: &QueueName,
    id: &ContenderId,
    version: Version,
    value: &[u8],
) -> Result<Version> {
    check_value(queue, value)?;
    let (key, next) = (session.keys.entry(queue, id), Version(version.0.saturating_add(1)));
    let old = i64::try_from(version.0).unwrap_or(i64::MAX);
    let txn = Txn::new()
        .when([Compare::version(&*key, CompareOp::Equal, old), session.is_own(&key)])
        .and_then([TxnOp::put(&*key, value, Some(PutOptions::new().with_lease(session.lease)))])
        .or_else([session.get_marker(), TxnOp::get(&*key, None)]);
    let mut reply = session.transact(txn).await?;
    if reply.succeeded || is_repeat(session, &mut reply, next, value)? {
        return Ok(next);
    }
    Err(unexpected(format!("the entry on {queue} has gone, or has another value by now")))
}

/// Whether the first try of the same write took effect (contract clause 5).
fn is_repeat(session: &EtcdSession, reply: &mut Reply, next: Version, value: &[u8]) -> Result<bool> {
    session.check_marker(reply)?;
    let found = reply.next_get()?;
    let entry = found.first().filter(|entry| entry.lease() == session.lease);
    Ok(entry.is_some_and(|entry| unsigned(entry.version()) == next.0 && entry.value() == value))
}
