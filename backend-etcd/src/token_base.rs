//! The number that a namespace adds to its tokens, stored beside its sessions.

use etcd_client::{Compare, CompareOp, Txn, TxnOp};
use tenure_core::Result;

use crate::{error::unexpected, look::Get, reply::Reply, session::EtcdSession};

/// Stores `base` if none is stored, or if a lower one is and no other session is open; answers with what is stored then.
pub(crate) async fn settle(session: &EtcdSession, base: u64) -> Result<u64> {
    let key = session.keys.token_base();
    let first = Compare::create_revision(&*key, CompareOp::Equal, 0);
    let stored = put_if(session, vec![first], &key, base).await?;
    let Some((stored, revision)) = stored.filter(|(stored, _)| *stored < base) else {
        return Ok(stored.map_or(base, |(stored, _)| stored));
    };
    // Every session has a key under this prefix, made before it settles the base: all are ours if all were made when ours was.
    let alone = Compare::create_revision(session.keys.sessions(), CompareOp::Equal, session.made).with_prefix();
    let unchanged = Compare::mod_revision(&*key, CompareOp::Equal, revision);
    match put_if(session, vec![unchanged, alone], &key, base).await? {
        None => Ok(base),
        Some((now, _)) if now >= stored => Ok(now),
        Some(_) => Err(unexpected("the stored token_base went down")),
    }
}

/// Stores `base` if all is as expected; otherwise answers with what is stored, and when it was.
async fn put_if(session: &EtcdSession, expected: Vec<Compare>, key: &str, base: u64) -> Result<Option<(u64, i64)>> {
    let txn = Txn::new()
        .when(expected)
        .and_then([TxnOp::put(key, base.to_string(), None)])
        .or_else([session.get_marker(), Get::value(key).step()]);
    let mut reply = session.transact(txn).await?;
    if reply.succeeded {
        return Ok(None);
    }
    session.check_marker(reply.next_get()?.first())?;
    stored(&mut reply, key).map(Some)
}

fn stored(reply: &mut Reply, key: &str) -> Result<(u64, i64)> {
    let found = reply.next_get()?;
    let entry = found.first();
    let number = entry.and_then(|entry| entry.value_str().ok()).and_then(|text| text.parse().ok());
    match (entry, number) {
        (Some(entry), Some(number)) => Ok((number, entry.mod_revision())),
        _ => Err(unexpected(format!("the key {key} of etcd has no number in it: write the token_base there"))),
    }
}
