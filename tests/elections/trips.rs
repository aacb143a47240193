//! What a hand-over costs, on a wire that takes its time.

use std::time::{Duration, Instant};

use tenure_conformance::{
    proxy::{Mode, Proxy},
    server::etcd::{Release, Setup},
};
use tenure_tests::on_etcd::{connect, until_queued};
use tokio::time::timeout;

/// One way.
const SLOW: Duration = Duration::from_millis(100);

/// The event that somebody has resigned, one look at the queue, and one at the requests to make room.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_graceful_hand_over_takes_three_round_trips_on_etcd() {
    let etcd = Setup::single(Release::Packaged).start().await;
    let proxy = Proxy::start(etcd.nodes[0].client).await.expect("a proxy");
    let candidate = async || {
        let coordinator =
            connect(&proxy.address().to_string(), "ttl=30s&connect_timeout=20s").await.expect("connected");
        coordinator.election("x")
    };
    let mut leadership = candidate().await.campaign("first").await.expect("won");
    proxy.set(Mode::Delay(SLOW / 2)); // each way
    for round in 0..5 {
        let election = candidate().await;
        let next = tokio::spawn(async move { election.campaign("next").await.expect("won") });
        until_queued(&etcd, "x", 2).await;
        tokio::time::sleep(SLOW * 5).await; // it waits
        let start = Instant::now();
        let (resigned, next) = tokio::join!(leadership.resign(), timeout(Duration::from_secs(5), next));
        resigned.expect("resigned");
        leadership = next.expect("in time").expect("no panic");
        println!("round {round}: led by the next {:?} after the call, with {SLOW:?} for a round trip", start.elapsed());
        assert!(start.elapsed() < SLOW * 7 / 2, "more than three round trips");
    }
    drop(leadership);
}
