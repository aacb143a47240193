//! The suite on etcd: one real server for every case, on each release.

use std::{sync::Arc, time::Duration};

use tenure_conformance::{
    Harness,
    server::etcd::{Etcd, Release, Setup},
};
use tenure_core::{Backend, Clock, Config, ContenderId, QueueName, async_trait};
use tenure_etcd::EtcdBackend;

struct Server(Etcd);

impl Server {
    async fn start(release: Release) -> Self {
        Self(Setup::single(release).start().await)
    }
}

#[async_trait]
impl Harness for Server {
    async fn client(&self) -> Arc<dyn Backend> {
        let config: Config = format!("etcd://{}/suite", self.0.hosts()).parse().expect("a URL");
        Arc::new(EtcdBackend::connect(&config, &Clock::system(), false).await.expect("a client"))
    }

    /// At a second, a keep-alive has 140 ms: too little on a machine that runs two servers and the tests on two cores.
    fn ttl(&self) -> Duration {
        Duration::from_secs(2)
    }

    async fn remove(&self, queue: &QueueName, id: &ContenderId) {
        assert_eq!(self.0.control(&["del", &format!("suite/{}/{id}", queue.escaped())]).trim(), "1");
    }
}

mod packaged {
    use super::*;

    tenure_conformance::conformance! {
        harness: Server::start(Release::Packaged),
        excused: [],
    }
}

mod v3_5 {
    use super::*;

    tenure_conformance::conformance! {
        harness: Server::start(Release::V3_5),
        excused: [],
    }
}
