//! The backend: an ensemble of servers, and the sessions on it.

use std::{sync::Arc, time::Duration};

use tenure_core::{Backend, Clock, Config, Error, Opened, Result, Strength, async_trait};
use tokio::{
    join,
    time::{Instant, timeout, timeout_at},
};

use crate::{
    config::Settings,
    error::{Blame, Failure},
    hosts::{Hosts, check_grant},
    keys::Keys,
    lease::{timeout_for, validity},
    session::{Shared, ZkSession},
};

/// How long the opening of a session waits for the other servers to say what they grant.
const PATIENCE: Duration = Duration::from_millis(300);

/// Queues in a ZooKeeper ensemble. What it answers survives the end of a minority of its servers; an ensemble of one server has none to lose.
///
/// Every call but a wait ends within a third of the ttl; opening a session within the `connect_timeout`. The connection of a session belongs
/// to the tokio runtime that first needed it; once that has ended, the next call makes a new one.
///
/// # Panics
/// All calls panic outside of a tokio runtime, and in one whose I/O or time is not enabled (`enable_all`).
#[derive(Clone, Debug)]
pub struct ZkBackend {
    hosts: Arc<Hosts>,
    keys: Keys,
    clock: Clock,
    connect_timeout: Duration,
}

impl ZkBackend {
    /// Reads the configuration and the files it names; nothing is sent before a session is opened. With `tls`, or if one of `ca`, `cert`
    /// and `key` is written, all connections are encrypted, and the servers' certificates are verified.
    ///
    /// # Errors
    /// `Config`, with what to write instead.
    pub fn connect(from: &Config, clock: &Clock, tls: bool) -> Result<Self> {
        let settings = Settings::of(from, tls)?;
        let (keys, connect_timeout) = (settings.keys.clone(), settings.connect_timeout);
        let hosts = Arc::new(Hosts::new(settings).map_err(Failure::into_error)?);
        Ok(Self { hosts, keys, clock: clock.clone(), connect_timeout })
    }

    /// One try to open a session, on this server, all within the limit: or two slow servers use up what a third one needs. The others are asked
    /// meanwhile whether they would grant as much.
    async fn open_once(&self, at: usize, ttl: Duration, limit: Duration) -> Result<Opened, Failure> {
        let wanted = timeout_for(ttl);
        let (sent, end) = (self.clock.now(), Instant::now() + limit);
        let link = self.hosts.connect(at, wanted, None, limit).await?;
        let host = link.host.clone();
        if let Err(failure) = check_grant(&host, link.granted, wanted) {
            let _ = timeout(limit, link.close()).await;
            return Err(failure);
        }
        let begin = timeout_at(end, Shared::begin(&self.hosts, &self.keys, &self.clock, link, sent));
        let (begun, others) = join!(begin, self.hosts.ask_others(at, wanted, PATIENCE.min(limit)));
        let session = ZkSession(begun.unwrap_or_else(|_| Err(Failure::silent(&host, limit)))?);
        if let Err(failure) = others {
            let _ = tenure_core::Session::close(&session).await;
            return Err(failure);
        }
        let (ttl, deadline) = (validity(session.0.timeout()), session.0.deadline());
        Ok(Opened { session: Box::new(session), ttl, deadline })
    }
}

#[async_trait]
impl Backend for ZkBackend {
    fn strength(&self) -> Strength {
        Strength::Consensus
    }

    fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Tries every server once. A session that was opened without our hearing of it has no entries, and expires.
    async fn open(&self, ttl: Duration) -> Result<Opened> {
        let servers = self.hosts.count();
        let limit = self.connect_timeout / u32::try_from(servers + 1).unwrap_or(u32::MAX);
        let first = self.hosts.current();
        let mut left = servers;
        loop {
            let at = (first + servers - left) % servers;
            left -= 1;
            match self.open_once(at, ttl, limit).await {
                Ok(opened) => return Ok(opened),
                Err(failure) if failure.blame != Blame::Request && left > 0 => self.hosts.turn_from_at(at),
                Err(failure) if failure.blame != Blame::Request && servers > 1 => {
                    let (kind, names) = (failure.kind, self.hosts.names());
                    let error = Error::new(kind, format!("no ZooKeeper server of {names} can be used"));
                    return Err(error.with_source(failure.into_error().report()));
                }
                Err(failure) => return Err(failure.into_error()),
            }
        }
    }
}
