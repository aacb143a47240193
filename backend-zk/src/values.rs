//! What entries carry: their numbers, and values that are replaced by version.

use std::sync::Arc;

use tenure_core::{Contender, ContenderId, FencingToken, QueueName, Record, Result, Version, check_value};
use tokio::join;

use crate::{
    entries::find,
    error::{Refusal, if_there, unexpected},
    keys::{is_in, path_of},
    link::{Link, Node},
    session::Shared,
};

/// An entry's number and value. Also of strangers.
pub(crate) async fn read(session: &Shared, queue: &QueueName, who: &Contender) -> Result<Option<Record>> {
    let (path, entry) = (&*session.keys.queue(queue), path_of(who));
    let both = |link: Arc<Link>| async move {
        let (parent, found) = join!(biased; link.node(path), link.get(entry));
        Ok(parent?.zip(if_there(found)?))
    };
    let found = session.attempt(both).await?.map_err(|refusal| refusal.into_error(entry))?;
    let Some((_, (value, node))) = found.filter(|(parent, _)| is_in(who, parent.made)) else { return Ok(None) };
    Ok(Some(Record { token: token(&node)?, version: version(&node), value }))
}

/// Replaces the value of our entry, or finds that an earlier try did.
pub(crate) async fn write(
    session: &Shared,
    queue: &QueueName,
    id: &ContenderId,
    known: Version,
    value: &[u8],
) -> Result<Version> {
    check_value(queue, value)?;
    let place = session.places.of(id);
    let mut place = place.lock().await;
    let gone = || unexpected(format!("the entry on {queue} has gone, or has another value by now"));
    if place.path.is_none() {
        place.path = find(session, &session.keys.queue(queue), id).await?.into_iter().next();
    }
    let Some(entry) = place.path.as_deref() else {
        session.places.forget(id);
        return Err(gone());
    };
    // The servers never use -1, which would mean any.
    let Some(old) = number(known).filter(|old| *old != -1) else { return Err(gone()) };
    let written = session.attempt(|link| async move { link.set(entry, value, old).await }).await?;
    match written {
        Ok(node) => return Ok(version(&node)),
        Err(Refusal::BadVersion | Refusal::NoNode) => {}
        Err(refusal) => return Err(refusal.into_error(entry)),
    }
    let found = session.attempt(|link| async move { if_there(link.get(entry).await) }).await?;
    let found = found.map_err(|refusal| refusal.into_error(entry))?;
    // The first try of the same write may have taken effect (contract clause 5).
    let (_, node) = found
        .filter(|(present, node)| {
            number(known).map(|old| old.wrapping_add(1)) == Some(node.version) && present == value
        })
        .ok_or_else(gone)?;
    Ok(version(&node))
}

pub(crate) fn token(node: &Node) -> Result<FencingToken> {
    let made = u64::try_from(node.made).ok().filter(|made| *made > 0);
    made.map(FencingToken::new).ok_or_else(|| unexpected("ZooKeeper did not number a node: use 3.5 or later"))
}

/// The version counts the values of an entry, from 1; ZooKeeper from 0, and after 2^31 from below zero.
pub(crate) fn version(node: &Node) -> Version {
    Version(u64::from(node.version.cast_unsigned()) + 1)
}

fn number(version: Version) -> Option<i32> {
    Some(u32::try_from(version.0.checked_sub(1)?).ok()?.cast_signed())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_count_from_one_over_all_that_zookeeper_counts() {
        for (of_zookeeper, ours) in [(0, 1), (i32::MAX, 1 << 31), (i32::MIN, (1 << 31) + 1), (-2, (1 << 32) - 1)] {
            let node = Node { made: 1, changed: 1, version: of_zookeeper, owner: 1 };
            assert_eq!((version(&node), number(Version(ours))), (Version(ours), Some(of_zookeeper)));
        }
        assert_eq!((number(Version(0)), number(Version(1 << 33))), (None, None));
    }
}
