//! What a holder is told, and when.

use std::time::{Duration, Instant};

use tenure_conformance::{
    proxy::{Mode, Proxy},
    server::etcd::{Etcd, Release, Setup},
};
use tenure_core::{Clock, LossReason, State};
use tenure_tests::on_etcd::{coordinator, entries, session};
use tokio::time::{sleep, timeout};

const TTL: Duration = Duration::from_secs(2);

async fn start() -> Etcd {
    Setup::single(Release::Packaged).start().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_server_is_lost_by_the_own_deadline_before_the_ttl_is_over() {
    let mut etcd = start().await;
    let coordinator = coordinator(&etcd.hosts(), "ttl=2s").await;
    let guard = coordinator.lock("x").await.expect("granted");
    sleep(TTL).await; // renewed by now
    etcd.nodes[0].process.stop();
    let stopped = Instant::now();
    let reason = timeout(TTL, guard.lost()).await.expect("told before the ttl is over");
    assert_eq!((reason, guard.is_held()), (LossReason::Expired, false));
    println!("told {:?} after the server stopped, ttl {TTL:?}", stopped.elapsed());
    etcd.nodes[0].process.cont();
    assert!(etcd.serves(Duration::from_secs(10)).await);
    let next = timeout(TTL * 4, coordinator.lock("x")).await.expect("it goes on").expect("granted");
    assert!(next.token() > guard.token() && !guard.is_held());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_cut_is_lost_before_the_next_grant() {
    let etcd = start().await;
    for mode in [Mode::Blackhole, Mode::Stall, Mode::DropReplies, Mode::DropRequests] {
        let proxy = Proxy::start(etcd.nodes[0].client).await.expect("a proxy");
        let cut = coordinator(&proxy.address().to_string(), "ttl=2s").await;
        let other = coordinator(&etcd.hosts(), "ttl=2s").await;
        let guard = cut.lock("x").await.expect("granted");
        proxy.set(mode);
        let lost = guard.lost();
        let lost = tokio::spawn(async move { (lost.await, Instant::now()) });
        let next = timeout(TTL * 4, other.lock("x")).await.expect("taken over").expect("granted");
        let granted = Instant::now();
        let (reason, told) = lost.await.expect("no panic");
        assert!(reason == LossReason::Expired && told < granted, "{mode:?}");
        assert!(next.token() > guard.token());
        proxy.set(Mode::Pass);
        next.release().await.expect("released");
        timeout(TTL * 4, cut.lock("x")).await.expect("it goes on").expect("granted").release().await.expect("released");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_an_operator_ends_is_told_within_a_second() {
    let etcd = start().await;
    for revoke in [true, false] {
        let coordinator = coordinator(&etcd.hosts(), "ttl=30s").await;
        let guard = coordinator.lock("x").await.expect("granted");
        sleep(Duration::from_millis(800)).await; // it watches its entry from half a second on
        if revoke {
            let sessions = etcd.keys("n/.tenure/session-");
            let lease = sessions[0].trim_start_matches("n/.tenure/session-");
            etcd.control(&["lease", "revoke", lease]);
        } else {
            etcd.control(&["del", &entries(&etcd, "x")[0]]);
        }
        let done = Instant::now();
        let reason = timeout(Duration::from_secs(1), guard.lost()).await.expect("told within a second");
        println!("told {:?} after the command returned: {reason}", done.elapsed());
        assert!(matches!(guard.state(), State::Lost(_)));
        let next = timeout(Duration::from_secs(5), coordinator.lock("x")).await.expect("soon").expect("granted");
        assert!(next.token() > guard.token());
        next.release().await.expect("released");
        coordinator.close().await.expect("closed");
    }
}

/// However long the answer takes: the server may have begun to count when the request was sent.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deadline_counts_from_the_sending() {
    let etcd = start().await;
    let proxy = Proxy::start(etcd.nodes[0].client).await.expect("a proxy");
    proxy.set(Mode::DelayReplies(Duration::from_millis(100)));
    let clock = Clock::system();
    let sent = clock.now();
    let opened = session(&proxy.address().to_string(), Duration::from_secs(4)).await;
    // Connecting comes before the first request is sent, so it may be a little more here.
    assert!(opened.deadline.since_boot < (sent + opened.ttl).since_boot + Duration::from_millis(90));
    for _ in 0..4 {
        let sent = clock.now();
        let deadline = opened.session.keep_alive().await.expect("kept alive");
        let late = deadline.since_boot.saturating_sub((sent + opened.ttl).since_boot);
        assert!(late < Duration::from_millis(20), "the deadline counts from {late:?} after the sending");
    }
}

/// A keep-alive that was answered "OK" after the deadline: the server has renewed the lease, and nothing comes of it here.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_comes_too_late_revives_nothing() {
    let etcd = start().await;
    let proxy = Proxy::start(etcd.nodes[0].client).await.expect("a proxy");
    let slow = coordinator(&proxy.address().to_string(), "ttl=2s").await;
    let guard = slow.lock("x").await.expect("granted");
    proxy.set(Mode::DelayReplies(Duration::from_millis(2500)));
    assert_eq!(timeout(TTL, guard.lost()).await.expect("told in time"), LossReason::Expired);
    for _ in 0..30 {
        sleep(Duration::from_millis(100)).await; // the answers arrive
        assert!(!guard.is_held(), "revived");
    }
    assert_eq!(guard.state(), State::Lost(LossReason::Expired));
    let other = coordinator(&etcd.hosts(), "ttl=2s").await;
    let next = timeout(TTL * 5, other.lock("x")).await.expect("taken over").expect("granted");
    assert!(next.token() > guard.token() && !guard.is_held());
}
