//! What a hand-over costs: in round trips, on a wire that takes its time, and in requests, as the server counts them.

use std::time::{Duration, Instant};

use tenure_conformance::proxy::{Mode, Proxy};
use tenure_tests::rounds;
use tokio::time::{sleep, timeout};

use super::service::Service;

/// A round trip: long beside what a busy machine adds to three of them.
const SLOW: Duration = Duration::from_millis(250);
const SOON: Duration = Duration::from_secs(5);

/// The event that somebody has resigned; one look at the queue, and beside it at the requests; and a last one at those, which are read beside it.
/// Whether the leader resigns by itself, or because it was asked to: then the request still stands. Among the requests are those that begin to
/// watch what is asked of the new leader, and those of who has asked.
async fn take_three_round_trips(service: Service, requests: [u64; 2]) {
    let proxy = Proxy::start(service.client()).await.expect("a proxy");
    let hosts = proxy.address().to_string();
    let candidate = async || service.coordinator_at(&hosts, "ttl=30s&connect_timeout=20s").await.election("x");
    let asking = candidate().await;
    let mut leadership = candidate().await.campaign("first").await.expect("won");
    let mut line = Vec::new();
    for _ in 0..6 * rounds(1) {
        line.push(candidate().await);
    }
    proxy.set(Mode::Delay(SLOW / 2)); // each way
    // A busy machine makes some of them slower, and none faster.
    let mut least = [(Duration::MAX, u64::MAX); 2];
    for (round, election) in line.into_iter().enumerate() {
        let is_asked = round % 2 == 1;
        let next = tokio::spawn(async move { election.campaign("next").await.expect("won") });
        service.until_queued(2).await;
        sleep(SLOW * 6).await; // it waits, and the leader watches its own entry
        let request = is_asked.then(|| {
            let asking = asking.clone();
            tokio::spawn(async move { asking.ask_to_resign(None).await })
        });
        if is_asked {
            timeout(SOON, leadership.asked_to_resign()).await.expect("in time").expect("asked");
        }
        let (before, start) = (service.requests().await, Instant::now());
        let (resigned, next) = tokio::join!(leadership.resign(), timeout(SOON, next));
        let (took, sent) = (start.elapsed(), service.requests().await - before);
        resigned.expect("resigned");
        leadership = next.expect("in time").expect("no panic");
        println!(
            "round {round}, asked {is_asked}: led by the next after {took:?} and {sent} requests; a trip is {SLOW:?}"
        );
        let (shortest, fewest) = least[usize::from(is_asked)];
        least[usize::from(is_asked)] = (shortest.min(took), fewest.min(sent));
        if let Some(request) = request {
            let leader = timeout(SOON, request).await.expect("in time").expect("no panic").expect("obeyed");
            assert_eq!(leader.expect("somebody leads").token, leadership.token());
        }
    }
    drop(leadership);
    for ((shortest, fewest), requests) in least.into_iter().zip(requests) {
        assert!(shortest < SLOW * 7 / 2, "more than three round trips: {shortest:?}");
        assert!(fewest <= requests, "{fewest} requests");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_graceful_hand_over_takes_three_round_trips_on_etcd() {
    take_three_round_trips(Service::etcd().await, [9, 16]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_graceful_hand_over_takes_three_round_trips_on_zookeeper() {
    take_three_round_trips(Service::zookeeper().await, [13, 27]).await;
}
