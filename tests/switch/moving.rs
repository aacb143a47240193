//! A fenced resource moves from one backend to another and back, and through a restore: as `docs/moving.md` says, step by step. The
//! resource is one gate that sees all of it, and no token may be lower than one it has seen.

use std::time::{Duration, Instant};

use tenure::{Coordinator, ErrorKind, FencingToken, Result, TokenGate};
use tenure_conformance::server::{
    Place,
    etcd::{Release, Setup},
    zookeeper::{self, Copied},
};
use tenure_tests::on_etcd::restore;

const TTL: Duration = Duration::from_secs(4);

async fn connect(url: &str, base: u64) -> Result<Coordinator> {
    tenure::connect(&format!("{url}&token_base={base}")).await
}

/// What the resource does with each of so many holders, one after the other. Returns the last token.
async fn work(users: &Coordinator, gate: &TokenGate, rounds: usize) -> FencingToken {
    let mut last = FencingToken::new(0);
    for _ in 0..rounds {
        let guard = users.lock("invoices").await.expect("granted");
        gate.admit(guard.token()).unwrap_or_else(|seen| panic!("{} after {seen}", guard.token()));
        assert!(guard.token() > last);
        last = guard.token();
        guard.release().await.expect("released");
    }
    last
}

/// The highest token that the resource has seen: it keeps it.
fn highest(gate: &TokenGate) -> u64 {
    gate.admit(FencingToken::new(0)).expect_err("it has seen some").get()
}

/// Somebody whose configuration was not changed, or has a slip of the pen in it.
async fn others_are_refused(url: &str, base: u64) {
    for other in [0, base - 1, base + 1] {
        let error = connect(url, other).await.expect_err("it was let loose");
        assert_eq!(error.kind(), ErrorKind::Config);
        assert!(error.to_string().contains(&format!("this namespace has {base}")), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn from_every_backend_to_the_next_and_around_again() {
    let _alone = crate::alone().await;
    let places = Place::shared().await;
    travel(places.iter().chain(&places)).await;
}

/// The two that serve a cluster.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn from_etcd_to_zookeeper_and_back() {
    let _alone = crate::alone().await;
    let (etcd, zk) = (Place::etcd("etcd x3", 3).await, Place::zk("zk x3").await);
    travel([&etcd, &zk, &etcd, &zk]).await;
}

/// From each of them to the next, as the page says.
async fn travel(stops: impl IntoIterator<Item = &Place>) {
    let gate = TokenGate::new();
    let mut base = 1000; // so that the first one has something to be refused for
    let mut stale = FencingToken::new(0);
    for stop in stops {
        let url = stop.url("namespace=moving&ttl=10s");
        let users = connect(&url, base).await.unwrap_or_else(|error| panic!("{}: {}", stop.label, error.report()));
        others_are_refused(&url, base).await;
        let last = work(&users, &gate, 5).await;
        assert_eq!(gate.admit(stale), Err(last), "a holder that slept through the move");
        users.close().await.expect("closed");
        println!("{:8} token_base {base:5}, last token {last}", stop.label);
        stale = last;
        // All are stopped: one more lock, of any name, has a token above all that were given.
        let last_look = connect(&url, base).await.expect("as before");
        base = last_look.lock("moved").await.expect("granted").token().get();
        last_look.close().await.expect("closed");
        assert!(base > highest(&gate));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn through_a_restore_of_etcd_and_on_to_another_backend_and_back() {
    let _alone = crate::alone().await;
    let (mut etcd, gate) = (Setup::single(Release::V3_5).start().await, TokenGate::new());
    let url = format!("etcd://{}/moving?ttl={}s", etcd.hosts(), TTL.as_secs());
    let users = connect(&url, 1000).await.expect("connected");
    work(&users, &gate, 3).await;
    let file = etcd.folder().join("backup").display().to_string();
    etcd.control(&["snapshot", "save", &file]);
    let lost = work(&users, &gate, 20).await; // and this is what the backup does not know of
    users.close().await.expect("closed");
    restore(&mut etcd, &file);
    assert!(etcd.serves(Duration::from_secs(20)).await);
    let base = highest(&gate);
    assert_eq!(base, lost.get());
    let users = once_the_old_sessions_are_over(&url, base).await;
    others_are_refused(&url, base).await;
    let last = work(&users, &gate, 3).await;
    println!("etcd, restored: {lost} before, {last} after");
    users.close().await.expect("closed");
    let zk = Place::zk("zk x3").await;
    there_and_back(&gate, &[zk.url("ttl=10s"), url]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn through_a_restore_of_zookeeper_and_on_to_another_backend_and_back() {
    let _alone = crate::alone().await;
    let (mut zookeeper, gate) = (zookeeper::Setup::single().start().await, TokenGate::new());
    let url = format!("zk://{}/moving?ttl={}s", zookeeper.hosts(), TTL.as_secs());
    let users = connect(&url, 1000).await.expect("connected");
    work(&users, &gate, 3).await;
    users.close().await.expect("closed");
    zookeeper.restart_with(Copied::Kept).await;
    let users = connect(&url, 1000).await.expect("connected");
    let lost = work(&users, &gate, 20).await; // and this is what the backup does not know of
    users.close().await.expect("closed");
    zookeeper.restart_with(Copied::Restored).await;
    let old = connect(&url, 1000).await.expect("it is stored as it was");
    let again = old.lock("invoices").await.expect("granted").token();
    assert!(again < lost, "nothing was forgotten: {again} after {lost}");
    assert!(gate.admit(again).is_err(), "without a higher base tokens come again");
    old.close().await.expect("closed");
    let base = highest(&gate);
    assert_eq!(base, lost.get());
    let users = once_the_old_sessions_are_over(&url, base).await;
    others_are_refused(&url, base).await;
    let last = work(&users, &gate, 3).await;
    println!("zk, restored: {lost} before, {last} after");
    users.close().await.expect("closed");
    there_and_back(&gate, &[Place::etcd("etcd", 1).await.url("ttl=10s"), url]).await;
}

/// Each time with what the resource has seen as the base.
async fn there_and_back(gate: &TokenGate, stops: &[String]) {
    for (at, stop) in stops.iter().enumerate() {
        let base = highest(gate);
        let users = connect(stop, base).await.expect("connected");
        let last = work(&users, gate, 3).await;
        println!("stop {at}: token_base {base}, last token {last}");
        users.close().await.expect("closed");
    }
}

/// The sessions that were open when the backup was made are in it, and keep the base as it is until they expire.
async fn once_the_old_sessions_are_over(url: &str, base: u64) -> Coordinator {
    let end = Instant::now() + TTL * 4;
    loop {
        match connect(url, base).await {
            Ok(users) => return users,
            Err(error) if Instant::now() < end => {
                assert!(error.to_string().contains("stop the others first"), "{error}");
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
            Err(error) => panic!("{}", error.report()),
        }
    }
}
