//! Elections on ZooKeeper: the same replicas, and what an operator does to them.

use std::time::Duration;

use tenure_conformance::server::zookeeper::{Operator, Setup, Zookeeper};
use tokio::{runtime::Handle, task::block_in_place, time::sleep};

use crate::{
    replicas::{FAULTS, Replicas, rounds_of_each},
    support::Room,
};

/// When the next one is let through after a holder that died: a session lasts ten sevenths of the ttl, three seconds, and up to a tick.
const GONE: Duration = Duration::from_millis(4500);

fn replicas(zookeeper: &Zookeeper) -> Replicas {
    Replicas::start(Room::on(format!("zk://{}/n?ttl=3s", zookeeper.hosts())), GONE, 3)
}

/// A leader that is stopped comes back to a session that has expired.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_replicas_under_kill_stop_resign_hand_over_and_term() {
    let zookeeper = Setup::single().start().await;
    let mut replicas = replicas(&zookeeper);
    for round in 0..rounds_of_each(FAULTS, 1) {
        replicas.fault(round);
    }
    replicas.end();
}

/// With a ttl that nobody could wait for in a hand-over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replacing_three_replicas_one_by_one_lacks_a_leader_only_for_the_hand_overs() {
    let zookeeper = Setup::single().start().await;
    let room = Room::on(format!("zk://{}/n?ttl=15s", zookeeper.hosts()));
    Replicas::start(room, Duration::from_secs(15), 3).rolls(rounds_of_each(1, 1));
}

/// The first in line, and an operator to remove it.
async fn leader(zookeeper: &Zookeeper) -> (Operator, String, i64) {
    let mut operator = zookeeper.operator().await;
    let mut names = operator.list("/n/job").await;
    names.sort_by_key(|name| name.rsplit('-').next().map(str::to_owned));
    let path = format!("/n/job/{}", names[0]);
    let (_, stat) = operator.get(&path).await.expect("it leads");
    (operator, path, stat.owner)
}

/// Both the old leader and the next one hear of it at the same time, so the bodies may overlap: for less than a second.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_is_ended_and_a_node_that_is_deleted() {
    let zookeeper = Setup::single().start().await;
    let mut replicas = replicas(&zookeeper);
    replicas.overlap = Duration::from_secs(1);
    for round in 0..rounds_of_each(2, 3) {
        sleep(Duration::from_millis(800)).await; // the own entry is watched from half a second on
        let (mut operator, path, session) = leader(&zookeeper).await;
        let by_session = round % 2 == 0;
        let remove = async {
            if by_session {
                operator.end_session(session).await;
            } else {
                operator.delete(&path).await;
            }
        };
        let (_, _, took) = replicas.harm(|_, _| block_in_place(|| Handle::current().block_on(remove)));
        println!("{}: {took:?}", if by_session { "session ended" } else { "deleted" });
        assert!(took < Duration::from_secs(2), "it is told within a second: {took:?}");
        replicas.until_candidates(3);
    }
    replicas.end();
}
