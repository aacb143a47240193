//! A client is cut off: from all servers, or from all but one that is cut off itself. It must have given up before anybody else is granted
//! what it held.

use std::time::{Duration, Instant};

use tenure_conformance::{netns::Cut, server::etcd::Release};
use tenure_tests::{
    rounds,
    siege::{Fall, NAMES, Siege, works_again},
};
use tokio::time::sleep;

use super::World;

const TTL: Duration = Duration::from_secs(3);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_is_cut_off_gives_up_before_others_are_granted() {
    let world = World::start(Release::Packaged).await;
    let (holder, other) = (world.client(0, 0, "ttl=3s").await, world.client(1, 0, "ttl=3s").await);
    for _ in 0..rounds(1) {
        for cut in [Cut::Off, Cut::Mute, Cut::Deaf] {
            let siege = Siege::lay(&holder, &other).await;
            sleep(Duration::from_millis(1500)).await; // renewed by now
            holder.host().cut(cut, &[]);
            let Fall { lost, granted, by_clock, .. } = siege.falls(Instant::now(), &other).await;
            assert!(by_clock && lost < TTL, "told {lost:?} after the cut");
            holder.host().heal();
            works_again(&holder).await;
            println!("client {cut:?}: all of {NAMES} lost by {lost:?}, the first one granted after {granted:?}");
        }
    }
}

/// With the majority there is a new leader, while the old one may go on to answer keep-alives for some time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_reaches_only_a_server_without_majority_gives_up_in_time() {
    for release in [Release::Packaged, Release::V3_5] {
        let mut world = World::start(release).await;
        for _ in 0..rounds(1) {
            for follower in [0, 1] {
                let at = (world.leader().await + follower) % 3;
                let other = world.client(1, at + 1, "ttl=3s").await;
                let holder = world.client_of(0, &[at], "ttl=3s").await;
                let siege = Siege::lay(&holder, &other).await;
                sleep(Duration::from_millis(1500)).await;
                world.server(at).cut(Cut::Off, &world.others(at));
                let Fall { lost, granted, by_clock, .. } = siege.falls(Instant::now(), &other).await;
                // A leader notices within two election timeouts of half a second that nobody follows.
                assert!(by_clock && lost < TTL + Duration::from_millis(1500), "told {lost:?} after the cut");
                world.server(at).heal();
                assert!(world.etcd.serves(Duration::from_secs(20)).await);
                works_again(&holder).await;
                let role = ["leader", "follower"][follower];
                println!("only the cut off {role} of {release:?}: lost by {lost:?}, granted after {granted:?}");
            }
        }
    }
}
