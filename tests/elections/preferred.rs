//! Who is preferred comes into office, and who is chosen by hand does at once; the history says so, and is in nobody's way.

use std::{sync::Arc, time::Duration};

use tenure_conformance::server::until;
use tenure_core::{Election, TermNote};
use tokio::time::sleep;

use super::{
    service::Service,
    stage::{Candidate, Stage},
};

const SETTINGS: &str = "ttl=10s";
/// How long a candidate waits before it asks, and a leader leads before it yields.
const HYSTERESIS: Duration = Duration::from_secs(2);
const SOON: Duration = Duration::from_secs(15);

async fn until_led_by(election: &Election, priority: u32) {
    let leads = async || {
        let leader = election.leader().await.expect("asked");
        leader.is_some_and(|leader| leader.value == priority.to_string().into_bytes())
    };
    assert!(until(SOON, leads).await, "{priority} does not come to lead");
}

async fn come_to_lead(service: Service) {
    let (stage, observer) = (Arc::<Stage>::default(), service.election(SETTINGS).await);
    let mut candidates = Vec::<Candidate>::new();
    // As they come, and who leads then.
    for (priority, leads) in [(1, 1), (3, 3), (2, 3), (5, 5)] {
        let election = service.election(SETTINGS).await.preferred(priority, HYSTERESIS).with_history();
        candidates.push(stage.run(election, priority.to_string()));
        until_led_by(&observer, leads).await;
        service.until_queued(candidates.len()).await; // the history is nobody's place in line
    }
    sleep(HYSTERESIS * 2).await;
    assert_eq!(stage.seen().started, 3, "nobody yields to those who are preferred less");
    let all = observer.candidates().await.expect("listed");
    let chosen = all.iter().find(|candidate| candidate.value == b"2").expect("it stands in line");
    let next = observer.ask_to_resign(Some(&chosen.id)).await.expect("obeyed").expect("somebody leads");
    assert_eq!(next.id, chosen.id, "the chosen one leads, whoever is preferred");
    until_led_by(&observer, 5).await;
    service.until_queued(candidates.len()).await;
    for candidate in candidates {
        candidate.stop().await;
    }
    let seen = stage.seen();
    assert_eq!(seen.started, seen.ended);
    let history = observer.history().await.expect("read");
    let values: Vec<_> = history.iter().map(|term| term.value.as_str()).collect();
    assert!(values.starts_with(&["1", "3", "5", "2", "5"]), "{values:?}");
    assert!(history.windows(2).all(|pair| pair[0].token < pair[1].token), "{history:?}");
    // On a busy machine one of them may be too late for its own note.
    let noted = history.iter().filter(|term| matches!(term.end, Some(TermNote::Noted { .. }))).count();
    assert!(noted * 2 > history.len(), "{history:?}");
    assert_eq!(history.len(), usize::try_from(seen.started).expect("few"), "all of them are in it");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_is_preferred_comes_to_lead_on_etcd() {
    come_to_lead(Service::etcd().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_is_preferred_comes_to_lead_on_zookeeper() {
    come_to_lead(Service::zookeeper().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_is_preferred_comes_to_lead_on_sqlite() {
    come_to_lead(Service::sqlite()).await;
}
