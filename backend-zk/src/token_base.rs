//! The number that a namespace adds to its tokens, stored beside its sessions.

use std::sync::Arc;

use tenure_core::{Error, ErrorKind, Result};
use tokio::join;

use crate::{
    error::{Fault, Refusal, unexpected},
    link::{Children, Kind, Link, Node},
    session::Shared,
};

/// Stores `base` if none is stored, or if a lower one is and no other session is open; answers with what is stored then.
pub(crate) async fn settle(session: &Shared, base: u64) -> Result<u64> {
    let path = &*session.keys.token_base();
    let value = &*base.to_string();
    let first = |link: Arc<Link>| async move { link.create(path, Kind::Persistent, value.as_bytes()).await };
    match session.attempt(first).await? {
        Ok(()) => return Ok(base),
        Err(Refusal::NodeExists) => {}
        Err(refusal) => return Err(refusal.into_error(path)),
    }
    let (stored, node, sessions) = look(session, path).await?;
    // Every session has a node there, made before it settles the base.
    let alone = sessions.names.iter().all(|name| session.marker.rsplit('/').next() == Some(name));
    if stored >= base || !alone {
        return Ok(stored);
    }
    // Each session that is opened raises the version of what they stand in.
    let (parent, unchanged) = (&*session.keys.sessions(), sessions.parent.version);
    let raise =
        |link: Arc<Link>| async move { link.set_if((path, node.version), value.as_bytes(), (parent, unchanged)).await };
    match session.attempt(raise).await? {
        Ok(()) => Ok(base),
        Err(Refusal::BadVersion) => {
            let (now, ..) = look(session, path).await?;
            if now >= stored { Ok(now) } else { Err(unexpected("the stored token_base went down")) }
        }
        Err(refusal) => Err(refusal.into_error(path)),
    }
}

/// What is stored, and which sessions are open.
async fn look(session: &Shared, path: &str) -> Result<(u64, Node, Children)> {
    let sessions = &*session.keys.sessions();
    let both = |link: Arc<Link>| async move {
        let (synced, stored, sessions) = join!(biased; link.sync(path), link.get(path), link.children(sessions));
        synced?;
        Ok::<_, Fault>((stored?, sessions?))
    };
    let ((value, node), sessions) = session.attempt(both).await?.map_err(|refusal| refusal.into_error(path))?;
    let number = std::str::from_utf8(&value).ok().and_then(|text| text.trim().parse().ok());
    let number = number.ok_or_else(|| {
        let message = format!("the node {path} of ZooKeeper has no number in it: write the token_base there");
        Error::new(ErrorKind::Unexpected, message)
    })?;
    Ok((number, node, sessions))
}
