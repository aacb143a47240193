//! The servers that elections are held on.

use std::time::Duration;

use tenure_conformance::server::{
    etcd::{Etcd, Release, Setup},
    zookeeper::{self, Zookeeper},
};
use tenure_core::{Coordinator, Election};

/// One server.
pub(crate) enum Service {
    Etcd(Etcd),
    Zookeeper(Zookeeper),
}

impl Service {
    pub(crate) async fn etcd() -> Self {
        Self::Etcd(Setup::single(Release::Packaged).start().await)
    }

    pub(crate) async fn zookeeper() -> Self {
        Self::Zookeeper(zookeeper::Setup::single().start().await)
    }

    /// A coordinator of its own.
    pub(crate) async fn coordinator(&self, settings: &str) -> Coordinator {
        let url = match self {
            Self::Etcd(etcd) => format!("etcd://{}/n?{settings}", etcd.hosts()),
            Self::Zookeeper(zookeeper) => format!("zk://{}/n?{settings}", zookeeper.hosts()),
        };
        tenure::connect(&url).await.unwrap_or_else(|error| panic!("{url}: {}", error.report()))
    }

    /// Of a coordinator of its own.
    pub(crate) async fn election(&self, settings: &str) -> Election {
        self.coordinator(settings).await.election("x")
    }

    pub(crate) fn kill(&mut self) {
        match self {
            Self::Etcd(etcd) => etcd.nodes[0].process.kill(),
            Self::Zookeeper(zookeeper) => zookeeper.nodes[0].process.kill(),
        }
    }

    pub(crate) fn takes_to_start(&self) -> Duration {
        match self {
            Self::Etcd(_) => Duration::from_millis(500),
            Self::Zookeeper(_) => Duration::from_secs(2),
        }
    }

    pub(crate) async fn restart(&mut self) {
        let serves = match self {
            Self::Etcd(etcd) => {
                etcd.nodes[0].process.restart().expect("it starts");
                etcd.serves(Duration::from_secs(20)).await
            }
            Self::Zookeeper(zookeeper) => {
                zookeeper.nodes[0].process.restart().expect("it starts");
                zookeeper.serves(Duration::from_secs(30)).await
            }
        };
        assert!(serves, "it does not come back");
    }

    /// Throws away its past, if it keeps one.
    pub(crate) fn compact(&self) {
        match self {
            Self::Etcd(etcd) => {
                let status = etcd.control(&["endpoint", "status", "--write-out=json"]);
                let rest = status.split("\"revision\":").nth(1).expect("a revision");
                let revision = rest.split([',', '}']).next().expect("a revision");
                etcd.control(&["compact", "--physical", revision]);
            }
            Self::Zookeeper(_) => {} // it keeps none
        }
    }
}
