//! Giving up at any moment leaves nothing, although the session lives on.

use std::time::Duration;

use tenure_conformance::{
    dice::Dice,
    proxy::{Mode, Proxy},
    server::zookeeper::Setup,
};
use tenure_tests::{
    on_zk::{coordinator, entries, until_queued},
    rounds,
};
use tokio::time::{sleep, timeout};

/// At random times on a slow wire: before, while and after each frame is under way.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancelled_lock_leaves_no_node_wherever_it_was_cancelled() {
    let zookeeper = Setup::single().start().await;
    let proxy = Proxy::start(zookeeper.nodes[0].client).await.expect("a proxy");
    let cancelled = coordinator(&proxy.address().to_string(), "ttl=30s").await;
    let other = coordinator(&zookeeper.hosts(), "ttl=30s").await;
    proxy.set(Mode::Delay(Duration::from_millis(2)));
    let (dice, mut unfinished) = (Dice::new(11), 0);
    let rounds = rounds(60);
    for round in 0..rounds {
        let held = if round % 2 == 0 { Some(other.lock("x").await.expect("granted")) } else { None };
        let granted = timeout(dice.time(Duration::from_millis(9)), cancelled.lock("x")).await;
        unfinished += usize::from(granted.is_err());
        drop((held, granted));
        let next =
            timeout(Duration::from_secs(3), other.lock("x")).await.expect("nothing is in the way").expect("granted");
        next.release().await.expect("released");
    }
    println!("{unfinished} of {rounds} were cancelled");
    assert!(unfinished * 2 >= rounds);
    until_queued(&zookeeper, "x", 0).await;
    cancelled.lock("x").await.expect("the session lives").verify().await.expect("it stands");
}

/// The answer is lost, so nobody knows whether it has happened; and the connection breaks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_given_up_without_an_answer_leaves_no_node() {
    let zookeeper = Setup::single().start().await;
    let proxy = Proxy::start(zookeeper.nodes[0].client).await.expect("a proxy");
    let cancelled = coordinator(&proxy.address().to_string(), "ttl=4s").await;
    let other = coordinator(&zookeeper.hosts(), "ttl=4s").await;
    let dice = Dice::new(12);
    for round in 0..rounds(8) {
        cancelled.lock("x").await.expect("it works in between").release().await.expect("released");
        proxy.set([Mode::DropReplies, Mode::Stall, Mode::DropRequests, Mode::Cut][round % 4]);
        let _ = timeout(dice.time(Duration::from_millis(400)), cancelled.lock("x")).await;
        sleep(dice.time(Duration::from_millis(300))).await;
        proxy.set(Mode::Pass);
        let next =
            timeout(Duration::from_secs(10), other.lock("x")).await.expect("nothing is in the way").expect("granted");
        next.release().await.expect("released");
    }
    until_queued(&zookeeper, "x", 0).await;
    sleep(Duration::from_secs(1)).await;
    assert!(entries(&mut zookeeper.operator().await, "x").await.is_empty(), "one came late");
}
