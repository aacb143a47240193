//! The server goes away and comes back, with three candidates.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tenure_conformance::server::until;
use tokio::time::sleep;

use super::{service::Service, stage::Stage};

/// So that no term is ended much before its deadline.
const DRAIN: Duration = Duration::from_millis(200);

/// For so many halves of the ttl. A server that comes back may count the ttl anew, so the next leader may take two.
async fn over_an_outage(mut service: Service, seconds: u32, halves: u32) {
    let (ttl, settings) = (Duration::from_secs(seconds.into()), format!("ttl={seconds}s"));
    let stage = Arc::<Stage>::default();
    let mut candidates = Vec::new();
    for number in 0..3 {
        candidates.push(stage.run(service.election(&settings).await.drain(DRAIN), format!("replica-{number}")));
    }
    assert!(until(ttl, || async { stage.seen().on_stage.is_some() }).await, "nobody leads");
    let before = stage.seen();
    service.kill();
    // So that it is over in time if it is to be, and not before if it is not.
    let start = if halves == 1 { service.takes_to_start() } else { Duration::ZERO };
    sleep((ttl * halves / 2).saturating_sub(start)).await;
    let during = stage.seen();
    let back = Instant::now();
    service.restart().await;
    let watcher = service.election(&settings).await;
    let one_leads = async || {
        let leader = watcher.leader().await.ok().flatten().map(|leader| leader.token);
        leader.is_some() && leader == stage.seen().on_stage
    };
    assert!(until(ttl * 4, one_leads).await, "{:?} do not agree on a leader", stage.seen());
    println!("outage of {halves}/2 ttl: one leads {:?} after the restart", back.elapsed());
    sleep(ttl).await;
    let after = stage.seen();
    let lost = during.ended > 0 || after.ended > 0;
    assert_eq!(after.on_stage > before.on_stage, lost, "the token rises if and only if the session was lost");
    assert_eq!((lost, after.started - after.ended), (halves > 1, 1), "{after:?}");
    for candidate in candidates {
        candidate.stop().await;
    }
    let end = stage.seen();
    assert!(end.on_stage.is_none() && end.started == end.ended, "{end:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn half_a_ttl_ends_no_term_on_etcd() {
    over_an_outage(Service::etcd().await, 3, 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_leads_after_one_ttl_on_etcd() {
    over_an_outage(Service::etcd().await, 3, 2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_leads_after_two_ttls_on_etcd() {
    over_an_outage(Service::etcd().await, 3, 4).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_leads_after_ten_ttls_on_etcd() {
    over_an_outage(Service::etcd().await, 3, 20).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn half_a_ttl_ends_no_term_on_zookeeper() {
    over_an_outage(Service::zookeeper().await, 12, 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_leads_after_one_ttl_on_zookeeper() {
    over_an_outage(Service::zookeeper().await, 3, 2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_leads_after_two_ttls_on_zookeeper() {
    over_an_outage(Service::zookeeper().await, 3, 4).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_leads_after_ten_ttls_on_zookeeper() {
    over_an_outage(Service::zookeeper().await, 3, 20).await;
}
