//! What an edit that has not taken effect is told: who may write instead.

use std::sync::Arc;

use tenure_core::{ContenderId, Datum, Error, ErrorKind, FencingToken, Outcome, Result};
use tokio::{join, time::timeout};

use crate::{
    data::decoded,
    edition::Edition,
    error::{Failure, Fault, if_there},
    keys::{path_of, snapshot},
    link::Link,
    values::token,
};

/// How often the first of a queue may have gone while its number was asked for.
const TRIES: usize = 5;

/// A queue and a datum.
struct Scene {
    first: Option<(ContenderId, FencingToken)>,
    now: Option<Datum>,
}

impl Scene {
    async fn look(link: &Link, queue: &str, datum: &str) -> Result<Self, Fault> {
        let mut now = None;
        for _ in 0..TRIES {
            let (synced, children, found) = join!(biased; link.sync(queue), link.children(queue), link.get(datum));
            synced?;
            now = if_there(found)?.and_then(|found| decoded(&found).ok());
            let first = if_there(children)?.and_then(|all| snapshot(0, queue, &all).queue.into_iter().next());
            let Some(first) = first else { break };
            if let Some(token) = link.node(path_of(&first)).await?.and_then(|node| token(&node).ok()) {
                return Ok(Self { first: Some((first.id, token)), now });
            }
        }
        Ok(Self { first: None, now })
    }
}

impl Edition<'_> {
    /// The writer's entry has gone, or is not the first.
    pub(crate) async fn fenced(&self) -> Result<Outcome> {
        let (queue, datum) = (&*self.queue, &*self.datum);
        match self.session.attempt(|link: Arc<Link>| async move { Scene::look(&link, queue, datum).await }).await {
            Ok(Ok(Scene { first, now })) => Ok(Outcome::Fenced { first, now }),
            Ok(Err(refusal)) => Ok(Outcome::Refused(refusal.into_error(queue))),
            Err(error) => self.not_sent(error).await,
        }
    }

    /// It has failed before it was sent, or after it was refused. That the session is over is no failure, once its entry has gone.
    pub(crate) async fn not_sent(&self, error: Error) -> Result<Outcome> {
        if error.kind() == ErrorKind::SessionLost
            && let Ok(Scene { first, now }) = self.look_from_outside().await
            && first.as_ref().is_none_or(|(id, _)| *id != self.fence.entry.id)
        {
            return Ok(Outcome::Fenced { first, now });
        }
        Ok(Outcome::Refused(error))
    }

    /// By a session of its own, that is ended at once.
    async fn look_from_outside(&self) -> Result<Scene, Failure> {
        let (hosts, limit) = (&self.session.hosts, self.session.limit());
        let link = hosts.connect(hosts.current(), self.session.timeout(), None, limit).await?;
        let scene = timeout(limit, Scene::look(&link, &self.queue, &self.datum)).await;
        let _ = timeout(limit, link.close()).await;
        match scene {
            Ok(scene) => scene.map_err(|fault| Failure::of(fault, &link.host, &self.queue)),
            Err(_) => Err(Failure::silent(&link.host, limit)),
        }
    }
}
