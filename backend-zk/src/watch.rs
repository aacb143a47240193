//! Waiting for a change, by watches that fire once, on what is waited for and nothing else.
//!
//! A watch is set and its node read in one request, so nothing is missed in between. Each hand-over is one event for the one who stands next;
//! only permits and observers, who wait for any of several, watch the queue as a whole.

use std::{future::Future, sync::Arc};

use futures_util::future::{select_all, try_join_all};
use tenure_core::{Contender, Result, Snapshot, Wake};
use tokio::join;

use crate::{
    error::{Failure, Fault, if_there},
    keys::{is_in, path_of, snapshot},
    leash::Watch,
    link::{Children, Link},
    session::Shared,
    sightings,
};

/// Returns when the queue at this path differs from `seen` in the way `wake` says; early if the connection to the server breaks.
pub(crate) async fn wait(session: &Shared, queue: &str, seen: &Snapshot, wake: Wake<'_>) -> Result<()> {
    loop {
        let standing = match wake {
            Wake::Gone(who) => until_gone(session, queue, who).await?,
            Wake::Ahead(me) => until_ahead(session, queue, seen, me).await?,
            Wake::Any => until_any(session, queue, seen).await?,
        };
        let Some(Standing { host, watches }) = standing else { return Ok(()) };
        let (fired, ..) = select_all(watches.into_iter().map(|watch| Box::pin(watch.fired()))).await;
        session.check()?;
        let Some(removed) = fired else {
            return Err(Failure::broken(&host, "while it was watched").in_session());
        };
        // To look again would make a hand-over a round trip longer.
        if removed || matches!(wake, Wake::Any) {
            return Ok(());
        }
    }
}

/// Watches that stand; there is at least one.
struct Standing {
    host: String,
    watches: Vec<Watch>,
}

/// Watches by `look`, which answers with what it watches, and `None` if what is waited for has happened.
async fn stand<F>(session: &Shared, queue: &str, look: impl FnOnce(Arc<Link>) -> F) -> Result<Option<Standing>>
where
    F: Future<Output = Result<Option<Vec<Watch>>, Fault>>,
{
    let mut host = String::new();
    let watches = session.attempt(|link| {
        host.clone_from(&link.host);
        look(link)
    });
    let watches = watches.await?.map_err(|refusal| refusal.into_error(queue))?;
    Ok(watches.map(|watches| Standing { host, watches }))
}

/// One node. Its changes of value wake too, and are slept over.
async fn until_gone(session: &Shared, queue: &str, who: &Contender) -> Result<Option<Standing>> {
    let look = |link: Arc<Link>| async move {
        let (parent, entry) = join!(biased; link.node(queue), link.watch(path_of(who)));
        let ((entry, watch), parent) = (entry?, parent?);
        // In a queue that was made anew it is another one.
        let here = entry.is_some() && parent.is_some_and(|parent| is_in(who, parent.made));
        Ok(here.then(|| vec![watch]))
    };
    stand(session, queue, look).await
}

/// The queue's node, whose children come and go.
async fn until_ahead(session: &Shared, queue: &str, seen: &Snapshot, me: &Contender) -> Result<Option<Standing>> {
    let look = |link: Arc<Link>| async move {
        let Some((children, watch)) = if_there(link.watch_children(queue).await)? else { return Ok(None) };
        let now = snapshot(0, queue, &children);
        let here = |who: &Contender| now.queue.contains(who);
        let ahead = seen.queue.iter().take_while(|who| who.id != me.id);
        Ok((here(me) && ahead.into_iter().all(here)).then(|| vec![watch]))
    };
    stand(session, queue, look).await
}

/// The queue's node, and each entry for its value.
async fn until_any(session: &Shared, queue: &str, seen: &Snapshot) -> Result<Option<Standing>> {
    let look = |link: Arc<Link>| async move {
        let Some((children, watch)) = if_there(link.watch_children(queue).await)? else {
            let (node, watch) = link.watch(queue).await?; // until there is one
            return Ok((node.is_none() && seen.queue.is_empty()).then(|| vec![watch]));
        };
        Ok(unless_changed(session, &link, queue, seen, &children).await?.map(|mut watches| {
            watches.push(watch);
            watches
        }))
    };
    stand(session, queue, look).await
}

/// Watches on all entries, unless somebody came, went, or may have a new value.
async fn unless_changed(
    session: &Shared,
    link: &Link,
    queue: &str,
    seen: &Snapshot,
    children: &Children,
) -> Result<Option<Vec<Watch>>, Fault> {
    let now = snapshot(sightings::now(), queue, children);
    session.sightings.keep(queue, |key| now.queue.iter().any(|who| *who.key == *key));
    if now.queue != seen.queue {
        return Ok(None);
    }
    let entries = try_join_all(now.queue.iter().map(|who| link.watch(path_of(who)))).await?;
    let mut changed = false;
    let mut watches = Vec::new();
    for (who, (node, watch)) in now.queue.iter().zip(entries) {
        changed |= node.is_none_or(|node| session.sightings.may_have_changed(&who.key, node.changed, seen.revision));
        watches.push(watch);
    }
    Ok((!changed).then_some(watches))
}
