//! `tenure once` on ZooKeeper.

use tenure_conformance::server::zookeeper::Setup;

use crate::{fleet, support::Room};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn at_most_one_success_whoever_is_killed_or_cut_off() {
    let zookeeper = Setup::single().start().await;
    let hosts = zookeeper.hosts();
    let server = &zookeeper.nodes[0].process;
    fleet::at_most_one_success(server, |round| Room::on(format!("zk://{hosts}/n{round}?ttl=2s")));
}
