//! How a session reaches the servers: by one link at a time. When that breaks, the session is taken up anew, by way of another server.

use std::{
    future::Future,
    sync::{Arc, Weak},
    time::Duration,
};

use tenure_core::{ErrorKind, Result};
use tokio::{
    task::JoinHandle,
    time::{Instant, timeout},
};

use crate::{
    error::{Failure, Fault, Refusal, settled},
    hosts::check_grant,
    link::Link,
    session::{PASSED, Shared},
};

/// A failure to reach any server is everybody's for so long: a hundred who wait need not find out one after the other.
const SHARED_FAILURE: Duration = Duration::from_millis(50);

/// The present link, and why there is none.
#[derive(Default)]
pub(crate) struct Slot {
    pub(crate) link: Option<Arc<Link>>,
    failed: Option<(Instant, Failure)>,
    /// Ends the session in time, unless the runtime it was started in has ended.
    ending: Option<JoinHandle<()>>,
}

impl Slot {
    /// Of a session that has a link.
    pub(crate) fn new(link: Link) -> Self {
        Self { link: Some(Arc::new(link)), ..Self::default() }
    }

    /// Whoever has a link keeps the session alive; so somebody has to see to its end.
    pub(crate) fn end_in_time(&mut self, session: &Weak<Shared>) {
        if self.ending.as_ref().is_none_or(JoinHandle::is_finished) {
            self.ending = Some(tokio::spawn(end_in_time(session.clone())));
        }
    }
}

impl Shared {
    /// Asks the present server, once. What is no definite answer is `Unavailable`, and ambiguous; the next call goes to another server.
    pub(crate) async fn attempt<T, F>(&self, act: impl FnOnce(Arc<Link>) -> F) -> Result<Result<T, Refusal>>
    where
        F: Future<Output = Result<T, Fault>>,
    {
        self.check()?;
        let (mut used, mut asked) = (None, Instant::now());
        let work = async {
            let link = used.insert(self.link().await?).clone();
            asked = Instant::now();
            Ok(settled(act(link).await))
        };
        let (worked, limit) = (timeout(self.limit(), work).await, self.limit());
        let failure = match (worked, &used) {
            (Ok(Ok(Ok(answer))), _) => return Ok(answer),
            (Ok(Ok(Err(Fault::Expired))), _) => return Err(self.end("the session is over: ZooKeeper has ended it")),
            (Ok(Ok(Err(Fault::NoLogin))), _) => {
                return Err(self.end("the session is over: ZooKeeper refuses user and password"));
            }
            (Ok(Ok(Err(fault))), Some(link)) => Failure::of(fault, &link.host, &self.marker),
            (Ok(Err(failure)), _) => failure,
            // Most of the time went into waiting for the link: it has hardly been asked, and what is asked next comes after this (see `entries`).
            (_, Some(link)) if asked.elapsed() < limit / 2 => {
                return Err(Failure::silent(&link.host, limit).in_session());
            }
            (_, Some(link)) => Failure::silent(&link.host, limit),
            (_, None) => Failure::silent(&self.hosts.names(), limit),
        };
        if let Some(link) = used {
            tracing::debug!(server = link.host, ?failure, "leaving the server");
            link.kill();
            self.hosts.turn_from(&link.host);
        }
        self.check()?; // it may have ended meanwhile
        Err(failure.in_session())
    }

    /// The present link, or a new one: made in a task of its own, so that a caller whose time is up does not undo it for all who come after.
    async fn link(&self) -> Result<Arc<Link>, Failure> {
        if let Some(link) = self.slot.try_lock().ok().and_then(|slot| slot.link.clone()).filter(|link| link.is_alive())
        {
            return Ok(link);
        }
        let Some(session) = self.me.upgrade() else { return Err(Failure::expired()) };
        let linking = self.runtime.spawn(async move { session.linked().await });
        linking.await.unwrap_or_else(|_| Err(Failure::server("the runtime of the session has ended")))
    }

    async fn linked(&self) -> Result<Arc<Link>, Failure> {
        let mut slot = self.slot.lock().await;
        if let Some(link) = slot.link.as_ref().filter(|link| link.is_alive()) {
            return Ok(link.clone());
        }
        if let Some((_, failure)) = slot.failed.as_ref().filter(|(when, _)| when.elapsed() < SHARED_FAILURE) {
            return Err(failure.clone());
        }
        slot.link = None;
        let limit = self.limit() * 3;
        let link = timeout(limit, self.take_up()).await;
        let link = link.unwrap_or_else(|_| Err(Failure::silent(&self.hosts.names(), limit)));
        slot.failed = link.as_ref().err().map(|failure| (Instant::now(), failure.clone()));
        let link = Arc::new(link?);
        slot.link = Some(link.clone());
        slot.end_in_time(&self.me);
        Ok(link)
    }

    /// Takes the session to a server that grants it as much as the one before. What it does first is a write that a majority confirms. So
    /// whatever is read from this server afterwards is no older than what was read from the one before (contract clause 4), and the leader
    /// refuses from now on what the one before still has of us (clause 6: see `entries`).
    async fn take_up(&self) -> Result<Link, Failure> {
        let (wanted, limit) = (self.timeout, self.limit());
        let at = self.hosts.find(wanted, limit).await?;
        let link = match self.hosts.connect(at, wanted, Some(&self.identity), limit).await {
            Ok(link) => link,
            Err(failure) => {
                if failure.kind == ErrorKind::SessionLost {
                    self.end("the session is over: ZooKeeper has ended it");
                }
                self.hosts.turn_from_at(at);
                return Err(failure);
            }
        };
        if link.session() != self.id {
            self.end("the session is over: the server gave us another one");
        } else if let Err(failure) = check_grant(&link.host, link.granted, wanted) {
            // It granted more when it was asked. The session is shorter now than was promised, so it is lost. It is not closed here: its entries
            // must not go before that was told.
            self.end(&format!("the session is over: {}", failure.into_error()));
        }
        if self.over.get().is_some() {
            return Err(Failure::expired());
        }
        self.confirm(&link).await.inspect_err(|_| self.hosts.turn_from_at(at))?;
        tracing::debug!(server = link.host, "the session goes on");
        Ok(link)
    }

    /// The first write by a new link, which is a keep-alive too.
    async fn confirm(&self, link: &Link) -> Result<(), Failure> {
        let (sent, limit) = (self.clock.now(), self.limit());
        match timeout(limit, link.check(&self.marker)).await {
            Ok(Ok(())) => {
                self.lease.renewed(sent, self.clock.now());
                Ok(())
            }
            Ok(Err(Fault::Refused(Refusal::NoNode))) => {
                self.end_unmarked();
                Err(Failure::expired())
            }
            Ok(Err(fault)) => Err(Failure::of(fault, &link.host, &self.marker)),
            Err(_) => Err(Failure::silent(&link.host, limit)),
        }
    }

    /// Ends the session at the server, by the present link or by a last one.
    pub(crate) async fn close_at_server(&self) -> Result<(), Failure> {
        let mut slot = self.slot.lock().await;
        if let Some(link) = slot.link.take().filter(|link| link.is_alive())
            && link.close().await
        {
            return Ok(());
        }
        // A server that hears of the session keeps it alive, and only one that answers can be told to end it: whoever cannot hear the answers, and
        // tried again and again, would keep the session for ever.
        let at = self.hosts.find(self.timeout, self.limit()).await?;
        let link = self.hosts.connect(at, self.timeout, Some(&self.identity), self.limit()).await;
        let link = match link {
            Err(failure) if failure.kind == ErrorKind::SessionLost => return Ok(()), // it has ended before
            link => link.inspect_err(|_| self.hosts.turn_from_at(at))?,
        };
        if link.close().await {
            Ok(())
        } else {
            Err(Failure::broken(&link.host, "before it confirmed the end of the session"))
        }
    }
}

/// Ends a session whose deadline has passed: whoever has it has lost it, and nobody shall wait for it any longer. The client library would
/// keep it alive for ever.
async fn end_in_time(session: Weak<Shared>) {
    while let Some(shared) = session.upgrade() {
        if shared.lease.is_over(&shared.clock) {
            shared.end(PASSED);
            let link = shared.slot.lock().await.link.take();
            if let Some(link) = link {
                let _ = timeout(shared.limit(), link.close()).await;
            }
            return;
        }
        let (clock, deadline) = (shared.clock.clone(), shared.deadline());
        drop(shared);
        clock.sleep_until(deadline).await;
    }
}
