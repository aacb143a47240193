//! An observer that asks a follower that lags is told of the leader that there is, not of the one there was.

use tenure_tests::{laggard::first_item_is_the_present_leader, on_zk::coordinator, rounds};

use super::ensemble;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_item_from_a_follower_that_lags_is_the_present_leader() {
    let (zookeeper, _alone) = ensemble().await;
    let leader = zookeeper.leader().await.expect("all serve");
    let nodes = &zookeeper.nodes;
    let [one, other] = [1, 2].map(|further| &nodes[(leader + further) % 3]);
    let campaigning = coordinator(&one.client.to_string(), "ttl=20s").await;
    let watching = coordinator(&other.client.to_string(), "ttl=20s").await;
    let count = rounds(6);
    first_item_is_the_present_leader(&campaigning, &watching, &other.process, count).await;
    println!("{count} rounds: the first item was the present leader");
}
