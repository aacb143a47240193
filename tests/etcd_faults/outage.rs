//! The server goes away and comes back, while many wait.

use std::time::Duration;

use tenure_conformance::{
    proxy::{Mode, Proxy},
    server::etcd::{Etcd, Release, Setup},
};
use tenure_tests::on_etcd::{coordinator, rounds, session};
use tokio::time::sleep;

use super::waiters::{Served, all_served, waiters};

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
    let look = session(&etcd.hosts(), Duration::from_secs(60)).await.session;
    let waiters = waiters(&*look, &coordinators, &served).await;
    etcd.nodes[0].process.kill();
    sleep(ttl * halves / 2).await;
    etcd.nodes[0].process.restart().expect("it starts");
    let held = guard.is_held();
    assert!(held || halves > 1, "half a ttl was too long");
    let first = guard.token();
    drop(guard);
    let order = all_served(waiters, &served).await;
    assert!(served.lock().expect("no panic").iter().all(|(_, token)| *token > first));
    // All sessions have survived half a ttl. After a longer outage they have not: everybody enters anew, and who comes first then is not
    // promised. What is promised is that tokens rise.
    if halves == 1 {
        assert!(order.is_sorted(), "first in, first out: {order:?}");
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

/// Compacts everything up to now.
fn compact(etcd: &Etcd) {
    etcd.control(&["put", "elsewhere", "x"]);
    let status = etcd.control(&["endpoint", "status", "--write-out=json"]);
    let revision =
        status.split("\"revision\":").nth(1).and_then(|rest| rest.split([',', '}']).next()).expect("a revision");
    etcd.control(&["compact", "--physical", revision]);
}

/// Neither while their watches stand, nor when these have to be opened again after what they began with is gone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn compaction_disturbs_nobody_who_waits() {
    let etcd = Setup::single(Release::Packaged).start().await;
    let proxy = Proxy::start(etcd.nodes[0].client).await.expect("a proxy");
    let through = proxy.address().to_string();
    let coordinators = [coordinator(&through, "ttl=10s").await, coordinator(&through, "ttl=10s").await];
    let look = session(&etcd.hosts(), Duration::from_secs(60)).await.session;
    let holder = coordinator(&etcd.hosts(), "ttl=10s").await;
    for cut in [false, true] {
        let guard = holder.lock("x").await.expect("granted");
        let served = Served::default();
        let waiters = waiters(&*look, &coordinators, &served).await;
        for _ in 0..3 {
            compact(&etcd);
        }
        etcd.control(&["defrag"]);
        if cut {
            let before = proxy.connections();
            proxy.set(Mode::Cut);
            sleep(Duration::from_millis(300)).await;
            proxy.set(Mode::Pass);
            sleep(Duration::from_millis(300)).await;
            assert!(proxy.connections() > before, "no watch is opened again");
        }
        guard.release().await.expect("released");
        assert!(all_served(waiters, &served).await.is_sorted(), "cut: {cut}");
    }
}

/// Each is shorter than the ttl: the same lock all the time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_survives_restarts_of_the_server() {
    let mut etcd = Setup::single(Release::Packaged).start().await;
    let coordinator = coordinator(&etcd.hosts(), "ttl=4s").await;
    let guard = coordinator.lock("x").await.expect("granted");
    for round in 0..rounds(5) {
        etcd.nodes[0].process.restart().expect("it starts");
        assert!(etcd.serves(Duration::from_secs(10)).await);
        sleep(Duration::from_millis(1500)).await;
        assert!(guard.is_held(), "lost in round {round}");
        guard.verify().await.expect("it stands");
    }
}
