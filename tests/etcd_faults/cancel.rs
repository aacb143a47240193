//! Giving up at any moment leaves nothing, although the session lives on.

use std::time::Duration;

use tenure_conformance::{
    dice::Dice,
    proxy::{Mode, Proxy, Way},
    server::etcd::{Release, Setup},
};
use tenure_tests::on_etcd::{coordinator, entries, rounds, until_queued};
use tokio::time::{sleep, timeout};

/// At random times on a slow wire: before, while and after each frame is under way.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancelled_lock_leaves_no_key_wherever_it_was_cancelled() {
    let etcd = Setup::single(Release::Packaged).start().await;
    let proxy = Proxy::start(etcd.nodes[0].client).await.expect("a proxy");
    let cancelled = coordinator(&proxy.address().to_string(), "ttl=30s").await;
    let other = coordinator(&etcd.hosts(), "ttl=30s").await;
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
    until_queued(&etcd, "x", 0).await;
    cancelled.lock("x").await.expect("the session lives").verify().await.expect("it stands");
}

/// The answer is lost, so nobody knows whether it has happened; and the connection breaks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_given_up_without_an_answer_leaves_no_key() {
    let etcd = Setup::single(Release::Packaged).start().await;
    let proxy = Proxy::start(etcd.nodes[0].client).await.expect("a proxy");
    let cancelled = coordinator(&proxy.address().to_string(), "ttl=4s").await;
    let other = coordinator(&etcd.hosts(), "ttl=4s").await;
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
    until_queued(&etcd, "x", 0).await;
    sleep(Duration::from_secs(1)).await;
    assert!(entries(&etcd, "x").is_empty(), "one came late");
}

/// More than an `enter` and the answer to it have.
const FRAMES: usize = 6;

/// It is given up when so many frames of the request, or of the answer, have arrived, and no byte more; these come afterwards.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_cancelled_at_any_frame_leaves_no_key_and_its_session_lives() {
    let etcd = Setup::single(Release::Packaged).start().await;
    let proxy = Proxy::start(etcd.nodes[0].client).await.expect("a proxy");
    let cancelled = coordinator(&proxy.address().to_string(), "ttl=30s").await;
    let other = coordinator(&etcd.hosts(), "ttl=30s").await;
    let sessions = etcd.keys("n/.tenure/session-");
    assert_eq!(sessions.len(), 2);
    let (mut unfinished, places) = (0, 2 * FRAMES);
    let rounds = rounds(2 * places);
    for round in 0..rounds {
        let (way, frames) = ([Way::There, Way::Back][round % 2], round / 2 % FRAMES);
        let held = if round / places % 2 == 0 { None } else { Some(other.lock("x").await.expect("granted")) };
        proxy.set(Mode::Hold(way, frames));
        let granted = timeout(Duration::from_millis(40), cancelled.lock("x")).await;
        unfinished += usize::from(granted.is_err());
        drop((held, granted));
        proxy.set(Mode::Pass);
        let next = timeout(Duration::from_secs(3), other.lock("x")).await.expect("nothing is in the way");
        next.expect("granted").release().await.expect("released");
        cancelled.lock("y").await.expect("it works in between").release().await.expect("released");
    }
    println!("{unfinished} of {rounds} were cancelled");
    assert!(unfinished * 3 >= rounds, "{unfinished} of {rounds} were cancelled");
    until_queued(&etcd, "x", 0).await;
    assert_eq!(etcd.keys("n/.tenure/session-"), sessions, "another session");
}
