//! One server of three is cut off, and the clients reach the majority all the time.

use std::time::Duration;

use tenure_conformance::{
    netns::Cut,
    server::{etcd::Release, until},
};
use tenure_tests::{load::Load, rounds};
use tokio::time::sleep;

use super::World;

/// How long a cut lasts: several elections.
const CUT: Duration = Duration::from_secs(4);

/// Which server, and what it is cut off from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whom {
    Follower,
    Leader,
    /// The clients reach it as before.
    LeaderFromItsPeers,
}

const STRIKES: [(Whom, Cut); 5] = [
    (Whom::Follower, Cut::Off),
    (Whom::Leader, Cut::Off),
    (Whom::Leader, Cut::Deaf),
    (Whom::Leader, Cut::Mute),
    (Whom::LeaderFromItsPeers, Cut::Off),
];

/// One client uses the server that is cut off, the other one another.
async fn strike(world: &mut World, (whom, cut): (Whom, Cut)) -> u64 {
    let leader = world.leader().await;
    let at = if whom == Whom::Follower { (leader + 1) % 3 } else { leader };
    let label = format!("{whom:?} {cut:?}");
    let clients = [world.client(0, at, "ttl=8s").await, world.client(1, at + 1, "ttl=8s").await];
    let load = Load::start(clients, 50, 50).await;
    load.goes_on("before").await;
    load.longest();
    let from = if whom == Whom::LeaderFromItsPeers { world.others(at).to_vec() } else { Vec::new() };
    world.server(at).cut(cut, &from);
    sleep(CUT).await;
    assert!(!world.etcd.nodes[at].serves(Duration::ZERO).await, "{label}: it serves, so it is not cut off");
    let etcd = &world.etcd;
    let led = until(CUT, || async { etcd.leader().await.is_some_and(|leader| whom == Whom::Follower || leader != at) });
    assert!(led.await, "{label}: the majority has no leader");
    load.goes_on(&label).await; // the majority is reached
    world.server(at).heal();
    assert!(world.etcd.serves(Duration::from_secs(20)).await, "{label}: it does not heal");
    load.goes_on(&label).await;
    println!("{label}: longest turn {:?}, from the cut until all was well again", load.longest());
    load.end().await
}

async fn one_after_the_other(release: Release, strikes_of_a_round: &[(Whom, Cut)]) {
    let mut world = World::start(release).await;
    let (mut strikes, mut turns) = (0, 0);
    for _ in 0..rounds(1) {
        for kind in strikes_of_a_round {
            turns += strike(&mut world, *kind).await;
            strikes += 1;
        }
    }
    println!("{strikes} cuts, {turns} turns, no lock lost, no two holders");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_that_are_cut_off_end_no_session() {
    one_after_the_other(Release::Packaged, &STRIKES).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_of_3_5_that_are_cut_off_end_no_session() {
    // All of them only where there is time for more than one round.
    let few = if rounds(1) > 1 { &STRIKES[..] } else { &STRIKES[3..] };
    one_after_the_other(Release::V3_5, few).await;
}
