//! The server goes away and comes back, while many wait.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use tenure_conformance::server::zookeeper::{Setup, Zookeeper};
use tenure_core::{Coordinator, FencingToken};
use tenure_tests::{
    on_zk::{coordinator, until_queued},
    rounds,
};
use tokio::{
    task::JoinHandle,
    time::{sleep, timeout},
};

const WAITERS: usize = 20;
const LONG: Duration = Duration::from_secs(40);

type Served = Arc<Mutex<Vec<(usize, FencingToken)>>>;

/// Waiters on a few coordinators, one behind the other; each notes its turn and leaves.
async fn waiters(zookeeper: &Zookeeper, coordinators: &[Coordinator], served: &Served) -> Vec<JoinHandle<()>> {
    let mut waiters = Vec::new();
    for place in 1..=WAITERS {
        let (coordinator, served) = (coordinators[place % coordinators.len()].clone(), served.clone());
        waiters.push(tokio::spawn(async move {
            let guard = coordinator.lock("x").await.expect("granted");
            served.lock().expect("no panic").push((place, guard.token()));
            let _ = guard.release().await; // if it was lost, the next one does not come before it was told
        }));
        until_queued(zookeeper, "x", place + 1).await;
    }
    waiters
}

async fn all_served(waiters: Vec<JoinHandle<()>>, served: &Served) -> Vec<usize> {
    for waiter in waiters {
        timeout(LONG, waiter).await.expect("every wait completes").expect("no error reaches the user");
    }
    let served = served.lock().expect("no panic").clone();
    assert!(served.windows(2).all(|pair| pair[0].1 < pair[1].1), "the tokens do not rise: {served:?}");
    served.into_iter().map(|(place, _)| place).collect()
}

/// With this ttl the outage lasts so many halves of it, and the start of the server.
async fn over_an_outage(ttl: Duration, halves: u32) {
    let mut zookeeper = Setup::single().start().await;
    let mut coordinators = Vec::new();
    for _ in 0..4 {
        coordinators.push(coordinator(&zookeeper.hosts(), &format!("ttl={}s", ttl.as_secs())).await);
    }
    let guard = coordinators[0].lock("x").await.expect("granted");
    let served = Served::default();
    let waiters = waiters(&zookeeper, &coordinators, &served).await;
    zookeeper.nodes[0].process.kill();
    sleep(ttl * halves / 2).await;
    zookeeper.nodes[0].process.restart().expect("it starts");
    if halves == 0 {
        sleep(ttl).await;
        assert!(guard.is_held(), "a restart ends nothing");
    }
    let (held, first) = (guard.is_held(), guard.token());
    drop(guard);
    let order = all_served(waiters, &served).await;
    assert!(served.lock().expect("no panic").iter().all(|(_, token)| *token > first));
    if halves == 0 {
        assert!(order.is_sorted(), "first in, first out: {order:?}"); // all sessions have survived
    }
    println!("outage of {halves}/2 ttl: the lock {}", if held { "survived" } else { "was lost" });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_ends_nothing() {
    over_an_outage(Duration::from_secs(10), 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_wait_completes_after_an_outage_of_one_ttl() {
    over_an_outage(Duration::from_secs(3), 2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_wait_completes_after_an_outage_of_two_ttls() {
    over_an_outage(Duration::from_secs(3), 4).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_wait_completes_after_an_outage_of_six_ttls() {
    over_an_outage(Duration::from_secs(3), 12).await;
}

/// Each restart is shorter than the ttl: the same lock all the time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_survives_restarts_of_the_server() {
    let mut zookeeper = Setup::single().start().await;
    let coordinator = coordinator(&zookeeper.hosts(), "ttl=8s").await;
    let guard = coordinator.lock("x").await.expect("granted");
    for round in 0..rounds(4) {
        zookeeper.nodes[0].process.restart().expect("it starts");
        assert!(zookeeper.serves(Duration::from_secs(10)).await);
        sleep(Duration::from_millis(3500)).await;
        assert!(guard.is_held(), "lost in round {round}");
        guard.verify().await.expect("it stands");
    }
}
