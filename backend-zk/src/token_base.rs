//! The number that a namespace adds to its tokens, stored beside its sessions.

use std::sync::Arc;

use tenure_core::{Error, ErrorKind, Result};
use tokio::join;

use crate::{
    error::{Refusal, if_there, unexpected},
    link::{Children, Kind, Link, Node, Step},
    session::Shared,
};

/// Stores `base` if none is stored, or if a lower one is and no other session is open; answers with what is stored then.
pub(crate) async fn settle(session: &Shared, base: u64) -> Result<u64> {
    let path = &*session.keys.token_base();
    let value = &*base.to_string();
    let Some(Stored { number, node, sessions }) = look(session, path).await? else {
        let first = |link: Arc<Link>| async move { link.create(path, Kind::Persistent, value.as_bytes()).await };
        return match session.attempt(first).await? {
            Ok(()) => Ok(base),
            Err(Refusal::NodeExists) => Err(meanwhile(path)), // so that it is looked at again
            Err(refusal) => Err(refusal.into_error(path)),
        };
    };
    // Every session has a node there, made before it settles the base.
    let alone = sessions.names.iter().all(|name| session.marker.rsplit('/').next() == Some(name));
    if number >= base || !alone {
        return Ok(number);
    }
    // Each session that is opened raises the version of what they stand in.
    let (parent, unchanged) = (&*session.keys.sessions(), sessions.parent.version);
    let steps = [Step::Check(parent, Some(unchanged)), Step::Set(path, Some(node.version), value.as_bytes())];
    let raise = |link: Arc<Link>| async move { link.commit(&steps).await };
    match session.attempt(raise).await? {
        Ok(()) => Ok(base),
        Err(Refusal::BadVersion) => Err(meanwhile(path)),
        Err(refusal) => Err(refusal.into_error(path)),
    }
}

fn meanwhile(path: &str) -> Error {
    Error::new(ErrorKind::Unavailable, format!("the node {path} of ZooKeeper was changed meanwhile"))
}

struct Stored {
    number: u64,
    node: Node,
    sessions: Children,
}

/// What is stored, and which sessions are open.
async fn look(session: &Shared, path: &str) -> Result<Option<Stored>> {
    let sessions = &*session.keys.sessions();
    let both = |link: Arc<Link>| async move {
        let (synced, stored, sessions) = join!(biased; link.sync(path), link.get(path), link.children(sessions));
        synced?;
        Ok(if_there(stored)?.zip(if_there(sessions)?))
    };
    let found = session.attempt(both).await?.map_err(|refusal| refusal.into_error(path))?;
    let Some(((value, node), sessions)) = found else { return Ok(None) };
    let number = std::str::from_utf8(&value).ok().and_then(|text| text.trim().parse().ok());
    let number = number.ok_or_else(|| {
        unexpected(format!("the node {path} of ZooKeeper has no number in it: write the token_base there"))
    })?;
    Ok(Some(Stored { number, node, sessions }))
}
