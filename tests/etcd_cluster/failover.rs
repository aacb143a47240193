//! One of three goes, while locks are held and cycled.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use tenure_conformance::{
    proxy::{Mode, Proxy},
    server::etcd::{Etcd, Release},
};
use tenure_core::{Coordinator, FencingToken};
use tenure_tests::on_etcd::{coordinator, rounds};
use tokio::time::{sleep, timeout};

use super::{cluster, roles};

const HELD: usize = 50;
const CYCLED: usize = 50;

/// Locks and releases a name of its own until told to stop; no error is allowed. Says how often, and how long it took at most.
async fn cycle(coordinator: Coordinator, name: String, stop: Arc<AtomicBool>, longest: Arc<AtomicU64>) -> u64 {
    let (mut count, mut last) = (0, FencingToken::new(0));
    while !stop.load(Ordering::Relaxed) {
        let start = Instant::now();
        let guard =
            timeout(Duration::from_secs(15), coordinator.lock(&name)).await.expect("no call outlasts its limit");
        let guard = guard.unwrap_or_else(|error| panic!("an error reached the user: {}", error.report()));
        assert!(guard.token() > last, "the token went back");
        last = guard.token();
        guard.release().await.unwrap_or_else(|error| panic!("an error reached the user: {}", error.report()));
        longest.fetch_max(u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
        count += 1;
        sleep(Duration::from_millis(10)).await;
    }
    count
}

/// Kills or stops one server for a while, and waits until all serve again.
async fn strike(etcd: &mut Etcd, at: usize, kill: bool, longest: &AtomicU64) {
    sleep(Duration::from_secs(1)).await;
    let role = if etcd.leader().await == Some(at) { "leader" } else { "follower" };
    let fault = if kill { "kill -9" } else { "SIGSTOP" };
    longest.store(0, Ordering::Relaxed);
    let process = &mut etcd.nodes[at].process;
    if kill {
        process.kill()
    } else {
        process.stop()
    }
    sleep(Duration::from_secs(3)).await;
    let took = longest.load(Ordering::Relaxed);
    println!("{fault} of the {role} {at}: longest lock and release {took} ms");
    // A call is given up after a quarter of the ttl, and an election takes a second.
    assert!(took < 5000, "a call outlasted its limit");
    let process = &mut etcd.nodes[at].process;
    if kill {
        process.restart().expect("it starts")
    } else {
        process.cont()
    }
    assert!(etcd.serves(Duration::from_secs(20)).await);
}

async fn one_after_the_other(release: Release, faults: &[bool]) {
    let (mut etcd, _alone) = cluster(release).await;
    let coordinators = [coordinator(&etcd.hosts(), "ttl=6s").await, coordinator(&etcd.hosts(), "ttl=6s").await];
    let mut held = Vec::new();
    for number in 0..HELD {
        held.push(coordinators[number % 2].lock(&format!("held-{number}")).await.expect("granted"));
    }
    let (stop, longest) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let cycles: Vec<_> = (0..CYCLED)
        .map(|number| {
            let coordinator = coordinators[number % 2].clone();
            tokio::spawn(cycle(coordinator, format!("cycled-{number}"), stop.clone(), longest.clone()))
        })
        .collect();
    for kill in faults {
        for at in 0..3 {
            strike(&mut etcd, at, *kill, &longest).await;
            let lost = held.iter().filter(|guard| !guard.is_held()).count();
            assert_eq!(lost, 0, "lost");
        }
    }
    stop.store(true, Ordering::Relaxed);
    let mut total = 0;
    for cycle in cycles {
        total += timeout(Duration::from_secs(20), cycle).await.expect("it ends").expect("no error reaches the user");
    }
    for guard in &held {
        guard.verify().await.expect("it stands");
    }
    println!("{total} locks of {CYCLED} names, {HELD} held all the time");
    assert!(total > 150);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_that_die_or_stop_one_after_the_other_end_no_session() {
    one_after_the_other(Release::Packaged, &[true, false]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_of_3_5_that_die_or_stop_one_after_the_other_end_no_session() {
    let both = rounds(1) > 1; // where there is time
    one_after_the_other(Release::V3_5, if both { &[true, false] } else { &[false] }).await;
}

/// Counted at the door of the dead server.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_server_is_not_asked_again_while_others_serve() {
    let (etcd, _alone) = cluster(Release::Packaged).await;
    roles(&etcd).await;
    let mut proxies = Vec::new();
    for node in &etcd.nodes {
        proxies.push(Proxy::start(node.client).await.expect("a proxy"));
    }
    let hosts = proxies.iter().map(|proxy| proxy.address().to_string()).collect::<Vec<_>>().join(",");
    let coordinator = coordinator(&hosts, "ttl=10s").await;
    for (at, mode) in [(0, Mode::Cut), (1, Mode::Blackhole), (2, Mode::Cut)] {
        coordinator.lock("x").await.expect("granted").release().await.expect("released");
        let before = proxies[at].connections();
        proxies[at].set(mode);
        let start = Instant::now();
        for _ in 0..100 {
            let granted = timeout(Duration::from_secs(15), coordinator.lock("x")).await.expect("others serve");
            granted.expect("granted").release().await.expect("released");
        }
        let tried = proxies[at].connections() - before;
        println!("{mode:?} of server {at}: {tried} more connections, 100 locks in {:?}", start.elapsed());
        assert!(tried <= 1, "{tried} connections to a dead server");
        proxies[at].set(Mode::Pass);
    }
}
