//! The suite on ZooKeeper: one real server for every case.

use std::{sync::Arc, time::Duration};

use tenure_conformance::{
    Harness,
    server::zookeeper::{Setup, Zookeeper},
};
use tenure_core::{Backend, Clock, Config, ContenderId, QueueName, async_trait};
use tenure_zk::ZkBackend;

struct Server(Zookeeper);

impl Server {
    async fn start() -> Self {
        Self(Setup::single().start().await)
    }
}

#[async_trait]
impl Harness for Server {
    async fn client(&self) -> Arc<dyn Backend> {
        let config: Config = format!("zk://{}/suite", self.0.hosts()).parse().expect("a URL");
        Arc::new(ZkBackend::connect(&config, &Clock::system(), false).expect("a client"))
    }

    /// At a second, a call has a quarter of that: too little on a machine that runs the servers of two cases on two cores.
    fn ttl(&self) -> Duration {
        Duration::from_secs(2)
    }

    async fn remove(&self, queue: &QueueName, id: &ContenderId) {
        let (mut operator, queue) = (self.0.operator().await, format!("/suite/{}", queue.escaped()));
        let prefix = format!("_c_{id}-lock-");
        let entries: Vec<_> =
            operator.list(&queue).await.into_iter().filter(|name| name.starts_with(&prefix)).collect();
        assert_eq!(entries.len(), 1, "{entries:?}");
        operator.delete(&format!("{queue}/{}", entries[0])).await;
        operator.close().await;
    }
}

tenure_conformance::conformance! {
    harness: Server::start(),
    excused: [],
}
