//! Waiting for a change, by a watch on what is waited for and nothing else.
//!
//! A watch begins "now" and not at the revision that was seen: what begins in the past is served by a loop that runs ten times a second.
//! So between the snapshot and the beginning something may have happened, and once the watch stands one look finds it. A stream can
//! die without a word, so the same look is repeated now and then.

use std::time::Duration;

use etcd_client::{WatchFilterType, WatchOptions, WatchStream};
use tenure_core::{Contender, Error, Result, Snapshot, Wake};
use tokio::time::timeout;

use crate::{
    endpoints::{Endpoints, Link},
    error::Failure,
    keys::{incarnation, path_of},
    look::Get,
    reply::unsigned,
    session::EtcdSession,
};

/// How long a stream that says nothing is trusted.
const LONGEST_TRUST: Duration = Duration::from_secs(10);

/// Returns when the queue under `prefix` differs from `seen` in the way `wake` says; early if the server of the watch is not the
/// current one any more.
pub(crate) async fn wait(session: &EtcdSession, prefix: &str, seen: &Snapshot, wake: Wake<'_>) -> Result<()> {
    let mut watch = Watch::open(session, prefix, wake).await?;
    loop {
        if has_changed(session, prefix, seen, wake).await? {
            return Ok(());
        }
        if let Some(refusal) = watch.refusal.take() {
            return Err(refusal); // the look has shown that the fault is not in our rights
        }
        match timeout((session.ttl / 2).min(LONGEST_TRUST), watch.event()).await {
            // Of those ahead it may have been any, or one of those behind.
            Ok(event) if matches!(wake, Wake::Ahead(_)) => event?,
            Ok(event) => return event,
            Err(_) if session.endpoints.is_current(&watch.link) => {}
            Err(_) => return Ok(()),
        }
    }
}

/// Looks whether it has happened already.
async fn has_changed(session: &EtcdSession, prefix: &str, seen: &Snapshot, wake: Wake<'_>) -> Result<bool> {
    if let Wake::Gone(who) = wake {
        let found = session.look(Get::entry(path_of(who))).await?;
        // A stranger's key may have gone and come back: then it is another entry, behind us.
        return Ok(!found.entries.iter().any(|entry| incarnation(entry) == *who.key));
    }
    let entries = session.look(Get::queue(prefix)).await?.entries;
    let here = |who: &Contender| entries.iter().any(|entry| incarnation(entry) == *who.key);
    Ok(match wake {
        Wake::Ahead(me) => !here(me) || seen.queue.iter().take_while(|who| who.id != me.id).any(|who| !here(who)),
        _ => {
            entries.iter().any(|entry| unsigned(entry.mod_revision()) > seen.revision)
                || seen.queue.iter().any(|who| !here(who))
        }
    })
}

/// A watch that stands.
struct Watch<'a> {
    endpoints: &'a Endpoints,
    link: Link,
    stream: WatchStream,
    /// The server has refused to watch.
    refusal: Option<Error>,
}

impl<'a> Watch<'a> {
    async fn open(session: &'a EtcdSession, prefix: &str, wake: Wake<'_>) -> Result<Self> {
        let deletes = || WatchOptions::new().with_filters([WatchFilterType::NoPut]);
        let (key, options) = match wake {
            Wake::Gone(who) => (path_of(who), deletes()),
            Wake::Ahead(_) => (prefix.into(), deletes().with_prefix()),
            Wake::Any => (prefix.into(), WatchOptions::new().with_prefix()),
        };
        let open = |link: Link| async move {
            let mut stream = link.client.watch_client().watch(key, Some(options)).await?;
            let first = stream.message().await?;
            Ok((link, stream, first))
        };
        let endpoints = &*session.endpoints;
        let (link, stream, first) = endpoints.attempt(session.limit(), open).await?;
        let mut watch = Self { endpoints, link, stream, refusal: None };
        match first {
            Some(first) if first.created() && !first.canceled() => Ok(watch),
            // A login that has expired is refused in this way; or we may not watch, which the look will tell.
            Some(first) => {
                watch.refusal = Some(watch.broken(first.cancel_reason()));
                Ok(watch)
            }
            None => Err(watch.broken("")),
        }
    }

    /// Returns after an event.
    async fn event(&mut self) -> Result<()> {
        loop {
            match self.stream.message().await {
                Ok(Some(message)) if message.canceled() => return Err(self.broken(message.cancel_reason())),
                Ok(Some(message)) if message.events().is_empty() => {}
                Ok(Some(_)) => return Ok(()),
                Ok(None) => return Err(self.broken("")),
                Err(error) => return Err(self.failed(Failure::of(&error, self.endpoints.host(&self.link)))),
            }
        }
    }

    fn broken(&self, why: &str) -> Error {
        self.failed(Failure::ended(self.endpoints.host(&self.link), "watch", why))
    }

    /// Others are asked from now on: a server that does not watch may be one that is cut off.
    fn failed(&self, failure: Failure) -> Error {
        self.endpoints.suspect(&self.link, &failure);
        failure.into()
    }
}
