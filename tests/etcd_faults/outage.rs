//! The server goes away and comes back, while many wait.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use tenure_conformance::server::etcd::{Etcd, Release, Setup};
use tenure_core::{Coordinator, FencingToken};
use tenure_tests::on_etcd::{coordinator, until_queued};
use tokio::{
    task::JoinHandle,
    time::{sleep, timeout},
};

const WAITERS: usize = 20;
const LONG: Duration = Duration::from_secs(40);

type Served = Arc<Mutex<Vec<(usize, FencingToken)>>>;

/// Waiters on a few coordinators, one behind the other; each notes its turn and leaves.
async fn waiters(etcd: &Etcd, coordinators: &[Coordinator], served: &Served) -> Vec<JoinHandle<()>> {
    let mut waiters = Vec::new();
    for place in 1..=WAITERS {
        let (coordinator, served) = (coordinators[place % coordinators.len()].clone(), served.clone());
        waiters.push(tokio::spawn(async move {
            let guard = coordinator.lock("x").await.expect("granted");
            served.lock().expect("no panic").push((place, guard.token()));
            let _ = guard.release().await; // if it was lost, the next one does not come before it was told
        }));
        until_queued(etcd, "x", place + 1).await;
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

/// With this ttl the outage lasts so many halves of it.
async fn over_an_outage(halves: u32) {
    let ttl = Duration::from_secs(3);
    let mut etcd = Setup::single(Release::Packaged).start().await;
    let mut coordinators = Vec::new();
    for _ in 0..4 {
        coordinators.push(coordinator(&etcd.hosts(), "ttl=3s").await);
    }
    let guard = coordinators[0].lock("x").await.expect("granted");
    let served = Served::default();
    let waiters = waiters(&etcd, &coordinators, &served).await;
    etcd.nodes[0].process.kill();
    sleep(ttl * halves / 2).await;
    etcd.nodes[0].process.restart().expect("it starts");
    let held = guard.is_held();
    assert!(held || halves > 1, "half a ttl was too long");
    let first = guard.token();
    drop(guard);
    let order = all_served(waiters, &served).await;
    assert!(served.lock().expect("no panic").iter().all(|(_, token)| *token > first));
    if halves == 1 {
        assert!(order.is_sorted(), "first in, first out: {order:?}"); // all sessions have survived
    }
    println!("outage of {halves}/2 ttl: the lock {}", if held { "survived" } else { "was lost" });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outage_of_half_a_ttl_ends_nothing() {
    over_an_outage(1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_wait_completes_after_an_outage_of_one_ttl() {
    over_an_outage(2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_wait_completes_after_an_outage_of_two_ttls() {
    over_an_outage(4).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_wait_completes_after_an_outage_of_ten_ttls() {
    over_an_outage(20).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn compaction_disturbs_nobody_who_waits() {
    let etcd = Setup::single(Release::Packaged).start().await;
    let coordinators = [coordinator(&etcd.hosts(), "ttl=5s").await, coordinator(&etcd.hosts(), "ttl=5s").await];
    let guard = coordinators[0].lock("x").await.expect("granted");
    let served = Served::default();
    let waiters = waiters(&etcd, &coordinators, &served).await;
    for _ in 0..3 {
        etcd.control(&["put", "elsewhere", "x"]);
        let status = etcd.control(&["endpoint", "status", "--write-out=json"]);
        let revision =
            status.split("\"revision\":").nth(1).and_then(|rest| rest.split([',', '}']).next()).expect("a revision");
        etcd.control(&["compact", "--physical", revision]);
    }
    etcd.control(&["defrag"]);
    guard.release().await.expect("released");
    assert!(all_served(waiters, &served).await.is_sorted());
}

/// Thirty restarts, each shorter than the ttl: the same lock all the time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_survives_restarts_of_the_server() {
    let mut etcd = Setup::single(Release::Packaged).start().await;
    let coordinator = coordinator(&etcd.hosts(), "ttl=4s").await;
    let guard = coordinator.lock("x").await.expect("granted");
    for round in 0..tenure_tests::on_etcd::rounds(5) {
        etcd.nodes[0].process.restart().expect("it starts");
        assert!(etcd.serves(Duration::from_secs(10)).await);
        sleep(Duration::from_millis(1500)).await;
        assert!(guard.is_held(), "lost in round {round}");
        guard.verify().await.expect("it stands");
    }
}
