//! Every kind of backend, by the URL that names it: for tests that must come out the same whichever the configuration says.

use std::any::Any;

use tenure_core::{Strength, random_hex};

use super::{
    etcd::{Release, Setup},
    zookeeper,
};

/// A backend that a test has started, for as long as this lives.
#[derive(Debug)]
pub struct Place {
    /// What to call it in a report.
    pub label: &'static str,
    /// How strong it says it is.
    pub strength: Strength,
    url: String,
    #[expect(dead_code, reason = "dropping it ends the servers, and removes the files")]
    keeper: Box<dyn Any + Send + Sync>,
}

impl Place {
    /// One of every kind. A new backend is a line here.
    pub async fn all() -> Vec<Self> {
        let mut all = vec![Self::memory()];
        all.extend(Self::shared().await);
        all
    }

    /// One of every kind that processes can share.
    pub async fn shared() -> Vec<Self> {
        vec![Self::sqlite(), Self::etcd("etcd", 1).await, Self::etcd("etcd x3", 3).await, Self::zk("zk x3").await]
    }

    /// A world of its own in this process.
    pub fn memory() -> Self {
        let url = format!("memory://{}", random_hex());
        Self { label: "memory", strength: Strength::Process, url, keeper: Box::new(()) }
    }

    /// A file of its own.
    ///
    /// # Panics
    /// If there is no place for it.
    pub fn sqlite() -> Self {
        let folder = tempfile::tempdir().expect("a directory");
        let url = format!("sqlite:{}", folder.path().join("tenure.db").display());
        Self { label: "sqlite", strength: Strength::Host, url, keeper: Box::new(folder) }
    }

    /// Servers of its own: one, or a cluster of three.
    pub async fn etcd(label: &'static str, servers: usize) -> Self {
        let setup = if servers == 1 { Setup::single } else { Setup::cluster };
        let servers = setup(Release::Packaged).start().await;
        let url = format!("etcd://{}", servers.hosts());
        Self { label, strength: Strength::Consensus, url, keeper: Box::new(servers) }
    }

    /// An ensemble of three of its own.
    pub async fn zk(label: &'static str) -> Self {
        let servers = zookeeper::Setup::cluster().start().await;
        let url = format!("zk://{}", servers.hosts());
        Self { label, strength: Strength::Consensus, url, keeper: Box::new(servers) }
    }

    /// Its URL, with these settings: `ttl=5s&namespace=billing`.
    pub fn url(&self, settings: &str) -> String {
        format!("{}?{settings}", self.url)
    }
}
