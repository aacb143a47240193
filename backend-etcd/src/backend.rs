//! The backend: a cluster, and the sessions on it.

use std::{sync::Arc, time::Duration};

use tenure_core::{Backend, Clock, Config, Error, Opened, Result, Strength, async_trait};
use tokio::time::Instant;

use crate::{
    config::Settings,
    endpoints::{Endpoints, Link},
    error::{Blame, Failure},
    keys::Keys,
    session::{EtcdSession, seconds},
};

/// Queues in an etcd cluster. What it answers survives the end of a minority of its servers; a cluster of one server has none to lose.
///
/// Every call but a wait ends within a third of the ttl, and within ten seconds; opening a session within the `connect_timeout`. Its clients
/// belong to the tokio runtime that first used them; once that has ended, the next call of each fails and makes a new one.
///
/// # Panics
/// All calls panic outside of a tokio runtime, and in one whose I/O or time is not enabled (`enable_all`).
#[derive(Clone, Debug)]
pub struct EtcdBackend {
    endpoints: Arc<Endpoints>,
    keys: Keys,
    clock: Clock,
    connect_timeout: Duration,
}

impl EtcdBackend {
    /// Reads the configuration and the files it names; nothing is sent before a session is opened. With `tls`, or if one of `ca`, `cert`
    /// and `key` is written, all connections are encrypted, and the servers' certificates are verified.
    ///
    /// # Errors
    /// `Config`, with what to write instead.
    pub async fn connect(from: &Config, clock: &Clock, tls: bool) -> Result<Self> {
        let settings = Settings::of(from, tls)?;
        let endpoints = Arc::new(Endpoints::new(&settings));
        endpoints.check(&settings.anonymous).await.map_err(Failure::into_error)?;
        let Settings { keys, connect_timeout, .. } = settings;
        Ok(Self { endpoints, keys, clock: clock.clone(), connect_timeout })
    }

    /// One try to open a session, on the current server: both of its steps within `limit`.
    async fn open_once(&self, ttl: Duration, limit: Duration) -> Result<Opened, Failure> {
        let wanted = i64::try_from(ttl.as_millis().div_ceil(1000)).unwrap_or(i64::MAX); // leases last for whole seconds
        let sent = self.clock.now();
        let grant = |link: Link| async move { link.client.lease_client().grant(wanted, None).await };
        let end = Instant::now() + limit;
        let granted = self.endpoints.attempt(limit, grant).await?;
        let (lease, ttl) = (granted.id(), seconds(granted.ttl()));
        let left = end.saturating_duration_since(Instant::now());
        let session = EtcdSession::begin(&self.endpoints, &self.keys, &self.clock, (lease, ttl), left).await?;
        Ok(Opened { session: Box::new(session), ttl, deadline: sent + ttl })
    }
}

#[async_trait]
impl Backend for EtcdBackend {
    fn strength(&self) -> Strength {
        Strength::Consensus
    }

    fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Tries every server once. A lease that was granted without our hearing of it has no entries, and expires.
    async fn open(&self, ttl: Duration) -> Result<Opened> {
        let servers = self.endpoints.count();
        // Less than what core waits, so that there is time to tell what was the matter.
        let limit = self.connect_timeout * 4 / 5 / u32::try_from(servers).unwrap_or(u32::MAX);
        let mut left = servers;
        loop {
            left -= 1;
            match self.open_once(ttl, limit).await.map_err(|failure| failure.at_first(self.endpoints.has_tls())) {
                Ok(opened) => return Ok(opened),
                Err(failure) if failure.blame != Blame::Request && left > 0 => {}
                Err(failure) if failure.blame != Blame::Request && servers > 1 => {
                    let (kind, names) = (failure.kind, self.endpoints.names());
                    let error = Error::new(kind, format!("no etcd server of {names} can be used"));
                    return Err(error.with_source(failure.into_error().report()));
                }
                Err(failure) => return Err(failure.into_error()),
            }
        }
    }
}
