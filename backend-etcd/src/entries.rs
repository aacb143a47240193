//! What happens to an entry of ours: one transaction each.
//!
//! # Given up is dead (contract clause 6)
//! A request whose answer was not seen may still be under way, and be applied later than the requests that were sent after it by another
//! server. So an `enter` takes effect only in the epoch it was sent in, which is the revision of the session's own key. A `leave` of an
//! entry of whose every `enter` the answer is known deletes it, and that is all (a refusal is an answer, but one that says that time ran out is none). Any other `leave` deletes it *and* changes the session's key
//! in one transaction: an `enter` that was applied before is undone by it, and one that comes after it finds another epoch. No `enter`
//! of that id is sent later. Revisions do not return, so an epoch that is over is over for good. Other `enter`s of the session that were
//! under way learn the new epoch from their refusal, and are sent again.

use etcd_client::{Compare, CompareOp, PutOptions, Txn, TxnOp};
use tenure_core::{
    Contender, ContenderId, Entered, Error, ErrorKind, FencingToken, QueueName, Record, Result, Version, check_value,
};

use crate::{
    endpoints::Link,
    error::{Failure, unexpected},
    keys::{incarnation, path_of},
    look::Get,
    reply::{Reply, unsigned},
    session::EtcdSession,
};

/// How often an `enter` is sent again because the epoch was another one.
const EPOCHS: usize = 10;

/// Appends an entry, or finds the one that an earlier try of this session appended (contract clause 5).
pub(crate) async fn enter(session: &EtcdSession, queue: &QueueName, id: &ContenderId, value: &[u8]) -> Result<Entered> {
    check_value(queue, value)?;
    for _ in 0..EPOCHS {
        if let Some(entered) = enter_in_epoch(session, queue, id, value).await? {
            return Ok(entered);
        }
    }
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
        .and_then([
            TxnOp::put(&*key, value, Some(PutOptions::new().with_lease(session.lease))),
            Get::queue(&prefix).step(),
        ])
        .or_else([session.get_marker(), Get::entry(&*key).step(), Get::queue(&prefix).step()]);
    session.doubts.begin(id);
    let answer = session.transact(txn).await;
    if answer.as_ref().err().is_none_or(Failure::is_settled) {
        session.doubts.end(id);
    }
    let mut reply = answer?;
    let (token, version) = if reply.succeeded {
        reply.skip()?;
        (reply.revision, 1)
    } else {
        session.check_marker(reply.next_get()?.first())?;
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

/// Removes our entry, if there is one. An entry of another lease is not ours (contract clause 8).
pub(crate) async fn leave(session: &EtcdSession, queue: &QueueName, id: &ContenderId) -> Result<()> {
    let key = session.keys.entry(queue, id);
    let in_doubt = session.doubts.about(id);
    let removal = Txn::new().when([session.is_own(&key)]).and_then([TxnOp::delete(&*key, None)]);
    let txn = if in_doubt {
        Txn::new().when([session.stands()]).and_then([session.next_epoch(), TxnOp::txn(removal)])
    } else {
        removal
    };
    let mut reply = match session.transact(txn.or_else([session.get_marker()])).await {
        Err(full) if full.is_full() => return leave_without_room(session, &key, in_doubt.then_some(full)).await,
        answer => answer?,
    };
    if !reply.succeeded {
        return session.check_marker(reply.next_get()?.first());
    }
    if in_doubt {
        session.learn_epoch(reply.revision);
        session.doubts.forget(id);
    }
    Ok(())
}

/// Once the quota is used up, 3.5.1 refuses every transaction, but not a removal on its own. It cannot compare; so we look first, and nobody
/// else makes an entry with an id of ours. An epoch cannot be ended without room: then the entry goes, but the leave is to be repeated.
async fn leave_without_room(session: &EtcdSession, key: &str, in_doubt: Option<Failure>) -> Result<()> {
    let found = session.look(Get::entry(key)).await?;
    if found.entries.first().is_some_and(|entry| entry.lease() == session.lease) {
        let delete = |link: Link| async move { link.client.kv_client().delete(key, None).await };
        session.endpoints.attempt(session.limit(), delete).await?;
    }
    in_doubt.map_or(Ok(()), |full| Err(full.into()))
}

/// An entry's number and value. Also of strangers.
pub(crate) async fn read(session: &EtcdSession, who: &Contender) -> Result<Option<Record>> {
    let found = session.look(Get::value(path_of(who))).await?;
    let found = found.entries.into_iter().find(|entry| incarnation(entry) == *who.key);
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
        .or_else([session.get_marker(), Get::value(&*key).step()]);
    let mut reply = session.transact(txn).await?;
    if reply.succeeded || is_repeat(session, &mut reply, next, value)? {
        return Ok(next);
    }
    Err(unexpected(format!("the entry on {queue} has gone, or has another value by now")))
}

/// Whether the first try of the same write took effect (contract clause 5).
fn is_repeat(session: &EtcdSession, reply: &mut Reply, next: Version, value: &[u8]) -> Result<bool> {
    session.check_marker(reply.next_get()?.first())?;
    let found = reply.next_get()?;
    let entry = found.first().filter(|entry| entry.lease() == session.lease);
    Ok(entry.is_some_and(|entry| unsigned(entry.version()) == next.0 && entry.value() == value))
}
