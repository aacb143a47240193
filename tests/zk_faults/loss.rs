//! What a holder is told, and when.

use std::time::{Duration, Instant};

use tenure_conformance::{
    proxy::{Mode, Proxy},
    server::zookeeper::{Setup, Zookeeper},
};
use tenure_core::{Clock, LossReason, State};
use tenure_tests::on_zk::{coordinator, entries, session};
use tokio::time::{sleep, timeout};

const TTL: Duration = Duration::from_secs(2);

async fn start() -> Zookeeper {
    Setup::single().start().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_server_is_lost_by_the_own_deadline() {
    let mut zookeeper = start().await;
    let coordinator = coordinator(&zookeeper.hosts(), "ttl=2s").await;
    let guard = coordinator.lock("x").await.expect("granted");
    sleep(TTL).await; // renewed by now
    zookeeper.nodes[0].process.stop();
    let stopped = Instant::now();
    let reason = timeout(TTL, guard.lost()).await.expect("told before the ttl is over");
    assert_eq!((reason, guard.is_held()), (LossReason::Expired, false));
    println!("told {:?} after the server stopped, ttl {TTL:?}", stopped.elapsed());
    zookeeper.nodes[0].process.cont();
    assert!(zookeeper.serves(Duration::from_secs(10)).await);
    let next = timeout(TTL * 4, coordinator.lock("x")).await.expect("it goes on").expect("granted");
    assert!(next.token() > guard.token() && !guard.is_held());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_cut_is_lost_before_the_next_grant() {
    let zookeeper = start().await;
    for mode in [Mode::Blackhole, Mode::Stall, Mode::DropReplies, Mode::DropRequests] {
        let proxy = Proxy::start(zookeeper.nodes[0].client).await.expect("a proxy");
        let cut = coordinator(&proxy.address().to_string(), "ttl=2s").await;
        let other = coordinator(&zookeeper.hosts(), "ttl=2s").await;
        let guard = cut.lock("x").await.expect("granted");
        proxy.set(mode);
        let (start, lost) = (Instant::now(), guard.lost());
        let lost = tokio::spawn(async move { (lost.await, Instant::now()) });
        let next = timeout(TTL * 4, other.lock("x")).await.expect("taken over").expect("granted");
        let granted = Instant::now();
        let (reason, told) = lost.await.expect("no panic");
        println!("{mode:?}: told after {:?}, succeeded after {:?}", told - start, granted - start);
        assert!(reason == LossReason::Expired && told < granted, "{mode:?}");
        assert!(next.token() > guard.token());
        proxy.set(Mode::Pass);
        next.release().await.expect("released");
        timeout(TTL * 4, cut.lock("x")).await.expect("it goes on").expect("granted").release().await.expect("released");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_an_operator_ends_is_told_within_a_second() {
    let zookeeper = start().await;
    for what in ["session", "entry"] {
        let coordinator = coordinator(&zookeeper.hosts(), "ttl=30s").await;
        let guard = coordinator.lock("x").await.expect("granted");
        sleep(Duration::from_millis(800)).await; // it watches its entry from half a second on
        let mut operator = zookeeper.operator().await;
        let entry = format!("/n/x/{}", entries(&mut operator, "x").await[0]);
        let (_, stat) = operator.get(&entry).await.expect("it is there");
        if what == "session" {
            operator.end_session(stat.owner).await;
        } else {
            operator.delete(&entry).await;
        }
        let done = Instant::now();
        let reason = timeout(Duration::from_secs(1), guard.lost()).await.expect("told within a second");
        println!("the {what} ended: told {:?} afterwards: {reason}", done.elapsed());
        assert!(matches!(guard.state(), State::Lost(_)));
        let next = timeout(Duration::from_secs(5), coordinator.lock("x")).await.expect("soon").expect("granted");
        assert!(next.token() > guard.token());
        next.release().await.expect("released");
        coordinator.close().await.expect("closed");
    }
}

/// The node that stands for a session is what its keep-alives look at.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_whose_node_is_removed_is_lost_with_the_next_keep_alive() {
    let zookeeper = start().await;
    let coordinator = coordinator(&zookeeper.hosts(), "ttl=2s").await;
    let guard = coordinator.lock("x").await.expect("granted");
    let mut operator = zookeeper.operator().await;
    let sessions = operator.list("/n/.tenure/sessions").await;
    assert_eq!(sessions.len(), 1);
    operator.delete(&format!("/n/.tenure/sessions/{}", sessions[0])).await;
    assert_eq!(timeout(TTL, guard.lost()).await.expect("told"), LossReason::SessionEnded);
}

/// However long the answer takes: a keep-alive is worth the timeout from when the one before it was sent, and no more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deadline_counts_from_the_sending() {
    let zookeeper = start().await;
    let (proxy, delay) = (Proxy::start(zookeeper.nodes[0].client).await.expect("a proxy"), Duration::from_millis(100));
    proxy.set(Mode::DelayReplies(delay));
    let clock = Clock::system();
    let sent = clock.now();
    let opened = session(&proxy.address().to_string(), Duration::from_secs(4)).await;
    assert!(opened.deadline.since_boot < (sent + opened.ttl).since_boot + delay / 2);
    let (timeout, mut before) = (opened.ttl * 10 / 7, clock.now());
    for _ in 0..4 {
        let deadline = opened.session.keep_alive().await.expect("kept alive");
        // The one before was sent so long before its answer.
        let latest = (before - delay + timeout).since_boot + Duration::from_millis(20);
        assert!(deadline.since_boot <= latest, "{:?} too late", deadline.since_boot.saturating_sub(latest));
        assert!(deadline.since_boot > clock.now().since_boot + opened.ttl - delay * 5, "it is worth too little");
        before = clock.now();
    }
}

/// A keep-alive that was answered after the deadline: the server knows the session, and nothing comes of it here.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_comes_too_late_revives_nothing() {
    let zookeeper = start().await;
    let proxy = Proxy::start(zookeeper.nodes[0].client).await.expect("a proxy");
    let slow = coordinator(&proxy.address().to_string(), "ttl=2s").await;
    let guard = slow.lock("x").await.expect("granted");
    proxy.set(Mode::DelayReplies(Duration::from_millis(2500)));
    assert_eq!(timeout(TTL * 2, guard.lost()).await.expect("told in time"), LossReason::Expired);
    for _ in 0..30 {
        sleep(Duration::from_millis(100)).await; // the answers arrive
        assert!(!guard.is_held(), "revived");
    }
    assert_eq!(guard.state(), State::Lost(LossReason::Expired));
    let other = coordinator(&zookeeper.hosts(), "ttl=2s").await;
    let next = timeout(TTL * 5, other.lock("x")).await.expect("taken over").expect("granted");
    assert!(next.token() > guard.token() && !guard.is_held());
}

/// The client library would keep a session alive for ever, whether or not anybody renews it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_nobody_renews_ends_at_the_server_too() {
    let zookeeper = start().await;
    let opened = session(&zookeeper.hosts(), TTL).await;
    let there = || async { zookeeper.operator().await.list("/n/.tenure/sessions").await.len() };
    sleep(opened.ttl - Duration::from_millis(500)).await;
    assert_eq!(there().await, 1);
    sleep(Duration::from_millis(1000)).await;
    assert_eq!(there().await, 0);
}
