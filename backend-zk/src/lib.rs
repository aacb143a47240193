//! Tenure over ZooKeeper: any number of hosts exclude each other, through the loss of any minority of the servers. A session is ZooKeeper's
//! own, an entry is an ephemeral sequential node, and its token is the number of the transaction that made it (`czxid`): it rises over all
//! names for as long as the data of the ensemble exists. The limit is that data: an ensemble that is restored from a backup, or started on
//! empty disks, gives old tokens again, unless `token_base` is raised above them.
//!
//! ```no_run
//! # async fn run() -> tenure_core::Result<()> {
//! use tenure_core::{Clock, Config, Coordinator, Options};
//! use tenure_zk::ZkBackend;
//!
//! let config: Config = "zk://10.0.0.1,10.0.0.2,10.0.0.3/billing".parse()?;
//! let backend = ZkBackend::connect(&config, &Clock::system(), false)?;
//! let coordinator = Coordinator::new(backend, Options::default())?;
//! let guard = coordinator.lock("nightly-invoices").await?;
//! println!("sending with token {}", guard.token());
//! guard.release().await?;
//! coordinator.close().await?;
//! # Ok(()) }
//! ```
//!
//! # Where the servers are
//! `zk://host[:port][,host..]/namespace`, all hosts of one ensemble, port 2181 unless written; the namespace is a path in ZooKeeper, made when
//! it is needed. `zks://` is for TLS with the system's authorities. `ca` names another authority, `cert` and `key` our certificate: each of
//! them means TLS too. `user` with `password` or `password_file` is ZooKeeper's digest login; with `acl=creator` what we make is for that
//! user alone, and without it, or with `acl=open`, for everybody.
//!
//! # How it works
//! An entry of the name `invoices` is the node `/billing/invoices/_c_<id>-lock-NNNNNNNNNN`. It is made and the queue read in one round trip
//! (three if the queue has no node yet), and left in another. Whoever waits watches the one entry it waits for. A keep-alive is a transaction that a majority commits and that
//! changes nothing; what it proves about the leader's clock is told in `lease.rs`. The session is on one server at a time. When that does
//! not serve it is taken to another one, which is first asked what it grants: one with another `maxSessionTimeout` would shorten the session.
//! Whatever was sent and given up cannot take effect after the entry was left: the leader refuses what an earlier server still sends.
//!
//! [Data](tenure_core::FencedStore) is written in a transaction that checks that the writer's entry is there: one round trip; two for a
//! conditional write of what is there, which reads first. A read is one round trip, and a commit too: it misses nothing, whatever leader its
//! server follows.
//!
//! # With Curator and kazoo
//! Curator's `InterProcessMutex` on `/billing/invoices`, and kazoo's `Lock` on it *with* `extra_lock_patterns=["-lock-"]`, exclude ours and are
//! excluded, as exclusive contenders in the same queue. One foreign family per queue. Kazoo without the pattern walks past ours, and
//! Curator's read-write lock sorts ours behind its own: both would hold. This holds for names of letters, digits, `-` and `_` that do not
//! end in ten digits; every other byte of a name (not of a namespace) is written as `%XX`.
//!
//! # Limits
//! * The servers are asked for ten sevenths of the ttl, since part of a session's timeout is used up before a keep-alive proves anything. So a
//!   holder that died is succeeded up to 1.43 ttl, and a tick of the servers, after it was last heard of. A ttl above seven tenths of
//!   `maxSessionTimeout` (28 s by default) is refused; below seven tenths of `minSessionTimeout` (2.8 s) more is granted, used and shown.
//! * Assumed: `minSessionTimeout` is at least two ticks, as it is unless somebody writes it lower; a server answers the leader's ping
//!   within a thirty-second of the session's timeout; one host name stands for one server. A name that stands for several (a balancer) may
//!   lead to another server than was asked, and a session that is shortened by it is lost as soon as that is seen, not before.
//! * The node of a queue is a container: the servers remove it once nobody has been in it for a minute. Namespaces stay.
//! * After 2^31 - 1 entries in one queue without a moment when it was empty for long enough to be removed, the servers have no new numbers for
//!   more, and give the last one again and again. Then an entry is taken back at once, with an error that says what to do; those before it
//!   stay in their order.
//! * Whoever may write the namespace may do anything to the locks in it. Nodes made by hand in a queue block it if they end in ten digits,
//!   until they are removed.
//! * A restore from a backup is noticed by a session that outlives it, once it enters a queue again, and not before: stop all users first.
//! * ZooKeeper 3.5 at least; tested with 3.8.0.

use std::sync::Arc;

use tenure_core::{Backend, Clock, Config, Driver, Result, async_trait};

pub use crate::backend::ZkBackend;

mod backend;
mod config;
mod data;
mod diagnose;
mod edition;
mod entries;
mod epochs;
mod error;
mod hosts;
mod keys;
mod lease;
mod leash;
mod link;
mod places;
mod reach;
mod refused;
mod session;
mod sightings;
mod token_base;
mod values;
mod watch;

/// `zk://host,host,host/namespace`, or `zks://..` for TLS with the system's authorities. As strong as the ensemble's majority.
#[derive(Clone, Copy, Debug)]
pub struct ZkDriver {
    tls: bool,
}

impl ZkDriver {
    /// The scheme `zk`: TLS only if `ca`, `cert` or `key` is written.
    pub const PLAIN: Self = Self { tls: false };

    /// The scheme `zks`: always TLS.
    pub const TLS: Self = Self { tls: true };
}

#[async_trait]
impl Driver for ZkDriver {
    fn scheme(&self) -> &'static str {
        if self.tls { "zks" } else { "zk" }
    }

    fn example(&self) -> &'static str {
        if self.tls { "zks://10.0.0.1,10.0.0.2,10.0.0.3/billing" } else { "zk://10.0.0.1,10.0.0.2,10.0.0.3/billing" }
    }

    fn options(&self) -> &'static [&'static str] {
        &["acl"]
    }

    fn unused(&self) -> &'static [&'static str] {
        &["path"]
    }

    async fn connect(&self, config: &Config, clock: &Clock) -> Result<Arc<dyn Backend>> {
        Ok(Arc::new(ZkBackend::connect(config, clock, self.tls)?))
    }
}
