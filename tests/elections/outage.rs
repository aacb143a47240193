//! The server goes away and comes back, with three candidates.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tenure_conformance::server::until;
use tokio::time::sleep;

use super::{service::Service, stage::Stage};

const TTL: Duration = Duration::from_secs(3);

/// For so many halves of the ttl. A server that comes back may count the ttl anew, so the next leader may take two.
async fn over_an_outage(mut service: Service, halves: u32) {
    let stage = Arc::<Stage>::default();
    let mut candidates = Vec::new();
    for number in 0..3 {
        candidates.push(stage.run(service.election("ttl=3s").await, format!("replica-{number}")));
    }
    assert!(until(TTL, || async { stage.seen().on_stage.is_some() }).await, "nobody leads");
    let before = stage.seen();
    service.kill();
    sleep(TTL * halves / 2).await;
    let during = stage.seen();
    let back = Instant::now();
    service.restart().await;
    let watcher = service.election("ttl=3s").await;
    let one_leads = async || {
        let leader = watcher.leader().await.ok().flatten().map(|leader| leader.token);
        leader.is_some() && leader == stage.seen().on_stage
    };
    assert!(until(TTL * 4, one_leads).await, "{:?} do not agree on a leader", stage.seen());
    println!("outage of {halves}/2 ttl: one leads {:?} after the restart", back.elapsed());
    sleep(TTL).await;
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
    over_an_outage(Service::etcd().await, 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_leads_after_one_ttl_on_etcd() {
    over_an_outage(Service::etcd().await, 2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_leads_after_two_ttls_on_etcd() {
    over_an_outage(Service::etcd().await, 4).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_leads_after_ten_ttls_on_etcd() {
    over_an_outage(Service::etcd().await, 20).await;
}
