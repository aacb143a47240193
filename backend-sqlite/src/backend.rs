//! The backend: one file, and the sessions in it.

use std::{sync::Arc, time::Duration};

use tenure_core::{Backend, BootId, Clock, Config, Opened, Result, Strength, async_trait};

use crate::{config::Settings, error::config, session::SqliteSession, store::Store};

/// Queues in one SQLite file, shared by the processes of one host. What it answers survives the end of any process and of the host, but
/// not the loss of the file.
///
/// Each one has a thread of its own for the database, which ends once the backend and its sessions are dropped. Every call ends within
/// five seconds.
///
/// # Panics
/// Opening a session panics outside of a tokio runtime, and in one whose I/O or time is not enabled (`enable_all`).
#[derive(Clone, Debug)]
pub struct SqliteBackend {
    store: Store,
    clock: Clock,
    namespace: Arc<str>,
}

impl SqliteBackend {
    /// Opens the file that the configuration names, and makes it if there is none. Expiry is decided by `clock`, which must be the same
    /// one for all who use the file: outside of tests [`Clock::system`].
    ///
    /// # Errors
    /// `Config` if the file or its place cannot serve (it is no database, another program's, a newer version's, or on a network file
    /// system), `Denied` if it may not be written, `Unavailable` if the disk is full or it cannot be opened within the
    /// `connect_timeout`. Each message says what to do.
    ///
    /// # Cancel safety
    /// Cancel safe: nothing is left but the file.
    pub async fn connect(from: &Config, clock: &Clock) -> Result<Self> {
        let settings = Settings::of(from)?;
        if clock.now().boot == BootId::UNKNOWN {
            return Err(config(
                "the boot id cannot be read, without which a session could outlive a reboot: mount /proc, or use another backend",
            ));
        }
        let namespace = settings.namespace.as_str().into();
        Ok(Self { store: Store::open(settings, clock.clone()).await?, clock: clock.clone(), namespace })
    }
}

#[async_trait]
impl Backend for SqliteBackend {
    fn strength(&self) -> Strength {
        Strength::Host
    }

    fn clock(&self) -> &Clock {
        &self.clock
    }

    async fn open(&self, ttl: Duration) -> Result<Opened> {
        let (session, deadline) = SqliteSession::open(&self.store, &self.clock, &self.namespace, ttl).await?;
        Ok(Opened { session: Box::new(session), ttl, deadline })
    }
}
