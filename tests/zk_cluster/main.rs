//! Three ZooKeeper servers on this machine: one after the other dies or stops, or nothing happens at all.

#![expect(clippy::print_stdout, reason = "what was measured is to be seen beside the result of the test")]

mod deposed;
mod first_item;

use std::{env, sync::Arc, time::Duration};

use tenure_conformance::server::{
    until,
    zookeeper::{Setup, Zookeeper},
};
use tenure_tests::{client::Client, load::Load, rounds};
use tokio::{
    sync::{Mutex, MutexGuard},
    time::{Instant, sleep},
};

/// Ensembles beside each other would take each other's processor time, and lose their leaders for that.
static ONE_AT_A_TIME: Mutex<()> = Mutex::const_new(());

/// More than the silence that a leader and its followers bear, which is two seconds.
const FAULT: Duration = Duration::from_secs(4);
/// Until keep-alives prove as much again as in quiet times: three tenths of a session's timeout, and a little.
const CALM: Duration = Duration::from_secs(6);
/// A call is given up before a quarter of the ttl is over, six seconds, and an election takes a second. There may be two of each: a client
/// whose server has lost its leader may come to the one that is stopped next.
const LONGEST: Duration = Duration::from_secs(15);

async fn ensemble() -> (Zookeeper, MutexGuard<'static, ()>) {
    let alone = ONE_AT_A_TIME.lock().await;
    (Setup::cluster().start().await, alone)
}

/// A client that knows all servers.
async fn client(zookeeper: &Zookeeper, settings: &str) -> Client {
    Client::start(None, &format!("zk://{}/n?{settings}", zookeeper.hosts())).await
}

/// Kills or stops one server for a while, and waits until all serve again.
async fn strike(zookeeper: &mut Zookeeper, load: &Load, at: usize, kill: bool) {
    let role = if zookeeper.leader().await == Some(at) { "leader" } else { "follower" };
    let label = format!("{} of the {role} {at}", if kill { "kill -9" } else { "SIGSTOP" });
    sleep(CALM).await;
    load.longest();
    let process = &mut zookeeper.nodes[at].process;
    if kill {
        process.kill();
    } else {
        process.stop();
    }
    sleep(FAULT).await;
    load.goes_on(&label).await;
    let took = load.longest();
    println!("{label}: longest turn {took:?}");
    assert!(took < LONGEST, "{label}: a call outlasted its limit");
    let process = &mut zookeeper.nodes[at].process;
    if kill {
        process.restart().expect("it starts");
    } else {
        process.cont();
    }
    assert!(zookeeper.serves(Duration::from_secs(20)).await, "{}", zookeeper.nodes[at].process.last_words());
    load.goes_on(&label).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_that_die_or_stop_one_after_the_other_end_no_session() {
    let (mut zookeeper, _alone) = ensemble().await;
    let clients = [client(&zookeeper, "ttl=24s").await, client(&zookeeper, "ttl=24s").await];
    let load = Load::start(clients, 25, 25).await;
    load.goes_on("before").await;
    let mut strikes = 0;
    for _ in 0..rounds(1) {
        for kill in [true, false] {
            let leader = zookeeper.leader().await.expect("all serve");
            for at in [leader, (leader + 1) % 3, (leader + 2) % 3] {
                strike(&mut zookeeper, &load, at, kill).await;
                strikes += 1;
            }
        }
    }
    println!("{strikes} strikes, {} turns, no lock lost, no two holders", load.end().await);
}

/// `TENURE_QUIET_SECONDS` says for how long.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_while_nothing_happens() {
    let seconds = env::var("TENURE_QUIET_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(20);
    let (zookeeper, _alone) = ensemble().await;
    let (mut clients, mut held) = (Vec::new(), Vec::new());
    for number in 0..9 {
        let client = client(&zookeeper, "ttl=3s").await;
        held.push(Arc::new(client.lock(format!("x-{number}"), Duration::from_secs(10)).await));
        clients.push(client);
    }
    let end = Instant::now() + Duration::from_secs(seconds);
    let lost = || async { Instant::now() > end || held.iter().any(|guard| !guard.is_held()) };
    until(Duration::from_secs(seconds + 10), lost).await;
    let lost = held.iter().filter(|guard| !guard.is_held()).count();
    assert_eq!(lost, 0, "lost, of {}, {:?} before the end", held.len(), end.saturating_duration_since(Instant::now()));
    for guard in &held {
        guard.verify().await.expect("it stands");
    }
    println!("{} locks of 3 s held for {seconds} s, none lost", held.len());
}
