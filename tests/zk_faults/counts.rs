//! What it costs, by the server's own counters and by the clock of a slow wire.

use std::time::{Duration, Instant};

use tenure_conformance::{
    proxy::{Mode as Proxied, Proxy},
    queue,
    server::{
        until,
        zookeeper::{Setup, Zookeeper},
    },
};
use tenure_core::{ContenderId, Mode};
use tenure_tests::on_zk::{coordinator, session, until_queued};
use tokio::time::timeout;

async fn count(zookeeper: &Zookeeper, name: &str) -> f64 {
    zookeeper.nodes[0].metric(name).await.unwrap_or(0.0)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_enter_is_one_round_trip_and_so_is_a_leave() {
    let zookeeper = Setup::single().start().await;
    let proxy = Proxy::start(zookeeper.nodes[0].client).await.expect("a proxy");
    let session = session(&proxy.address().to_string(), Duration::from_secs(30)).await.session;
    let (name, delay) = (queue("x"), Duration::from_millis(100));
    let id = ContenderId::random(Mode::Write);
    session.enter(&name, &id, b"").await.expect("the queue is made");
    session.leave(&name, &id).await.expect("it stays, and is empty");
    proxy.set(Proxied::DelayReplies(delay));
    let mut fastest = [Duration::MAX; 2];
    for _ in 0..10 {
        let (id, start) = (ContenderId::random(Mode::Write), Instant::now());
        let entered = session.enter(&name, &id, b"").await.expect("entered");
        let (enter, start) = (start.elapsed(), Instant::now());
        assert_eq!(entered.snapshot.queue.len(), 1);
        session.leave(&name, &id).await.expect("left");
        let leave = start.elapsed();
        fastest = [fastest[0].min(enter), fastest[1].min(leave)];
    }
    println!("with {delay:?} to answer: entered and left in {fastest:?}");
    assert!(fastest.iter().all(|took| *took >= delay && *took < delay * 19 / 10), "{fastest:?}");
}

/// The refused try, the queue, and the next try.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_enter_into_a_queue_that_is_not_there_is_three_round_trips() {
    let zookeeper = Setup::single().start().await;
    let proxy = Proxy::start(zookeeper.nodes[0].client).await.expect("a proxy");
    let session = session(&proxy.address().to_string(), Duration::from_secs(30)).await.session;
    let delay = Duration::from_millis(100);
    proxy.set(Proxied::DelayReplies(delay));
    let mut fastest = Duration::MAX;
    for fresh in 0..5 {
        let (name, id, start) = (queue(&format!("x-{fresh}")), ContenderId::random(Mode::Write), Instant::now());
        session.enter(&name, &id, b"").await.expect("entered");
        fastest = fastest.min(start.elapsed());
    }
    println!("with {delay:?} to answer: entered into a fresh queue in {fastest:?}");
    assert!(fastest >= delay * 3 && fastest < delay * 39 / 10, "{fastest:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_uncontended_lock_is_two_requests_of_which_one_writes_and_its_release_is_one() {
    let zookeeper = Setup::single().start().await;
    let coordinator = coordinator(&zookeeper.hosts(), "ttl=40s").await; // so that no keep-alive is among them
    coordinator.lock("x").await.expect("granted").release().await.expect("released");
    for rounds in [1_u32, 30] {
        let writes = count(&zookeeper, "cnt_updatelatency").await;
        let requests = count(&zookeeper, "packets_received").await;
        for _ in 0..rounds {
            coordinator.lock("x").await.expect("granted").release().await.expect("released");
        }
        let requests = count(&zookeeper, "packets_received").await - requests;
        let writes = count(&zookeeper, "cnt_updatelatency").await - writes;
        println!("{rounds} rounds: {requests} requests, {writes} writes");
        assert_eq!(writes, f64::from(2 * rounds));
        // The look of an operator is one of them; a ping may be.
        assert!((f64::from(3 * rounds)..=f64::from(3 * rounds + 2)).contains(&requests), "{requests}");
    }
}

/// The one round trip is seen by the clock of a slow wire, and the one request and its write by the server's counters.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fenced_put_is_one_request_that_writes_and_a_read_two_in_one_round_trip() {
    let zookeeper = Setup::single().start().await;
    let proxy = Proxy::start(zookeeper.nodes[0].client).await.expect("a proxy");
    let coordinator = coordinator(&proxy.address().to_string(), "ttl=40s").await; // so that no keep-alive is among them
    let guard = coordinator.lock("x").await.expect("granted");
    let data = guard.fenced().expect("it keeps data");
    data.put("k", b"0").await.expect("written");
    // From half a second on a guard watches its entry, and looks once.
    tokio::time::sleep(Duration::from_secs(1)).await;
    const ROUNDS: u32 = 30;
    for (each, what) in [(1, "put"), (2, "get"), (2, "put_if")] {
        let mut version = data.get("k").await.expect("read").map(|stored| stored.version);
        let writes = count(&zookeeper, "cnt_updatelatency").await;
        let requests = count(&zookeeper, "packets_received").await;
        for _ in 0..ROUNDS {
            match what {
                "put" => drop(data.put("k", b"1").await.expect("written")),
                "get" => drop(data.get("k").await.expect("read")),
                _ => version = data.put_if("k", version, b"2").await.expect("written"),
            }
        }
        let requests = count(&zookeeper, "packets_received").await - requests;
        let writes = count(&zookeeper, "cnt_updatelatency").await - writes;
        println!("{ROUNDS} of {what}: {requests} requests, {writes} writes");
        assert!(version.is_some() && writes == f64::from(ROUNDS), "{what}: {writes}");
        // The look of an operator is one of them; a ping may be.
        let expected = f64::from(each * ROUNDS);
        assert!((expected..=expected + 3.0).contains(&requests), "{what}: {requests}");
    }
    let delay = Duration::from_millis(100);
    proxy.set(Proxied::DelayReplies(delay));
    let mut fastest = [Duration::MAX; 2];
    for _ in 0..10 {
        let start = Instant::now();
        data.put("k", b"3").await.expect("written");
        let (put, start) = (start.elapsed(), Instant::now());
        data.get("k").await.expect("read");
        fastest = [fastest[0].min(put), fastest[1].min(start.elapsed())];
    }
    println!("with {delay:?} to answer: put and read in {fastest:?}");
    assert!(fastest.iter().all(|took| *took >= delay && *took < delay * 19 / 10), "{fastest:?}");
}

/// The holder is a bare session, since a guard that is held for long watches its own entry; each waiter releases at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hand_over_wakes_one_waiter_by_one_event_however_many_wait() {
    for waiting in [2_u32, 500] {
        let zookeeper = Setup::single().start().await;
        let holder = session(&zookeeper.hosts(), Duration::from_secs(40)).await.session;
        let (name, id) = (queue("x"), ContenderId::random(Mode::Write));
        holder.enter(&name, &id, b"").await.expect("entered");
        let coordinator = coordinator(&zookeeper.hosts(), "ttl=40s").await;
        let waiters: Vec<_> = (0..waiting)
            .map(|_| {
                let coordinator = coordinator.clone();
                tokio::spawn(
                    async move { coordinator.lock("x").await.expect("granted").release().await.expect("released") },
                )
            })
            .collect();
        until_queued(&zookeeper, "x", waiting as usize + 1).await;
        let watching = || async { count(&zookeeper, "watch_count").await == f64::from(waiting) };
        assert!(until(Duration::from_secs(20), watching).await, "one watch for each");
        let fired = || async {
            count(&zookeeper, "sum_node_deleted_watch_count").await
                + count(&zookeeper, "sum_node_children_watch_count").await
                + count(&zookeeper, "sum_node_changed_watch_count").await
        };
        let before = fired().await;
        holder.leave(&name, &id).await.expect("left");
        let start = Instant::now();
        for waiter in waiters {
            let left = Duration::from_secs(30).saturating_sub(start.elapsed());
            timeout(left, waiter).await.expect("all are served within the limit").expect("no panic");
        }
        let took = start.elapsed();
        let events = fired().await - before;
        assert_eq!(events, f64::from(waiting), "{waiting} hand-overs");
        println!("{waiting} waiting: {events} events for {waiting} hand-overs in {took:?}");
    }
}
