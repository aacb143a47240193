//! What servers grant: no less than was asked for, wherever a session goes.

use std::{
    fs,
    time::{Duration, Instant},
};

use tenure_conformance::server::zookeeper::{Setup, Zookeeper};
use tenure_core::{Backend, Clock, ErrorKind};
use tenure_tests::on_zk::{config, connect, coordinator};
use tenure_zk::ZkBackend;
use tokio::time::{sleep, timeout};

const SOON: Duration = Duration::from_secs(10);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_longer_grant_is_used_and_shown_and_a_shorter_one_refused() {
    let zookeeper = Setup::single().with(&["minSessionTimeout=5000", "maxSessionTimeout=20000"]).start().await;
    let backend = ZkBackend::connect(&config(&zookeeper.hosts(), ""), &Clock::system(), false).expect("good settings");
    for (wanted, granted) in [(1000, 3500), (3500, 3500), (10_000, 10_000), (14_000, 14_000)] {
        let opened = backend.open(Duration::from_millis(wanted)).await.expect("a session");
        let more = opened.ttl.as_millis() - granted;
        assert!(more <= 1, "{wanted} ms: {:?}", opened.ttl);
        opened.session.close().await.expect("closed");
    }
    let error = connect(&zookeeper.hosts(), "ttl=15s").await.expect_err("too long");
    println!("{}", error.report());
    assert_eq!(error.kind(), ErrorKind::Config);
    let says = [&*zookeeper.hosts(), "grants sessions of 20s at most", "write ttl = 14s or less"];
    assert!(says.iter().all(|says| error.to_string().contains(says)), "{error}");
    assert_eq!(zookeeper.operator().await.list("/n/.tenure/sessions").await.len(), 0);
}

/// A session that was moved there later would be shortened.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_server_that_grants_less_than_the_others_is_refused_when_a_session_is_opened() {
    let long = Setup::single().start().await;
    let short = Setup::single().with(&["maxSessionTimeout=4000"]).start().await;
    for hosts in [format!("{},{}", long.hosts(), short.hosts()), format!("{},{}", short.hosts(), long.hosts())] {
        let error = connect(&hosts, "ttl=5s").await.expect_err("one grants less");
        assert_eq!(error.kind(), ErrorKind::Config);
        assert!(error.to_string().contains(&format!("{} grants sessions of 4s at most", short.hosts())), "{error}");
        assert!(error.to_string().contains("write ttl = 2s 800ms or less"), "{error}");
    }
}

/// What was seen for a short session says nothing about a longer one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_is_asked_again_for_a_longer_session() {
    let long = Setup::single().start().await;
    let short = Setup::single().with(&["maxSessionTimeout=4000"]).start().await;
    let hosts = config(&format!("{},{}", long.hosts(), short.hosts()), "");
    for _ in 0..8 {
        // Each begins at one of the two, whichever.
        let backend = ZkBackend::connect(&hosts, &Clock::system(), false).expect("good settings");
        for _ in 0..2 {
            let opened = backend.open(Duration::from_secs(2)).await.expect("both grant that");
            opened.session.close().await.expect("closed");
        }
        let error = backend.open(Duration::from_secs(5)).await.expect_err("one grants less");
        assert_eq!(error.kind(), ErrorKind::Config);
        assert!(error.to_string().contains(&format!("{} grants sessions of 4s at most", short.hosts())), "{error}");
    }
}

async fn restart_with(zookeeper: &mut Zookeeper, longest: &str) {
    zookeeper.nodes[0].process.kill();
    let file = zookeeper.folder().join("n0.cfg");
    let lines = fs::read_to_string(&file).expect("it is there");
    fs::write(&file, format!("{lines}\nmaxSessionTimeout={longest}")).expect("it is ours");
    zookeeper.nodes[0].process.restart().expect("it starts");
    assert!(zookeeper.serves(SOON).await);
}

/// The server comes back with another limit. A session that went there would be gone within two seconds, while its holder trusts in six.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_would_shorten_a_session_does_not_get_it() {
    let mut zookeeper = Setup::single().start().await;
    let holder = coordinator(&zookeeper.hosts(), "ttl=6s").await;
    let guard = holder.lock("x").await.expect("granted");
    sleep(Duration::from_millis(2500)).await; // renewed by now
    restart_with(&mut zookeeper, "2000").await;
    let (start, lost) = (Instant::now(), guard.lost());
    let lost = tokio::spawn(async move {
        lost.await;
        Instant::now()
    });
    let other = coordinator(&zookeeper.hosts(), "ttl=1s").await;
    let next = timeout(SOON * 2, other.lock("x")).await.expect("it ends").expect("granted");
    let granted = Instant::now();
    assert!(lost.is_finished(), "the successor came before the loss was told");
    println!(
        "lost {:?} after the restart, succeeded after {:?}",
        lost.await.expect("no panic") - start,
        granted - start
    );
    assert!(granted - start > Duration::from_secs(3), "the session was shortened");
    assert!(next.token() > guard.token());
    let error = holder.try_lock("x").await.expect_err("it grants too little");
    assert!(error.to_string().contains("grants sessions of 2s at most"), "{}", error.report());
}

/// Until it grants enough again, in time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_waits_for_a_server_that_grants_enough() {
    let mut zookeeper = Setup::single().start().await;
    let holder = coordinator(&zookeeper.hosts(), "ttl=12s").await;
    let guard = holder.lock("x").await.expect("granted");
    restart_with(&mut zookeeper, "2000").await;
    sleep(Duration::from_secs(3)).await; // longer than it would last there
    assert!(guard.is_held());
    restart_with(&mut zookeeper, "60000").await;
    guard.verify().await.expect("it stands");
    sleep(Duration::from_secs(9)).await; // longer than a ttl in all
    guard.verify().await.expect("it stands");
    guard.release().await.expect("released");
}
