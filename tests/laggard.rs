//! A follower that stands still while a leader changes.

use std::time::Duration;

use futures_util::StreamExt;
use tenure_conformance::server::Process;
use tenure_core::Coordinator;
use tokio::time::{sleep, timeout};

/// Whoever comes into office through another server is the first that an observer is told of, by a follower that was stopped meanwhile and is
/// asked the first thing when it goes on. `watching` knows that follower only.
///
/// # Panics
/// If it is told of the leader there was, or of nobody.
pub async fn first_item_is_the_present_leader(
    campaigning: &Coordinator,
    watching: &Coordinator,
    follower: &Process,
    count: usize,
) {
    let (campaigning, watching) = (campaigning.election("x"), watching.election("x"));
    let mut leadership = campaigning.campaign("first").await.expect("won");
    for round in 0..count {
        assert_eq!(watching.leader().await.expect("asked").map(|leader| leader.token), Some(leadership.token()));
        // What it knows when it stops: that somebody else leads, or nobody.
        if round % 2 == 0 {
            leadership.resign().await.expect("resigned");
            assert_eq!(watching.leader().await.expect("asked"), None);
            follower.stop();
        } else {
            follower.stop();
            leadership.resign().await.expect("resigned");
        }
        let campaign = campaigning.campaign(format!("{round}"));
        leadership = timeout(Duration::from_secs(10), campaign).await.expect("in time").expect("won");
        let mut leaders = watching.observe();
        let first = tokio::spawn(async move { leaders.next().await });
        sleep(Duration::from_millis(100)).await; // the request is there
        follower.cont();
        let first = timeout(Duration::from_secs(15), first).await.expect("in time").expect("no panic").expect("told");
        let first = first.unwrap_or_else(|error| panic!("{}", error.report()));
        assert_eq!(first.map(|leader| leader.token), Some(leadership.token()), "round {round}");
    }
}
