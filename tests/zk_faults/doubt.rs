//! What was sent without an answer: found again, made once, and never taken for somebody else's.

use std::time::Duration;

use tenure_conformance::{
    proxy::{Mode as Proxied, Proxy},
    queue,
    server::zookeeper::Setup,
};
use tenure_core::{ContenderId, ErrorKind, Mode};
use tenure_tests::on_zk::{coordinator, entries, session};
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
        session.list(&name).await.expect("listed");
        proxy.set(lost);
        let error = session.enter(&name, &id, b"v").await.expect_err("nothing comes back");
        println!("{lost:?}: {}", error.report());
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        proxy.set(Proxied::Pass);
        let entered = session.enter(&name, &id, b"v").await.expect("found, or made");
        let nodes = entries(&mut operator, "x").await;
        assert_eq!((nodes.len(), entered.snapshot.queue.len()), (1, 1), "{lost:?}: {nodes:?}");
        let (_, stat) = operator.get(&format!("/n/x/{}", nodes[0])).await.expect("it is there");
        assert_eq!(entered.token.get(), stat.created.cast_unsigned());
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
    tokio::time::sleep(Duration::from_millis(200)).await;
    proxy.set(Proxied::Pass); // which resets what has lost something
    let token = guard.token();
    guard.release().await.expect("released");
    let next = timeout(Duration::from_secs(2), waits).await.expect("in time").expect("no panic").expect("granted");
    assert!(next.token() > token);
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
