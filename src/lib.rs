//! Distributed locks over a backend that configuration chooses; every exclusive grant carries a fencing token.
//!
//! Until its deadline, and by this machine's own clock, a [`Tenure`] guarantees that nobody else holds what is incompatible with it. The
//! limit: a process can be paused between its look at the clock and its act, so whatever must never be written by two holders has to
//! check the [`FencingToken`]. [`LockGuard::fenced`] keeps data where that is done already: in the service.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> tenure::Result<()> {
//! let coordinator = tenure::connect("memory://billing?ttl=10s").await?;
//!
//! let guard = coordinator.lock("invoices").await?;          // or try_lock -> Option, or tokio::time::timeout around it
//! guard.run(async { send(guard.token()).await }).await?;    // dropped the moment the lock is lost
//! guard.release().await?;                                   // or drop it
//! # Ok(())
//! # }
//! # async fn send(token: tenure::FencingToken) { let _ = token; }
//! ```

pub use tenure_core::*;

/// The backends that are compiled in: `memory` always, the others by feature.
pub fn drivers() -> Drivers {
    let drivers = Drivers::new().with(MemoryDriver);
    #[cfg(feature = "etcd")]
    let drivers = drivers.with(tenure_etcd::EtcdDriver::PLAIN).with(tenure_etcd::EtcdDriver::TLS);
    #[cfg(feature = "sqlite")]
    let drivers = drivers.with(tenure_sqlite::SqliteDriver);
    #[cfg(feature = "zk")]
    let drivers = drivers.with(tenure_zk::ZkDriver::PLAIN).with(tenure_zk::ZkDriver::TLS);
    drivers
}

/// Connects to the backend that the URL names, with the backends that are compiled in.
///
/// # Errors
/// As [`Drivers::connect`].
pub async fn connect(url: &str) -> Result<Coordinator> {
    drivers().connect(&url.parse()?).await
}

/// Connects to what the environment names: `TENURE_URL`, or `TENURE_BACKEND`, `TENURE_HOSTS` and so on for every key; over the profile
/// `TENURE_PROFILE` of the file `TENURE_CONFIG`, if they are set (with the feature `toml`). No file is looked for elsewhere, and nothing
/// is used by default: a service that was not told where to lock does not lock somewhere.
///
/// # Errors
/// As [`Sources::find`] and [`Drivers::connect`].
pub async fn connect_env() -> Result<Coordinator> {
    let drivers = drivers();
    drivers.connect(&Sources::new(&drivers).environment().find()?).await
}
