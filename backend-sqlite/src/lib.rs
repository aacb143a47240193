//! Tenure over one SQLite file: several processes of one host exclude each other, and no server is needed. Tokens survive crashes,
//! reboots and power loss, and are never given twice, for as long as the file exists. The limit is the host: the file must be on a local
//! disk, and a file that is lost, or replaced by an older copy, takes its tokens with it, unless `token_base` is raised above them.
//!
//! ```
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! use tenure_core::{Clock, Config, Coordinator, Options};
//! use tenure_sqlite::SqliteBackend;
//!
//! # let folder = tempfile::tempdir().unwrap();
//! # let path = folder.path().join("tenure.db");
//! let config: Config = format!("sqlite:{}", path.display()).parse()?;
//! let backend = SqliteBackend::connect(&config, &Clock::system()).await?;
//! let coordinator = Coordinator::new(backend, Options::default())?;
//! let guard = coordinator.lock("nightly-invoices").await?;
//! println!("sending with token {}", guard.token());
//! guard.release().await?;
//! coordinator.close().await?;
//! # Ok::<(), tenure_core::Error>(()) }).unwrap();
//! ```
//!
//! # Where the file is
//! `sqlite:/path/to/file`, or `sqlite:` for `$XDG_STATE_HOME/tenure/tenure.db`, else `~/.local/state/tenure/tenure.db`. Names of
//! different `namespace`s in one file are strangers. SQLite keeps two more files beside it (`-wal`, `-shm`) that belong to it.
//!
//! # How it works
//! A session is a row that ends with the boot, or when its time is over by the clock that counts since the boot: nobody can set that
//! back, and it runs on while the machine is suspended. Sessions that are over are removed by whoever writes next; a waiter sets a timer
//! for it. Whoever leaves tells those who stand behind by a datagram, so hand-over takes no polling. Every call ends within
//! five seconds.
//!
//! [Fenced data](tenure_core::LockGuard::fenced) is a table; the look at the queue and the write are one transaction.
//!
//! # Limits
//! * A file that is removed or replaced while in use ends its sessions at their next keep-alive, and newcomers may be granted before
//!   that. A file that is overwritten in place cannot be told from its original: do not.
//! * The two files beside it belong to it: give containers its directory, never the file alone, and make no hard links to it.
//! * A process that was stopped in the middle of a write holds SQLite's lock, and nobody else can write until it goes on or is killed.
//!   No two hold the same because of that, but tenures are lost at their deadlines.
//! * All users of a file must be in one time namespace, or are refused. Those who were killed in another one stand in the way until
//!   somebody opens the file there, or until a reboot.
//! * Processes in different network namespaces do not hear each other, and hand over within a second.
//! * Linux only.

use std::sync::Arc;

use tenure_core::{Backend, Clock, Config, Driver, Result, async_trait};

#[cfg(target_os = "linux")]
pub use crate::backend::SqliteBackend;

#[cfg(target_os = "linux")]
mod backend;
#[cfg(target_os = "linux")]
mod config;
#[cfg(target_os = "linux")]
mod data;
#[cfg(target_os = "linux")]
mod entries;
#[cfg(target_os = "linux")]
mod error;
#[cfg(target_os = "linux")]
mod file;
#[cfg(target_os = "linux")]
mod keys;
#[cfg(target_os = "linux")]
mod ledger;
#[cfg(target_os = "linux")]
mod rows;
#[cfg(target_os = "linux")]
mod schema;
#[cfg(target_os = "linux")]
mod session;
#[cfg(target_os = "linux")]
mod store;
#[cfg(target_os = "linux")]
mod wait;
#[cfg(target_os = "linux")]
mod wake;

/// `sqlite:/path/to/file`, or `sqlite:` for a file in the user's state folder. As strong as the host it is on.
#[derive(Clone, Copy, Debug)]
pub struct SqliteDriver;

#[async_trait]
impl Driver for SqliteDriver {
    fn scheme(&self) -> &'static str {
        "sqlite"
    }

    fn example(&self) -> &'static str {
        "sqlite:/var/lib/tenure/tenure.db"
    }

    #[cfg(target_os = "linux")]
    async fn connect(&self, config: &Config, clock: &Clock) -> Result<Arc<dyn Backend>> {
        Ok(Arc::new(SqliteBackend::connect(config, clock).await?))
    }

    #[cfg(not(target_os = "linux"))]
    async fn connect(&self, _: &Config, _: &Clock) -> Result<Arc<dyn Backend>> {
        let message = "sqlite needs Linux, for a clock that counts since the boot: use another backend";
        Err(tenure_core::Error::new(tenure_core::ErrorKind::Unsupported, message))
    }
}
