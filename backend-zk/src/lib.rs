//! Tenure over ZooKeeper.

use std::sync::Arc;

use tenure_core::{Backend, Clock, Config, Driver, Result, async_trait};

pub use crate::backend::ZkBackend;

mod backend;
mod config;
mod diagnose;
mod entries;
mod error;
mod hosts;
mod keys;
mod lease;
mod leash;
mod link;
mod places;
mod reach;
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
