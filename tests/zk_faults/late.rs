//! What a server does long after everybody has given it up.

use std::time::Duration;

use tenure_conformance::{
    proxy::{Mode as Proxied, Proxy},
    queue,
    server::zookeeper::{Setup, Zookeeper},
};
use tenure_core::{Backend, Clock, ContenderId, ErrorKind, Mode, Session};
use tenure_tests::{
    on_zk::{config, coordinator, entries, session},
    rounds,
};
use tenure_zk::ZkBackend;
use tokio::time::{sleep, timeout};

const TTL: Duration = Duration::from_secs(6);

/// A session by way of the first of two proxies.
async fn session_by(first: &Proxy, second: &Proxy) -> Box<dyn Session> {
    let hosts = format!("{},{}", first.address(), second.address());
    second.set(Proxied::Refuse);
    let backend = ZkBackend::connect(&config(&hosts, ""), &Clock::system(), false).expect("good settings");
    let mut opened = backend.open(TTL).await;
    for _ in 0..20 {
        if opened.is_ok() {
            break;
        }
        sleep(Duration::from_millis(300)).await; // the round before has stopped a server, and it may still be catching up
        opened = backend.open(TTL).await;
    }
    second.set(Proxied::Pass);
    opened.expect("a session").session
}

/// The leader and the two others.
async fn roles(zookeeper: &Zookeeper) -> (usize, [usize; 2]) {
    let mut leader = None;
    while leader.is_none() {
        leader = zookeeper.leader().await;
    }
    let leader = leader.expect("known by now");
    (leader, [(leader + 1) % 3, (leader + 2) % 3])
}

/// An `enter` sent through a follower that is stopped, given up, sent again through another server (or the leader), and left; then the follower
/// goes on. It has the request, and has not heard that it was given up. Beside it the same by a session that stays where it is, to see that
/// there is something to be seen.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_enter_that_comes_after_its_leave_is_dead() {
    let zookeeper = Setup::cluster().with(&["syncLimit=50"]).start().await;
    let (leader, [follower, other]) = roles(&zookeeper).await;
    let (rounds, mut late) = (rounds(10), 0);
    let mut operator = zookeeper.nodes[leader].operator().await.expect("it serves");
    for round in 0..rounds {
        let stopped = Proxy::start(zookeeper.nodes[follower].client).await.expect("a proxy");
        let second = zookeeper.nodes[if round % 2 == 0 { other } else { leader }].client;
        let second = Proxy::start(second).await.expect("a proxy");
        let moves = session_by(&stopped, &second).await;
        let control = Proxy::start(zookeeper.nodes[follower].client).await.expect("a proxy");
        let stays = session(&control.address().to_string(), TTL).await.session;
        let [name, plain] = ["x", "plain"].map(queue);
        let [id, other_id] = [ContenderId::random(Mode::Write), ContenderId::random(Mode::Write)];
        for (session, name) in [(&moves, &name), (&stays, &plain)] {
            let warm = ContenderId::random(Mode::Write);
            session.enter(name, &warm, b"").await.expect("entered");
            session.leave(name, &warm).await.expect("left");
        }
        zookeeper.nodes[follower].process.stop();
        let (first, given_up, ()) = tokio::join!(
            moves.enter(&name, &id, b""),
            timeout(Duration::from_millis(600), stays.enter(&plain, &other_id, b"")),
            async {
                sleep(Duration::from_millis(300)).await; // the requests are there, what follows is not
                stopped.set(Proxied::Stall);
                control.set(Proxied::Stall);
            }
        );
        assert!(given_up.is_err(), "a stopped server answers");
        assert_eq!(first.expect_err("a stopped server answers").kind(), ErrorKind::Unavailable);
        let mut entered = moves.enter(&name, &id, b"").await;
        for _ in 0..5 {
            if entered.is_err() {
                entered = moves.enter(&name, &id, b"").await;
            }
        }
        entered.expect("entered by way of the other server");
        moves.leave(&name, &id).await.expect("left");
        assert!(moves.list(&name).await.expect("listed").queue.is_empty());
        zookeeper.nodes[follower].process.cont();
        sleep(Duration::from_millis(700)).await;
        late += entries(&mut operator, "plain").await.len();
        assert!(entries(&mut operator, "x").await.is_empty(), "round {round}: an orphan under a live session");
        moves.keep_alive().await.expect("the session lives");
        control.set(Proxied::Pass);
        let _ = stays.leave(&plain, &other_id).await;
        moves.close().await.expect("closed");
        for left in entries(&mut operator, "plain").await {
            operator.try_delete(&format!("/n/plain/{left}")).await;
        }
    }
    println!("{rounds} rounds: no orphan; of the sessions that stayed, {late} entries came late");
    assert!(late * 2 > rounds, "nothing was tested: {late} of {rounds}");
}

/// The same server, by another connection: what it has read from the old one, or has still to read, comes to nothing or is seen.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_enter_by_an_old_connection_to_the_same_server_is_dead() {
    let zookeeper = Setup::single().start().await;
    let mut operator = zookeeper.operator().await;
    for round in 0..rounds(10) {
        let old = Proxy::start(zookeeper.nodes[0].client).await.expect("a proxy");
        let new = Proxy::start(zookeeper.nodes[0].client).await.expect("a proxy");
        let session = session_by(&old, &new).await;
        let (name, id) = (queue("x"), ContenderId::random(Mode::Write));
        session.list(&name).await.expect("listed");
        zookeeper.nodes[0].process.stop();
        let (first, ()) = tokio::join!(session.enter(&name, &id, b""), async {
            sleep(Duration::from_millis(300)).await;
            old.set(Proxied::Stall);
        });
        assert_eq!(first.expect_err("a stopped server answers").kind(), ErrorKind::Unavailable);
        let goes_on = async {
            sleep(Duration::from_millis(200)).await;
            zookeeper.nodes[0].process.cont();
        };
        let leaves = async {
            while session.leave(&name, &id).await.is_err() {
                sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::join!(goes_on, leaves);
        sleep(Duration::from_millis(300)).await;
        assert!(entries(&mut operator, "x").await.is_empty(), "round {round}: an orphan under a live session");
        session.keep_alive().await.expect("the session lives");
        session.close().await.expect("closed");
    }
}

/// A `put` sent through a follower that is stopped, told to be unknown, and followed by another one, or by a read, through another server; then
/// the follower goes on, and has the first one still. Beside it the same by a session that stays where it is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_put_that_comes_late_overwrites_nothing() {
    let zookeeper = Setup::cluster().with(&["syncLimit=50"]).start().await;
    let (leader, [follower, other]) = roles(&zookeeper).await;
    let (rounds, mut late) = (rounds(10), 0);
    for round in 0..rounds {
        let stopped = Proxy::start(zookeeper.nodes[follower].client).await.expect("a proxy");
        let second = zookeeper.nodes[if round % 2 == 0 { other } else { leader }].client;
        let second = Proxy::start(second).await.expect("a proxy");
        second.set(Proxied::Refuse);
        let moves = coordinator(&format!("{},{}", stopped.address(), second.address()), "ttl=6s").await;
        let control = Proxy::start(zookeeper.nodes[follower].client).await.expect("a proxy");
        let stays = coordinator(&control.address().to_string(), "ttl=6s").await;
        let (guard, plain) = (moves.lock("x").await.expect("granted"), stays.lock("plain").await.expect("granted"));
        second.set(Proxied::Pass);
        let (data, plain_data) = (guard.fenced().expect("it keeps data"), plain.fenced().expect("it keeps data"));
        data.put("k", b"0").await.expect("written");
        plain_data.put("k", b"0").await.expect("written");
        zookeeper.nodes[follower].process.stop();
        let (first, given_up, ()) = tokio::join!(
            data.put("k", b"old"),
            timeout(Duration::from_millis(900), plain_data.put("k", b"old")),
            async {
                sleep(Duration::from_millis(300)).await; // the requests are there, what follows is not
                stopped.set(Proxied::Stall);
                control.set(Proxied::Stall);
            }
        );
        assert!(given_up.is_err(), "a stopped server answers");
        assert_eq!(first.expect_err("a stopped server answers").kind(), ErrorKind::Unknown);
        if round % 4 < 2 {
            data.put("k", b"new").await.expect("written by way of the other server");
        }
        let settled = data.get("k").await.expect("read by way of the other server").expect("it is there").value;
        assert_eq!(settled, if round % 4 < 2 { b"new".to_vec() } else { b"0".to_vec() });
        zookeeper.nodes[follower].process.cont();
        sleep(Duration::from_millis(700)).await;
        let mut operator = zookeeper.nodes[leader].operator().await.expect("it serves");
        let (value, _) = operator.get("/n/.tenure/data/plain/k").await.expect("it is there");
        late += usize::from(value.ends_with(b"\nold"));
        let now = data.get("k").await.expect("read").expect("it is there").value;
        assert_eq!(now, settled, "round {round}: what was answered is overwritten");
        guard.verify().await.expect("it stands");
        guard.release().await.expect("released");
        control.set(Proxied::Pass);
        drop(plain.release().await);
        drop(stays.close().await);
        moves.close().await.expect("closed");
        let plain_entries = entries(&mut operator, "plain").await;
        for left in plain_entries {
            operator.try_delete(&format!("/n/plain/{left}")).await;
        }
    }
    println!("{rounds} rounds: nothing overwritten; of the sessions that stayed, {late} wrote late");
    assert!(late * 2 > rounds, "nothing was tested: {late} of {rounds}");
}
