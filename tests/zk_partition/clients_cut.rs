//! A client is cut off: from all servers, or with the only server that it knows. It must have given up before anybody else is granted
//! what it held.

use std::time::{Duration, Instant};

use tenure_conformance::{dice::Dice, netns::Cut, server::zookeeper::Operator};
use tenure_tests::{
    rounds,
    siege::{Fall, NAMES, Siege, works_again},
};
use tokio::{
    task::JoinHandle,
    time::{sleep, timeout},
};

use super::World;

const TTL: Duration = Duration::from_secs(3);
/// A follower believes for so many ticks, twelve seconds, that a silent leader is there, and answers all that time.
const PATIENT: [&str; 1] = ["syncLimit=60"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_is_cut_off_gives_up_before_others_are_granted() {
    let world = World::start(&[]).await;
    let [holder, other] = [world.client(0, &[0, 1, 2], "ttl=3s").await, world.client(1, &[1, 2, 0], "ttl=3s").await];
    for _ in 0..rounds(1) {
        for cut in [Cut::Off, Cut::Mute, Cut::Deaf] {
            let siege = Siege::lay(&holder, &other).await;
            sleep(TTL / 2).await; // renewed by now
            holder.host().cut(cut, &[]);
            let Fall { lost, granted, by_clock, .. } = siege.falls(Instant::now(), &other).await;
            assert!(by_clock && lost < TTL, "told {lost:?} after the cut");
            holder.host().heal();
            works_again(&holder).await;
            println!("client {cut:?}: all of {NAMES} lost by {lost:?}, the first one granted after {granted:?}");
        }
    }
}

/// The entries that this server still shows.
async fn shown(operator: &mut Operator) -> usize {
    let mut shown = 0;
    for number in 0..NAMES {
        shown += operator.list_here(&format!("/n/x-{number}")).await.len();
    }
    shown
}

/// Looks again and again at what the holder has in each queue, as the leader shows it. Returns when it was asked for the last time that it showed
/// it: until then at least it was there for all others.
fn last_seen(mut leader: Operator) -> JoinHandle<Vec<Instant>> {
    tokio::spawn(async move {
        let mut seen = vec![(String::new(), Instant::now(), true); NAMES];
        while seen.iter().any(|(.., there)| *there) {
            for (number, (entry, last, there)) in seen.iter_mut().enumerate().filter(|(_, (.., there))| *there) {
                let asked = Instant::now();
                let mut names = leader.list_here(&format!("/n/x-{number}")).await;
                names.sort_by_key(|name| name.rsplit('-').next().map(str::to_owned));
                let first = names.first().cloned().unwrap_or_default();
                if entry.is_empty() {
                    entry.clone_from(&first);
                }
                *there = !first.is_empty() && *entry == first;
                *last = if *there { asked } else { *last };
            }
            sleep(Duration::from_millis(5)).await;
        }
        seen.into_iter().map(|(_, last, _)| last).collect()
    })
}

/// The shortest time from a loss that was told to the last sight of its entry.
async fn shown_after(losses: &[Instant; NAMES], seen: JoinHandle<Vec<Instant>>) -> Duration {
    let seen = timeout(Duration::from_secs(20), seen).await.expect("all goes").expect("no panic");
    let gap = |(lost, seen): (&Instant, Instant)| {
        seen.checked_duration_since(*lost).expect("an entry had gone before its holder was told")
    };
    losses.iter().zip(seen).map(gap).min().expect("there are some")
}

/// The leader ends the session while the client stays connected, and reads from its server that all is well. Neither a connection nor a read
/// proves anything.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_of_a_follower_that_lost_its_leader_gives_up_in_time() {
    let mut world = World::start(&PATIENT).await;
    let (rounds, mut narrowest) = (rounds(3), Duration::MAX);
    for _ in 0..rounds {
        let leader = world.leader().await;
        let at = (leader + 1) % 3;
        let mut believer = world.zookeeper.nodes[at].operator().await.expect("it serves");
        let [holder, other] = [world.client(0, &[at], "ttl=3s").await, world.client(1, &[leader], "ttl=3s").await];
        let siege = Siege::lay(&holder, &other).await;
        let seen = last_seen(world.zookeeper.nodes[leader].operator().await.expect("it serves"));
        sleep(TTL / 2).await;
        world.server(at).cut(Cut::Off, &world.others(at));
        let Fall { lost, granted, by_clock, losses, .. } = siege.falls(Instant::now(), &other).await;
        assert!(by_clock && lost < TTL, "told {lost:?} after the cut");
        assert!(granted < Duration::from_secs(10), "granted {granted:?} after the cut: the follower knows by then");
        assert_eq!(shown(&mut believer).await, 2 * NAMES, "the follower knows that it is cut off: this proves nothing");
        narrowest = narrowest.min(shown_after(&losses, seen).await);
        println!("follower cut off from its leader: lost by {lost:?}, granted after {granted:?}");
        world.server(at).heal();
        assert!(world.zookeeper.serves(Duration::from_secs(30)).await);
        works_again(&holder).await;
        holder.close().await;
        other.close().await;
    }
    println!("{rounds} of {rounds} lost in time, {narrowest:?} before the entry was gone for others at least");
}

/// Keep-alives succeed now and then, so that the deadline hangs on which of them had reached the leader.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_of_a_follower_with_a_flapping_link_gives_up_in_time() {
    let mut world = World::start(&PATIENT).await;
    let seed = u64::from(std::process::id());
    let (rounds, dice, mut narrowest, mut outlived) = (rounds(2), Dice::new(seed), Duration::MAX, 0);
    for round in 0..rounds {
        let leader = world.leader().await;
        let at = (leader + 1) % 3;
        let [holder, other] = [world.client(0, &[at], "ttl=3s").await, world.client(1, &[leader], "ttl=3s").await];
        let siege = Siege::lay(&holder, &other).await;
        let (start, mut cuts) = (Instant::now(), 0);
        // What the tenures outlive, and what they do not.
        let longest = Duration::from_millis([250, 900][round % 2]);
        while start.elapsed() < 3 * TTL {
            world.server(at).cut(Cut::Off, &world.others(at));
            sleep(dice.time(longest)).await;
            world.server(at).heal();
            sleep(dice.time(Duration::from_millis(700))).await;
            cuts += 1;
        }
        let held = siege.held();
        world.server(at).cut(Cut::Off, &world.others(at));
        let Fall { lost, by_clock, gap, .. } = siege.falls(Instant::now(), &other).await;
        assert!(by_clock, "somebody else told of a loss before the own clock");
        println!(
            "seed {seed}, {cuts} cuts of {longest:?} at most, {held} of {NAMES} outlived them: lost {lost:?} after the last"
        );
        // Who has lost gives the session back, if the link is up: then the entry goes at once, and the next one is granted.
        (narrowest, outlived) = (narrowest.min(gap), outlived + held);
        world.server(at).heal();
        assert!(world.zookeeper.serves(Duration::from_secs(30)).await);
        works_again(&holder).await;
        holder.close().await;
        other.close().await;
    }
    println!("{rounds} of {rounds} lost in time, {narrowest:?} before the next grant at least");
    assert!(outlived > 0, "nothing was held any more at the last cut, in any round");
}

/// With the majority there is a new leader, while the old one may go on for some time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_of_a_leader_without_majority_gives_up_in_time() {
    let mut world = World::start(&[]).await;
    for _ in 0..rounds(1) {
        let at = world.leader().await;
        let others = [(at + 1) % 3, (at + 2) % 3];
        let [holder, other] = [world.client(0, &[at], "ttl=3s").await, world.client(1, &others, "ttl=3s").await];
        let siege = Siege::lay(&holder, &other).await;
        sleep(TTL / 2).await;
        world.server(at).cut(Cut::Off, &world.others(at));
        let Fall { lost, granted, by_clock, .. } = siege.falls(Instant::now(), &other).await;
        assert!(by_clock && lost < TTL, "told {lost:?} after the cut");
        println!("leader cut off from the majority: lost by {lost:?}, granted after {granted:?}");
        world.server(at).heal();
        assert!(world.zookeeper.serves(Duration::from_secs(30)).await);
        works_again(&holder).await;
        holder.close().await;
        other.close().await;
    }
}
