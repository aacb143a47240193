//! Coordinators on ZooKeeper servers that a test has started, and what an operator sees of them.

use std::time::Duration;

use tenure_conformance::server::zookeeper::{Operator, Zookeeper};
use tenure_core::{Backend, Clock, Config, Coordinator, Opened, Result};
use tenure_zk::ZkBackend;
use tokio::time::{Instant, sleep};

/// The configuration for these hosts, in the namespace `n`.
pub fn config(hosts: &str, settings: &str) -> Config {
    format!("zk://{hosts}/n?{settings}").parse().expect("a URL")
}

/// As a user connects.
///
/// # Errors
/// As the backend says.
pub async fn connect(hosts: &str, settings: &str) -> Result<Coordinator> {
    tenure::drivers().connect(&config(hosts, settings)).await
}

/// A coordinator that is connected.
pub async fn coordinator(hosts: &str, settings: &str) -> Coordinator {
    connect(hosts, settings).await.unwrap_or_else(|error| panic!("{}", error.report()))
}

/// A session without a coordinator.
pub async fn session(hosts: &str, ttl: Duration) -> Opened {
    let backend = ZkBackend::connect(&config(hosts, ""), &Clock::system(), false).expect("good settings");
    backend.open(ttl).await.unwrap_or_else(|error| panic!("{}", error.report()))
}

/// The nodes in the queue of this name, in the namespace `n`.
pub async fn entries(operator: &mut Operator, name: &str) -> Vec<String> {
    operator.list(&format!("/n/{name}")).await
}

/// Until so many entries stand in the queue.
///
/// # Panics
/// If they do not soon.
pub async fn until_queued(zookeeper: &Zookeeper, name: &str, count: usize) {
    let mut operator = zookeeper.operator().await;
    let end = Instant::now() + Duration::from_secs(15);
    loop {
        let names = entries(&mut operator, name).await;
        if names.len() == count {
            break;
        }
        assert!(Instant::now() < end, "there are never {count} in {name}: {names:?}");
        sleep(Duration::from_millis(10)).await;
    }
    operator.close().await;
}
