//! A client is cut off: from all servers, or from all but one that is cut off itself. It must have given up before anybody else is granted
//! what it held.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tenure_conformance::{netns::Cut, server::etcd::Release};
use tenure_core::{LockGuard, LossReason};
use tenure_tests::{ledger::Ledger, on_etcd::rounds};
use tokio::{task::JoinHandle, time::sleep};

use super::{World, client::Client};

const TTL: Duration = Duration::from_secs(3);
const NAMES: usize = 10;
/// The ttl, twice an election and what it adds to a lease, and the limits of calls.
const LIMIT: Duration = Duration::from_secs(20);

/// Everything that the first client holds, wanted by the second one.
struct Siege {
    ledger: Arc<Ledger>,
    held: Vec<Arc<LockGuard>>,
    told: Vec<JoinHandle<(LossReason, Instant)>>,
    waiting: Vec<JoinHandle<(Arc<LockGuard>, Instant)>>,
}

impl Siege {
    async fn lay(holder: &Client, other: &Client) -> Self {
        let ledger = Arc::new(Ledger::default());
        let (mut held, mut told, mut waiting) = (Vec::new(), Vec::new(), Vec::new());
        for number in 0..NAMES {
            let guard = ledger.granted(holder.lock(format!("x-{number}"), LIMIT).await);
            let lost = guard.lost();
            told.push(tokio::spawn(async move { (lost.await, Instant::now()) }));
            held.push(guard);
            let (ledger, other) = (ledger.clone(), other.clone());
            waiting.push(tokio::spawn(async move {
                let guard = ledger.granted(other.lock(format!("x-{number}"), LIMIT * 2).await);
                (guard, Instant::now())
            }));
        }
        Self { ledger, held, told, waiting }
    }

    /// All is lost by the own deadline, and then granted to the other. Says when, after `cut`: the last loss, the first grant.
    async fn falls(self, cut: Instant, other: &Client) -> (Duration, Duration) {
        let (mut last_loss, mut first_grant) = (Duration::ZERO, Duration::MAX);
        for ((held, told), waiting) in self.held.iter().zip(self.told).zip(self.waiting) {
            let (guard, granted) = waiting.await.expect("taken over");
            assert!(!held.is_held() && guard.token() > held.token());
            let (reason, lost) = told.await.expect("no panic");
            assert!(reason == LossReason::Expired && lost < granted, "{reason}, told after the next grant");
            last_loss = last_loss.max(lost - cut);
            first_grant = first_grant.min(granted - cut);
            other.release(self.ledger.released(guard), LIMIT).await;
        }
        (last_loss, first_grant)
    }
}

async fn works_again(client: &Client) {
    let guard = client.lock("again", LIMIT).await;
    client.release(guard, LIMIT).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_is_cut_off_gives_up_before_others_are_granted() {
    let world = World::start(Release::Packaged).await;
    let (holder, other) = (world.client(0, 0, "ttl=3s").await, world.client(1, 0, "ttl=3s").await);
    for _ in 0..rounds(1) {
        for cut in [Cut::Off, Cut::Mute, Cut::Deaf] {
            let siege = Siege::lay(&holder, &other).await;
            sleep(Duration::from_millis(1500)).await; // renewed by now
            holder.host.cut(cut, &[]);
            let (lost, granted) = siege.falls(Instant::now(), &other).await;
            assert!(lost < TTL, "told {lost:?} after the cut");
            holder.host.heal();
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
                let only = world.etcd.nodes[at].client.to_string();
                let holder = Client::start(world.client_host(0), only, "ttl=3s").await;
                let siege = Siege::lay(&holder, &other).await;
                sleep(Duration::from_millis(1500)).await;
                world.server(at).cut(Cut::Off, &world.others(at));
                let (lost, granted) = siege.falls(Instant::now(), &other).await;
                // A leader notices within two election timeouts of half a second that nobody follows.
                assert!(lost < TTL + Duration::from_millis(1500), "told {lost:?} after the cut");
                world.server(at).heal();
                assert!(world.etcd.serves(Duration::from_secs(20)).await);
                works_again(&holder).await;
                let role = ["leader", "follower"][follower];
                println!("only the cut off {role} of {release:?}: lost by {lost:?}, granted after {granted:?}");
            }
        }
    }
}
