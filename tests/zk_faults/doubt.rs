//! What was sent without an answer: found again, made once, and never taken for somebody else's.

use std::time::Duration;

use tenure_conformance::{
    proxy::{Mode as Proxied, Proxy},
    queue,
    server::{until, zookeeper::Setup},
};
use tenure_core::{Backend, Clock, ContenderId, ErrorKind, Mode};
use tenure_tests::on_zk::{config, coordinator, entries, session, until_queued};
use tenure_zk::ZkBackend;
use tokio::time::timeout;

/// The node is made, and the answer lost with the connection: one entry, whose number is the token.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_enter_whose_answer_was_lost_is_found_again() {
    let zookeeper = Setup::single().start().await;
    let mut operator = zookeeper.operator().await;
    for lost in [Proxied::DropReplies, Proxied::DropRequests, Proxied::Stall, Proxied::Cut] {
        let proxy = Proxy::start(zookeeper.nodes[0].client).await.expect("a proxy");
        let session = session(&proxy.address().to_string(), Duration::from_secs(4)).await.session;
        let (name, id) = (queue("x"), ContenderId::random(Mode::Write));
        // Once the queue is there, the first thing that is asked makes the entry.
        let other = ContenderId::random(Mode::Write);
        session.enter(&name, &other, b"").await.expect("entered");
        session.leave(&name, &other).await.expect("left");
        proxy.set(lost);
        let error = session.enter(&name, &id, b"v").await.expect_err("nothing comes back");
        println!("{lost:?}: {}", error.report());
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        let mut made = None;
        if lost == Proxied::DropReplies {
            let applied = entries(&mut operator, "x").await;
            assert_eq!(applied.len(), 1, "the node is there before anything passes again: {applied:?}");
            made = operator.get(&format!("/n/x/{}", applied[0])).await.map(|(_, stat)| stat.created.cast_unsigned());
        }
        proxy.set(Proxied::Pass);
        let entered = session.enter(&name, &id, b"v").await.expect("found, or made");
        let nodes = entries(&mut operator, "x").await;
        assert_eq!((nodes.len(), entered.snapshot.queue.len()), (1, 1), "{lost:?}: {nodes:?}");
        let (_, stat) = operator.get(&format!("/n/x/{}", nodes[0])).await.expect("it is there");
        assert_eq!(entered.token.get(), stat.created.cast_unsigned());
        assert!(made.is_none_or(|made| made == entered.token.get()), "{made:?} was made, and is not what it got");
        session.leave(&name, &id).await.expect("left");
        assert!(entries(&mut operator, "x").await.is_empty(), "{lost:?}");
    }
}

/// As users see it: both come through, soon.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_contenders_come_through_although_an_answer_is_lost() {
    let zookeeper = Setup::single().start().await;
    let proxy = Proxy::start(zookeeper.nodes[0].client).await.expect("a proxy");
    let unlucky = coordinator(&proxy.address().to_string(), "ttl=4s").await;
    let other = coordinator(&zookeeper.hosts(), "ttl=4s").await;
    let guard = other.lock("x").await.expect("granted");
    proxy.set(Proxied::DropReplies);
    let waits = tokio::spawn(async move { unlucky.lock("x").await });
    until_queued(&zookeeper, "x", 2).await; // the holder's, and the one that its maker has no answer about
    proxy.set(Proxied::Pass); // which resets what has lost something
    let token = guard.token();
    guard.release().await.expect("released");
    let next = timeout(Duration::from_secs(2), waits).await.expect("in time").expect("no panic").expect("granted");
    assert!(next.token() > token);
    assert_eq!(entries(&mut zookeeper.operator().await, "x").await.len(), 1, "it was made twice");
    next.release().await.expect("released");
    let last = timeout(Duration::from_secs(2), other.lock("x")).await.expect("in time").expect("granted");
    last.release().await.expect("released");
    assert!(entries(&mut zookeeper.operator().await, "x").await.is_empty());
}

/// A session that is over may leave its entries for a while: with the same id they are still another one's (contract clause 8).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_entry_of_another_session_is_never_ours() {
    let zookeeper = Setup::single().start().await;
    let proxy = Proxy::start(zookeeper.nodes[0].client).await.expect("a proxy");
    let (name, id) = (queue("x"), ContenderId::random(Mode::Write));
    let gone = session(&zookeeper.hosts(), Duration::from_secs(30)).await.session;
    let theirs = gone.enter(&name, &id, b"").await.expect("entered").token;
    drop(gone); // without a word: the node stays
    for lost in [false, true] {
        let session = session(&proxy.address().to_string(), Duration::from_secs(4)).await.session;
        if lost {
            proxy.set(Proxied::DropRequests);
            session.enter(&name, &id, b"").await.expect_err("nothing arrives");
            proxy.set(Proxied::Pass);
        }
        let error = session.enter(&name, &id, b"").await.expect_err("the id is taken");
        assert!(error.kind() == ErrorKind::Unexpected && error.to_string().contains("another session's"), "{error}");
        session.leave(&name, &id).await.expect("nothing of ours is left");
        let left = session.list(&name).await.expect("listed").queue;
        assert_eq!(left.len(), 1);
        let record = session.read(&name, &left[0]).await.expect("read").expect("it stays");
        assert_eq!(record.token, theirs);
    }
}

/// By our clock the session is over, while the server, which was stopped meanwhile, has it still and shows its entry: to the same client, under
/// the same id, it is another one's; under a new id one has to wait for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_an_expired_session_has_left_is_not_ours_although_it_is_still_listed() {
    let zookeeper = Setup::single().start().await;
    let proxy = Proxy::start(zookeeper.nodes[0].client).await.expect("a proxy");
    let (name, id, clock) = (queue("x"), ContenderId::random(Mode::Write), Clock::system());
    let config = config(&proxy.address().to_string(), "");
    let client = ZkBackend::connect(&config, &clock, false).expect("good settings");
    let expired = client.open(Duration::from_secs(5)).await.expect("a session");
    let theirs = expired.session.enter(&name, &id, b"").await.expect("entered").token;
    proxy.set(Proxied::Blackhole); // so that a last word does not reach the server when it goes on
    zookeeper.nodes[0].process.stop();
    clock.sleep_until(expired.deadline).await;
    assert_eq!(expired.session.keep_alive().await.expect_err("too late").kind(), ErrorKind::SessionLost);
    proxy.set(Proxied::Pass);
    zookeeper.nodes[0].process.cont();
    let again = client.open(Duration::from_secs(5)).await.expect("a new session").session;
    let error = again.enter(&name, &id, b"").await.expect_err("the id is taken");
    assert!(error.kind() == ErrorKind::Unexpected && error.to_string().contains("another session's"), "{error}");
    again.leave(&name, &id).await.expect("nothing of ours is left");
    let fresh = ContenderId::random(Mode::Write);
    let entered = again.enter(&name, &fresh, b"").await.expect("entered");
    let ids: Vec<_> = entered.snapshot.queue.iter().map(|who| &who.id).collect();
    assert_eq!(ids, [&id, &fresh], "it has gone too early to show anything");
    assert!(entered.token > theirs);
    let first = || async { again.list(&name).await.expect("listed").queue[0].id == fresh };
    assert!(until(Duration::from_secs(10), first).await, "the old one stays");
}
