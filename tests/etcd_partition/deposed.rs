//! A leader that was stopped, and goes on while the others have another one. It answers keep-alives from what it remembers, and the lease
//! runs out on the new leader all the same: such an answer must not extend anything.

use std::time::Duration;

use etcd_client::Client;
use futures_util::future::join_all;
use tenure_conformance::{
    netns::Cut,
    server::{etcd::Release, until},
};
use tenure_core::Session;
use tenure_tests::on_etcd::{rounds, session};
use tokio::time::sleep;

use super::{World, plain::Plain};

const TTL: Duration = Duration::from_secs(20);
/// How long the new leader's clock for the leases has run when the keep-alives are sent.
const AGED: Duration = Duration::from_secs(6);
const MANY: usize = 8;

/// Of all leases, how many of these and of the others were really extended, as the server says that leads now.
async fn extended(server: String, these: &[i64]) -> (usize, usize) {
    let client = Client::connect([server], None).await.expect("a client");
    let (mut of_these, mut of_others) = (0, 0);
    for lease in client.lease_client().leases().await.expect("listed").leases() {
        let left = client.lease_client().time_to_live(lease.id(), None).await.expect("told").ttl();
        if left > (TTL - AGED).as_secs().cast_signed() + 2 {
            *(if these.contains(&lease.id()) { &mut of_these } else { &mut of_others }) += 1;
        }
    }
    (of_these, of_others)
}

/// What was told, and what was so.
struct Outcome {
    plain: (usize, usize),
    ours: (usize, usize),
}

/// The leader is stopped until it has been deposed for a while, and asked the moment it goes on.
async fn depose(world: &mut World, cut: bool) -> Outcome {
    let leader = world.leader().await;
    let host = world.net.hosts[3].clone();
    let address = |at: usize| world.etcd.nodes[at % 3].client.to_string();
    let hosts = [address(leader), address(leader + 1), address(leader + 2)];
    let plain = host.run(Plain::start(hosts[0].clone(), MANY, TTL)).await;
    let leases = plain.leases.clone();
    let servers = hosts.join(",");
    let sessions: Vec<Box<dyn Session>> = host
        .run(async move { join_all((0..MANY).map(|_| async { session(&servers, TTL).await.session })).await })
        .await;
    world.etcd.nodes[leader].process.stop();
    if cut {
        world.server(leader).cut(Cut::Off, &world.others(leader));
    }
    let other = || async { world.etcd.leader().await.is_some_and(|now| now != leader) };
    assert!(until(Duration::from_secs(20), other).await, "the others have no leader");
    sleep(AGED).await;
    let asking = async move {
        let ours = join_all(sessions.iter().map(|session| session.keep_alive()));
        let (plain, ours) = tokio::join!(plain.told(TTL / 7), ours);
        (plain, ours.iter().filter(|answer| answer.is_ok()).count(), sessions)
    };
    let going_on = async {
        sleep(Duration::from_millis(100)).await;
        world.etcd.nodes[leader].process.cont();
    };
    let ((plain, ours, sessions), ()) = tokio::join!(host.run(asking), going_on);
    let (plain_is, ours_is) = host.run(async move { extended(hosts[1].clone(), &leases).await }).await;
    world.server(leader).heal();
    assert!(world.etcd.serves(Duration::from_secs(20)).await, "it does not heal");
    host.run(async move { join_all(sessions.iter().map(|session| session.close())).await }).await;
    Outcome { plain: (plain, plain_is), ours: (ours, ours_is) }
}

async fn believes_nothing(release: Release, cut: bool, count: usize) {
    let mut world = World::start(release).await;
    let mut untrue = 0;
    for _ in 0..rounds(count) {
        let Outcome { plain: (plain, plain_is), ours: (ours, ours_is) } = depose(&mut world, cut).await;
        println!(
            "{release:?}: of {MANY} keep-alives {plain} were told good, {plain_is} were; of {MANY} sessions {ours}, {ours_is}"
        );
        assert!(ours <= ours_is, "{ours} sessions believe to be extended, and {ours_is} are");
        untrue += plain.saturating_sub(plain_is);
    }
    assert!(!cut || untrue > 0, "nothing was tested: no leader that was deposed has answered");
}

/// It hears nothing of the others, and so goes on to believe that it leads for a while.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deposed_leader_that_is_cut_off_extends_nothing() {
    for release in [Release::Packaged, Release::V3_5] {
        believes_nothing(release, true, 1).await;
    }
}

/// It hears of the new leader at about the time that it answers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deposed_leader_that_goes_on_extends_nothing() {
    for release in [Release::Packaged, Release::V3_5] {
        believes_nothing(release, false, 1).await;
    }
}
