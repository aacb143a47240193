//! One server of three is cut off, and the clients reach the majority all the time.

use std::time::Duration;

use tenure_conformance::{netns::Cut, server::until};
use tenure_tests::{load::Load, rounds};
use tokio::time::sleep;

use super::World;

/// More than the silence that a leader and its followers bear, which is two seconds, and an election.
const CUT: Duration = Duration::from_secs(5);

/// Which server, and what it is cut off from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whom {
    Follower,
    Leader,
    /// The clients reach it as before.
    FollowerFromItsPeers,
    LeaderFromItsPeers,
}

const STRIKES: [(Whom, Cut); 6] = [
    (Whom::Follower, Cut::Off),
    (Whom::FollowerFromItsPeers, Cut::Off),
    (Whom::Leader, Cut::Off),
    (Whom::Leader, Cut::Deaf),
    (Whom::Leader, Cut::Mute),
    (Whom::LeaderFromItsPeers, Cut::Off),
];

/// A leader that hears nothing still asks the others for their votes, and may be elected by them once more. That they cannot reach it they
/// notice after `initLimit`, five seconds here. A session has to outlive both elections.
const TTL: &str = "ttl=20s";

/// One client is given the server that is cut off first, the other one another.
async fn strike(world: &mut World, (whom, cut): (Whom, Cut)) -> u64 {
    let leader = world.leader().await;
    let leads = matches!(whom, Whom::Leader | Whom::LeaderFromItsPeers);
    let at = if leads { leader } else { (leader + 1) % 3 };
    let label = format!("{whom:?} {cut:?}");
    let all = [at, (at + 1) % 3, (at + 2) % 3];
    let clients = [world.client(0, &all, TTL).await, world.client(1, &all, TTL).await];
    let load = Load::start(clients, 10, 10).await;
    load.goes_on("before").await;
    load.longest();
    let peers_only = matches!(whom, Whom::FollowerFromItsPeers | Whom::LeaderFromItsPeers);
    let from = if peers_only { world.others(at).to_vec() } else { Vec::new() };
    world.server(at).cut(cut, &from);
    sleep(CUT).await;
    assert!(!world.zookeeper.nodes[at].serves(Duration::ZERO).await, "{label}: it serves, so it is not cut off");
    let zookeeper = &world.zookeeper;
    let led = until(CUT, || async { !leads || zookeeper.leader().await.is_some_and(|leader| leader != at) });
    assert!(led.await, "{label}: the majority has no leader");
    load.goes_on(&label).await; // the majority is reached
    world.server(at).heal();
    assert!(world.zookeeper.serves(Duration::from_secs(30)).await, "{label}: it does not heal");
    load.goes_on(&label).await;
    println!("{label}: longest turn {:?}, from the cut until all was well again", load.longest());
    load.end().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_that_are_cut_off_end_no_session() {
    let mut world = World::start(&[]).await;
    let (mut strikes, mut turns) = (0, 0);
    for _ in 0..rounds(1) {
        for kind in STRIKES {
            turns += strike(&mut world, kind).await;
            strikes += 1;
        }
    }
    println!("{strikes} cuts, {turns} turns, no lock lost, no two holders");
}
