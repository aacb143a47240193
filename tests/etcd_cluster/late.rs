//! What a server does long after everybody has given it up.

use std::{net::SocketAddr, time::Duration};

use etcd_client::{Client, Compare, CompareOp, LeaseKeepAliveStream, LeaseKeeper, Txn, TxnOp};
use tenure_conformance::{
    proxy::{Mode as Proxied, Proxy},
    queue,
    server::etcd::Release,
};
use tenure_core::{ContenderId, ErrorKind, Mode, Moment, Result, Session};
use tenure_tests::on_etcd::{coordinator, entries, rounds, session};
use tokio::time::{sleep, timeout};

use super::{cluster, roles};

/// An `enter` sent through a follower that is stopped, given up, sent again through another server, and left; then the follower goes on. It
/// has the request, and has not heard that it was given up. Beside it the same with a plain transaction, to see that there is something to be
/// seen.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_enter_that_comes_after_its_leave_is_dead() {
    let (etcd, _alone) = cluster(Release::Packaged).await;
    let (_, [follower, other]) = roles(&etcd).await;
    let (rounds, mut late) = (rounds(10), 0);
    for round in 0..rounds {
        let proxy = Proxy::start(etcd.nodes[follower].client).await.expect("a proxy");
        let hosts = format!("{},{}", proxy.address(), etcd.nodes[other].client);
        let session = session(&hosts, Duration::from_secs(4)).await.session;
        let plain = Client::connect([proxy.address().to_string()], None).await.expect("a client");
        plain.kv_client().get("warm", None).await.expect("connected");
        let (name, id, key) = (queue("x"), ContenderId::random(Mode::Write), format!("plain/{round}"));
        let absent = Compare::create_revision(&*key, CompareOp::Equal, 0);
        let put = Txn::new().when([absent]).and_then([TxnOp::put(&*key, "", None)]);
        etcd.nodes[follower].process.stop();
        let mut kv = plain.kv_client();
        let (given_up, first, ()) =
            tokio::join!(timeout(Duration::from_millis(900), kv.txn(put)), session.enter(&name, &id, b""), async {
                sleep(Duration::from_millis(400)).await; // the requests are there, what follows is not
                proxy.set(Proxied::Stall);
            });
        assert!(given_up.is_err(), "a stopped server answers");
        assert_eq!(first.expect_err("a stopped server answers").kind(), ErrorKind::Unavailable);
        session.enter(&name, &id, b"").await.expect("entered by way of the other server");
        session.leave(&name, &id).await.expect("left");
        assert!(session.list(&name).await.expect("listed").queue.is_empty());
        etcd.nodes[follower].process.cont();
        sleep(Duration::from_millis(700)).await;
        late += usize::from(!etcd.keys(&key).is_empty());
        assert!(entries(&etcd, "x").is_empty(), "round {round}: an orphan under a live session");
        session.keep_alive().await.expect("the session lives");
    }
    println!("{rounds} rounds: no orphan; of the plain transactions {late} took effect late");
    assert!(late * 2 > rounds, "nothing was tested: {late} of {rounds}");
}

/// A `put` sent through a follower that is stopped, told to be unknown, and followed by another one through another server; then the follower
/// goes on, and has the first one still. Beside it the same with transactions that compare the entry alone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_put_that_comes_late_overwrites_nothing() {
    let (etcd, _alone) = cluster(Release::Packaged).await;
    let (_, [follower, other]) = roles(&etcd).await;
    let (rounds, mut late) = (rounds(10), 0);
    for round in 0..rounds {
        let proxy = Proxy::start(etcd.nodes[follower].client).await.expect("a proxy");
        let hosts = format!("{},{}", proxy.address(), etcd.nodes[other].client);
        let coordinator = coordinator(&hosts, "ttl=4s").await;
        let guard = coordinator.lock("x").await.expect("granted");
        let data = guard.fenced().expect("it keeps data");
        data.put("k", b"0").await.expect("written");
        let plain = Client::connect([proxy.address().to_string()], None).await.expect("a client");
        let (entry, key) = (entries(&etcd, "x")[0].clone(), format!("plain/{round}"));
        let holds = Compare::create_revision(&*entry, CompareOp::Greater, 0);
        let put = Txn::new().when([holds]).and_then([TxnOp::put(&*key, "old", None)]);
        plain.kv_client().get("warm", None).await.expect("connected");
        etcd.nodes[follower].process.stop();
        let mut kv = plain.kv_client();
        let (given_up, first, ()) =
            tokio::join!(timeout(Duration::from_millis(900), kv.txn(put)), data.put("k", b"old"), async {
                sleep(Duration::from_millis(400)).await; // the requests are there, what follows is not
                proxy.set(Proxied::Stall);
            });
        assert!(given_up.is_err(), "a stopped server answers");
        assert_eq!(first.expect_err("a stopped server answers").kind(), ErrorKind::Unknown);
        if round % 2 == 0 {
            data.put("k", b"new").await.expect("written by way of the other server");
        } else {
            let settled = data.get("k").await.expect("read by way of the other server").expect("it is there");
            assert_eq!(settled.value, b"0");
        }
        let settled = data.get("k").await.expect("read").expect("it is there").value;
        etcd.nodes[follower].process.cont();
        sleep(Duration::from_millis(700)).await;
        late += usize::from(!etcd.keys(&key).is_empty());
        let now = data.get("k").await.expect("read").expect("it is there").value;
        assert_eq!(now, settled, "round {round}: what was answered is overwritten");
        guard.verify().await.expect("it stands");
        guard.release().await.expect("released");
    }
    println!("{rounds} rounds: nothing overwritten; of the plain transactions {late} took effect late");
    assert!(late * 2 > rounds, "nothing was tested: {late} of {rounds}");
}

/// What the follower has to catch up with: about a second's work.
const BACKLOG: usize = 300;
const BULK: usize = 100_000;

/// Keep-alives by somebody who believes every header.
struct Plain(LeaseKeeper, LeaseKeepAliveStream);

impl Plain {
    async fn start(server: SocketAddr) -> Self {
        let client = Client::connect([server.to_string()], None).await.expect("a client");
        let lease = client.lease_client().grant(60, None).await.expect("granted").id();
        let (requests, answers) = client.lease_client().keep_alive(lease).await.expect("kept alive");
        Self(requests, answers)
    }

    /// The revisions of two answers in a row.
    async fn revisions(&mut self) -> [i64; 2] {
        let mut revisions = [0; 2];
        for revision in &mut revisions {
            self.0.keep_alive().await.expect("sent");
            let answer = self.1.message().await.expect("answered").expect("answered");
            *revision = answer.header().expect("a header").revision();
        }
        revisions
    }
}

/// As a user does it: again, if the connection is lost.
async fn kept_alive(session: &dyn Session) -> Result<Moment> {
    loop {
        match session.keep_alive().await {
            Err(error) if error.is_retryable() => sleep(Duration::from_millis(50)).await,
            answer => return answer,
        }
    }
}

/// A follower that was stopped has to catch up, and meanwhile answers keep-alives with old revisions: nothing has gone back. Beside ours
/// somebody who asks the same two servers one after the other, and looks at the headers, to see that there is something to be seen.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_follower_that_lags_is_no_restore() {
    let (etcd, _alone) = cluster(Release::Packaged).await;
    let (mut went_down, rounds) = (0, rounds(2));
    for round in 0..rounds {
        let (_, [follower, other]) = roles(&etcd).await;
        let proxy = Proxy::start(etcd.nodes[other].client).await.expect("a proxy");
        let hosts = format!("{},{}", proxy.address(), etcd.nodes[follower].client);
        let (coordinator, bare) =
            (coordinator(&hosts, "ttl=20s").await, session(&hosts, Duration::from_secs(20)).await.session);
        let guard = coordinator.lock("x").await.expect("granted");
        let mut plain = Plain::start(etcd.nodes[follower].client).await;
        let writer = Client::connect([etcd.nodes[other].client.to_string()], None).await.expect("a client");
        etcd.nodes[follower].process.stop();
        let mut newest = 0;
        for number in 0..BACKLOG {
            let key = format!("backlog/{}", number % 50);
            let written = writer.kv_client().put(key, vec![0; BULK], None).await.expect("written");
            newest = written.header().expect("a header").revision();
        }
        guard.verify().await.expect("it stands, and both have seen how far it is");
        bare.list(&queue("x")).await.expect("listed");
        proxy.set(Proxied::Cut);
        bare.list(&queue("x")).await.expect_err("the follower is next");
        let (seen, kept, ()) = tokio::join!(plain.revisions(), kept_alive(&*bare), async {
            sleep(Duration::from_millis(100)).await; // the requests are there
            etcd.nodes[follower].process.cont();
        });
        println!("at revision {newest} keep-alives by the follower had {seen:?}");
        went_down += usize::from(seen[1] < newest);
        kept.unwrap_or_else(|error| panic!("a false alarm in round {round}: {}", error.report()));
        guard.verify().await.expect("it stands");
        assert!(guard.is_held(), "a false alarm in round {round}");
        guard.release().await.expect("released");
        bare.close().await.expect("closed");
        coordinator.close().await.expect("closed");
    }
    assert!(went_down > 0, "nothing was tested: no revision was seen to go down");
}
