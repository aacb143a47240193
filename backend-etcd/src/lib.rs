//! Tenure over etcd: any number of hosts exclude each other, through the loss of any minority of the servers. A session is a lease, an entry
//! is a key bound to it, and its token is the revision that created it: it rises over all names for as long as the data of the
//! cluster exists. The limit is that data: a cluster that is restored from a backup gives old tokens again, unless `token_base` is
//! raised above them. Sessions that are open notice it and are lost, with that reason; a process that starts afterwards cannot.
//!
//! ```no_run
//! # async fn run() -> tenure_core::Result<()> {
//! use tenure_core::{Clock, Config, Coordinator, Options};
//! use tenure_etcd::EtcdBackend;
//!
//! let config: Config = "etcd://10.0.0.1,10.0.0.2,10.0.0.3/billing".parse()?;
//! let backend = EtcdBackend::connect(&config, &Clock::system(), false).await?;
//! let coordinator = Coordinator::new(backend, Options::default())?;
//! let guard = coordinator.lock("nightly-invoices").await?;
//! println!("sending with token {}", guard.token());
//! guard.release().await?;
//! coordinator.close().await?;
//! # Ok(()) }
//! ```
//!
//! # Where the servers are
//! `etcd://host[:port][,host..]/namespace`, all hosts of one cluster, port 2379 unless written; `etcds://` for TLS with the system's
//! authorities. `ca` names another authority, `cert` and `key` our certificate: each of them means TLS too. `user` with `password` or
//! `password_file` logs in; the user needs a role that may read and write everything that begins with `namespace/`.
//!
//! # How it works
//! An entry of the name `invoices` is the key `billing/invoices/<id>`; it is appended, and the queue read, in one transaction. Whoever waits
//! watches the one entry it waits for. A keep-alive counts from when it was sent; with each, a majority confirms the leader, which also shows
//! whether the data is still what it was. Whatever was sent and given up cannot take effect after the entry was left, even if a server gets
//! to it minutes later. `lock` is one request and one write, `release` another, if nobody else is there.
//!
//! # Data
//! [Fenced data](tenure_core::LockGuard::fenced) stands at `billing/.tenure/data/<name>/<key>`, without a lease. A write is one transaction that
//! compares the writer's entry, that nobody is ahead of it, and the session's epoch, so that what was given up cannot come late.
//!
//! # With etcdctl and Go programs
//! `etcdctl lock billing/invoices`, and whatever uses the `Mutex` or `Election` of Go's `concurrency` package on that name, excludes ours
//! and is excluded, as an exclusive contender in the same queue. This holds for names of letters, digits, `-` and `_`; every other byte of
//! a name (not of a namespace) is written as `%XX`. Go programs also wait for whatever stands *below* their name, so do not make
//! `billing/invoices` a namespace too.
//!
//! # Limits
//! * Leases last for whole seconds, and at least one and a half of the servers' election timeout (2 s by default); a longer grant
//!   is used and shown. Entries of a holder that died go up to half a second after its ttl, and at a change of the etcd leader their time
//!   begins anew: takeover is late then, never early.
//! * Whoever may write the namespace may do anything to the locks in it. An entry without a lease blocks its queue until it is removed.
//! * A full database (`NOSPACE`) keeps new entries out until an operator has made room; holders hold on. A release works at once on 3.4; on
//!   3.5, and after an enter whose answer was lost, it is tried until there is room.
//! * etcd 3.5.13 or 3.4.31 at least: leaders of older ones may revoke leases, or answer keep-alives, after they were deposed. Both are safe
//!   here (a keep-alive counts from its sending, and only if a majority confirms a leader of the same term), but tenures are lost for
//!   nothing.
//! * The build needs `protoc` and its include files (Debian: `apt-get install protobuf-compiler libprotobuf-dev`).

use std::sync::Arc;

use tenure_core::{Backend, Clock, Config, Driver, Result, async_trait};

pub use crate::backend::EtcdBackend;

mod backend;
mod config;
mod data;
mod doubts;
mod endpoints;
mod entries;
mod error;
mod keys;
mod lease;
mod look;
mod reply;
mod session;
mod timeline;
mod token_base;
mod watch;

/// `etcd://host,host,host/namespace`, or `etcds://..` for TLS with the system's authorities. As strong as the cluster's majority.
#[derive(Clone, Copy, Debug)]
pub struct EtcdDriver {
    tls: bool,
}

impl EtcdDriver {
    /// The scheme `etcd`: TLS only if `ca`, `cert` or `key` is written.
    pub const PLAIN: Self = Self { tls: false };

    /// The scheme `etcds`: always TLS.
    pub const TLS: Self = Self { tls: true };
}

#[async_trait]
impl Driver for EtcdDriver {
    fn scheme(&self) -> &'static str {
        if self.tls { "etcds" } else { "etcd" }
    }

    fn example(&self) -> &'static str {
        if self.tls {
            "etcds://10.0.0.1,10.0.0.2,10.0.0.3/billing"
        } else {
            "etcd://10.0.0.1,10.0.0.2,10.0.0.3/billing"
        }
    }

    fn unused(&self) -> &'static [&'static str] {
        &["path"]
    }

    async fn connect(&self, config: &Config, clock: &Clock) -> Result<Arc<dyn Backend>> {
        Ok(Arc::new(EtcdBackend::connect(config, clock, self.tls).await?))
    }
}
