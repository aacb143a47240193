//! What happens to an entry of ours.
//!
//! # Given up is dead (contract clause 6)
//! A request whose answer was not seen may still be under way. On the same connection that does no harm: what a session asks there is done in
//! order, so a `leave` that looks for every node with the id finds what an `enter` before it has made. If the connection was given up, the
//! session was *taken up* anew before anything else was asked, and then
//!
//! * by way of another server, the leader has made that one the owner of the session (`SessionTracker.setOwner`, on `REVALIDATE`), and refuses
//!   whatever the one before still sends in its name: `PrepRequestProcessor` checks the owner for every create, delete and write, and fails
//!   with `SessionMovedException`. What it had taken before that comes, in the order of the leader, before the write by which the session is
//!   taken up, so a look after that write sees it;
//! * by way of the same server, that one closes the connection before (`closeSession` in `processConnectRequest`), and has put whatever it had
//!   read from it into the same line before;
//! * with a new leader, every server that serves begins anew and drops what it had not passed on.
//!
//! One gap is left: a thread of the same server that has read a request and stands still between that and putting it in line, for as long as
//! taking up the session takes. So ids that were left in doubt are looked for again with each keep-alive, for one timeout.

use std::sync::{Arc, atomic::Ordering};

use tenure_core::{ContenderId, Entered, Error, ErrorKind, LossReason, QueueName, Result, Snapshot, check_value};
use tokio::join;

use crate::{
    error::{Fault, Refusal, if_there, settled, unexpected, used_up},
    keys::{has_place, path_of, paths_with, prefix, snapshot},
    link::{Children, Kind, Link, Node},
    places::{Place, Seat, Stray},
    session::Shared,
    sightings,
    values::{token, version},
};

/// How often an entry is tried again because its queue was removed meanwhile.
const TRIES: usize = 5;

/// Appends an entry, or finds the one that an earlier try of this session appended (contract clause 5).
pub(crate) async fn enter(session: &Shared, queue: &QueueName, id: &ContenderId, value: &[u8]) -> Result<Entered> {
    check_value(queue, value)?;
    session.check()?;
    let place = session.places.of(id);
    let mut place = place.lock().await;
    let path = session.keys.queue(queue);
    if place.path.is_none() && place.unanswered > 0 {
        place.path = find(session, &path, id).await?.into_iter().next();
    }
    if let Some(entry) = &place.path {
        if let Some(entered) = look_again(session, &path, id, entry).await? {
            return Ok(entered);
        }
        place.path = None; // somebody has removed it
    }
    for _ in 0..TRIES {
        if let Some(entered) = append(session, &path, id, value, &mut place).await? {
            return Ok(entered);
        }
        let made = session.attempt(|link| async { make_owned(link, path.clone(), Kind::Container).await }).await?;
        made.map_err(|refusal| refusal.into_error(&path))?;
    }
    Err(Error::new(ErrorKind::Unavailable, format!("the node {path} of ZooKeeper is removed again and again")))
}

/// Makes a new entry, and reads the queue, in one round trip. `None` if the queue has no node.
async fn append(
    session: &Shared,
    queue: &str,
    id: &ContenderId,
    value: &[u8],
    place: &mut Place,
) -> Result<Option<Entered>> {
    let (prefix, revision, newest) = (prefix(queue, id), sightings::now(), session.newest.load(Ordering::Acquire));
    place.unanswered += 1;
    let both = |link: Arc<Link>| async move {
        let (made, children) = join!(biased; link.append(&prefix, value), link.children(queue));
        Ok((settled(made)?, settled(children)?))
    };
    let (made, children) = session.attempt(both).await?.map_err(|refusal| refusal.into_error(queue))?;
    place.unanswered -= 1;
    let (entry, node) = match made {
        Ok(made) => made,
        Err(Refusal::NoNode) => return Ok(None),
        Err(refusal) => return Err(refusal.into_error(queue)),
    };
    session.newest.fetch_max(node.made, Ordering::AcqRel);
    if node.made < newest {
        let why = format!(
            "the session is over: the data of ZooKeeper went back from {newest} to {}, as after a restore from a backup: tokens may repeat, \
             so raise token_base above every token that was given",
            node.made
        );
        return Err(session.end_by(LossReason::DataReplaced, &why));
    }
    let children = children.map_err(|refusal| refusal.into_error(queue));
    place.path = Some(entry.clone());
    let children = children?;
    if paths_with(queue, id, &children).len() > 1 {
        return one_of_several(session, queue, id, place).await;
    }
    entered(session, (id, queue, &entry), &node, snapshot(revision, queue, &children)).await.map(Some)
}

/// There are several entries with the id of the one just made: one of an earlier try, which came late and yet first, or of another session.
async fn one_of_several(session: &Shared, queue: &str, id: &ContenderId, place: &mut Place) -> Result<Option<Entered>> {
    let made = place.path.take();
    place.unanswered += 1; // until this is known, the next try has to look first
    let ours = find(session, queue, id).await?;
    if ours.len() < 2 {
        remove(session, made.as_deref().unwrap_or_default()).await?;
        return Err(unexpected(format!("the id {id} in {queue} is another session's: enter with a new one")));
    }
    place.unanswered -= 1;
    place.path = ours.into_iter().next();
    look_again(session, queue, id, place.path.as_deref().unwrap_or_default()).await
}

/// What is known of our entry at this path, and its queue. `None` if it has gone.
async fn look_again(session: &Shared, queue: &str, id: &ContenderId, entry: &str) -> Result<Option<Entered>> {
    let revision = sightings::now();
    let both = |link: Arc<Link>| async move {
        let (node, children) = join!(biased; link.node(entry), link.children(queue));
        Ok(node?.zip(if_there(children)?))
    };
    let found = session.attempt(both).await?.map_err(|refusal| refusal.into_error(entry))?;
    let Some((node, children)) = found.filter(|(node, _)| node.owner == session.id) else { return Ok(None) };
    entered(session, (id, queue, entry), &node, snapshot(revision, queue, &children)).await.map(Some)
}

/// Tells of our entry. One whose number is not its own alone might be passed by who comes later, so it is taken back.
async fn entered(
    session: &Shared,
    (id, queue, entry): (&ContenderId, &str, &str),
    node: &Node,
    snapshot: Snapshot,
) -> Result<Entered> {
    if !has_place(entry, &prefix(queue, id)) {
        remove(session, entry).await?;
        return Err(used_up(queue));
    }
    let token = token(node)?;
    session.places.seated(id, Seat { path: entry.to_owned(), token, is_first: is_first(entry, &snapshot) });
    Ok(Entered { token, version: version(node), snapshot })
}

/// Whether the entry at this path is the first.
pub(crate) fn is_first(entry: &str, snapshot: &Snapshot) -> bool {
    snapshot.queue.first().is_some_and(|first| path_of(first) == entry)
}

/// The paths of our entries with this id, first to last. One of another session is not ours (contract clause 8).
pub(crate) async fn find(session: &Shared, queue: &str, id: &ContenderId) -> Result<Vec<String>> {
    let children = |link: Arc<Link>| async move { if_there(link.children(queue).await) };
    let children = session.attempt(children).await?.map_err(|refusal| refusal.into_error(queue))?;
    let mut ours = Vec::new();
    for path in children.map(|children| paths_with(queue, id, &children)).unwrap_or_default() {
        let node = session.attempt(|link| async { read_node(link, &path).await }).await?;
        if node.map_err(|refusal| refusal.into_error(&path))?.is_some_and(|node| node.owner == session.id) {
            ours.push(path);
        }
    }
    Ok(ours)
}

async fn read_node(link: Arc<Link>, path: &str) -> Result<Option<Node>, Fault> {
    link.node(path).await
}

/// Makes a node, and what it stands in. What is there already is not touched: one may have no right to the parent.
pub(crate) async fn make(link: &Link, path: &str, kind: Kind) -> Result<(), Fault> {
    let mut end = path.len();
    loop {
        let this = if end == path.len() { kind } else { Kind::Persistent };
        match link.create(&path[..end], this, b"").await {
            Ok(()) | Err(Fault::Refused(Refusal::NodeExists)) if end == path.len() => return Ok(()),
            Ok(()) | Err(Fault::Refused(Refusal::NodeExists)) => {
                end = path[end + 1..].find('/').map_or(path.len(), |next| end + 1 + next);
            }
            Err(Fault::Refused(Refusal::NoNode)) if path[..end].rfind('/') > Some(0) => {
                end = path[..end].rfind('/').unwrap_or(0);
            }
            Err(fault) => return Err(fault),
        }
    }
}

async fn make_owned(link: Arc<Link>, path: String, kind: Kind) -> Result<(), Fault> {
    make(&link, &path, kind).await
}

/// The queue, as fresh as the leader knows it.
pub(crate) async fn list(session: &Shared, queue: &QueueName) -> Result<Snapshot> {
    let (path, revision) = (session.keys.queue(queue), sightings::now());
    let path = &*path;
    let both = |link: Arc<Link>| async move {
        let (synced, children) = join!(biased; link.sync(path), link.children(path));
        synced?;
        if_there(children)
    };
    let children: Option<Children> = session.attempt(both).await?.map_err(|refusal| refusal.into_error(path))?;
    let nobody = || Snapshot { revision, queue: Vec::new() };
    Ok(children.map_or_else(nobody, |children| snapshot(revision, path, &children)))
}

/// The queue as it is. A leader that others have replaced answers a `sync` for a moment, and then shows what is old; it cannot commit.
pub(crate) async fn list_now(session: &Shared, queue: &QueueName) -> Result<Snapshot> {
    let (path, revision) = (session.keys.queue(queue), sightings::now());
    let (path, marker) = (&*path, &*session.marker);
    let both = |link: Arc<Link>| async move {
        let (confirmed, children) = join!(biased; link.check(marker), link.children(path));
        if_there(confirmed)?.map(|()| if_there(children)).transpose()
    };
    let children = session.attempt(both).await?.map_err(|refusal| refusal.into_error(path))?;
    let nobody = || Snapshot { revision, queue: Vec::new() };
    let children: Option<Children> = children.ok_or_else(|| session.end_unmarked())?;
    Ok(children.map_or_else(nobody, |children| snapshot(revision, path, &children)))
}

/// Removes our entry, if there is one; if there may be several, all of them.
pub(crate) async fn leave(session: &Shared, queue: &QueueName, id: &ContenderId) -> Result<()> {
    let place = session.places.of(id);
    let place = place.lock().await;
    let path = session.keys.queue(queue);
    let mut entries: Vec<_> = place.path.iter().cloned().collect();
    if place.path.is_none() || place.unanswered > 0 {
        entries.extend(find(session, &path, id).await?);
    }
    for entry in entries {
        remove(session, &entry).await?;
    }
    if place.unanswered > 0 {
        session.places.suspect(&path, id, session.clock.now() + session.timeout());
    }
    session.places.forget(id);
    Ok(())
}

async fn remove(session: &Shared, entry: &str) -> Result<()> {
    let removed = session.attempt(|link| async move { link.remove(entry).await }).await?;
    match removed {
        Ok(()) | Err(Refusal::NoNode) => Ok(()),
        Err(refusal) => Err(refusal.into_error(entry)),
    }
}

/// Removes what came late after all.
pub(crate) async fn remove_strays(session: &Shared, strays: Vec<Stray>) {
    for Stray { queue, id, .. } in strays {
        for entry in find(session, &queue, &id).await.unwrap_or_default() {
            tracing::warn!(entry, "an entry that had been given up came late: removing it");
            let _ = remove(session, &entry).await; // the next keep-alive looks again
        }
    }
}
