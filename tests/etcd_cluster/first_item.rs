//! An observer that asks a follower that lags is told of the leader that there is, not of the one there was.

use std::time::Duration;

use futures_util::StreamExt;
use tenure_conformance::server::etcd::Release;
use tenure_tests::{on_etcd::coordinator, rounds};
use tokio::time::{sleep, timeout};

use super::{cluster, roles};

/// The follower stands still while somebody else comes into office through another server, and is asked the first thing when it goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_item_from_a_follower_that_lags_is_the_present_leader() {
    let (etcd, _alone) = cluster(Release::Packaged).await;
    let count = rounds(6);
    let (leader, _) = roles(&etcd).await;
    let address = |at: usize| etcd.nodes[(leader + at) % 3].client.to_string();
    let (one, other) = (coordinator(&address(1), "ttl=20s").await, coordinator(&address(2), "ttl=20s").await);
    let (campaigning, watching) = (one.election("x"), other.election("x"));
    let mut leadership = campaigning.campaign("first").await.expect("won");
    for round in 0..count {
        assert_eq!(watching.leader().await.expect("asked").map(|leader| leader.token), Some(leadership.token()));
        // What it knows when it stops: that somebody else leads, or nobody.
        if round % 2 == 0 {
            leadership.resign().await.expect("resigned");
            assert_eq!(watching.leader().await.expect("asked"), None);
            etcd.nodes[(leader + 2) % 3].process.stop();
        } else {
            etcd.nodes[(leader + 2) % 3].process.stop();
            leadership.resign().await.expect("resigned");
        }
        let campaign = campaigning.campaign(format!("{round}"));
        leadership = timeout(Duration::from_secs(10), campaign).await.expect("in time").expect("won");
        let mut leaders = watching.observe();
        let first = tokio::spawn(async move { leaders.next().await });
        sleep(Duration::from_millis(100)).await; // the request is there
        etcd.nodes[(leader + 2) % 3].process.cont();
        let first = timeout(Duration::from_secs(15), first).await.expect("in time").expect("no panic").expect("told");
        let first = first.unwrap_or_else(|error| panic!("{}", error.report()));
        assert_eq!(first.map(|leader| leader.token), Some(leadership.token()), "round {round}");
    }
    println!("{count} rounds: the first item was the present leader");
}
