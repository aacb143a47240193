//! No room: a quota that is used up, and a disk.

use std::time::{Duration, Instant};

use tenure_conformance::{
    proxy::{Mode as Proxied, Proxy},
    queue,
    server::etcd::{Etcd, Release, Setup},
};
use tenure_core::{ContenderId, ErrorKind, Mode};
use tenure_tests::{
    mount::Mount,
    on_etcd::{coordinator, entries, session, until_queued},
};
use tokio::time::{sleep, timeout};

/// Writes until nothing more can be written.
fn fill(etcd: &Etcd) {
    let file = etcd.folder().join("large");
    std::fs::write(&file, vec![b'x'; 1 << 20]).expect("written");
    let put = || {
        let input = std::fs::File::open(&file).expect("it is there");
        etcd.etcdctl(&["put", "large"]).stdin(input).output().expect("it runs").status.success()
    };
    assert!((0..40).any(|_| !put()), "it is never full");
}

/// As its manual says.
fn make_room(etcd: &Etcd) {
    let status = etcd.control(&["endpoint", "status", "--write-out=json"]);
    let revision =
        status.split("\"revision\":").nth(1).and_then(|rest| rest.split([',', '}']).next()).expect("a revision");
    etcd.control(&["del", "large"]);
    etcd.control(&["compact", "--physical", revision]);
    etcd.control(&["defrag"]);
    etcd.control(&["alarm", "disarm"]);
}

/// A quota that is used up keeps out what enters, and nothing else.
async fn holders_go_on(release: Release) {
    let etcd = Setup::single(release).with(&["--quota-backend-bytes=16777216"]).start().await;
    let user = coordinator(&etcd.hosts(), "ttl=3s&connect_timeout=2s").await;
    let passing = coordinator(&etcd.hosts(), "ttl=30s&connect_timeout=2s").await;
    passing.lock("w").await.expect("granted").release().await.expect("released");
    let guard = user.lock("x").await.expect("granted");
    let held = user.lock("y").await.expect("granted");
    fill(&etcd);
    let error = user.try_lock("z").await.expect_err("there is no room");
    println!("{}", error.report());
    assert!(error.kind() == ErrorKind::Unavailable && error.to_string().contains("full"), "{error}");
    let waits = tokio::spawn({
        let user = user.clone();
        async move { user.lock("x").await }
    });
    timeout(Duration::from_secs(1), passing.lock("x")).await.expect_err("there is no room");
    let start = Instant::now();
    passing.close().await.expect("closed, with nothing left in doubt");
    assert!(start.elapsed() < Duration::from_secs(1), "closed after {:?}", start.elapsed());
    sleep(Duration::from_secs(4)).await; // longer than the ttl
    assert!(guard.is_held() && held.is_held(), "a full database ends no session");
    held.verify().await.expect("reading needs no room");
    timeout(Duration::from_secs(1), guard.release()).await.expect("releasing needs no room").expect("released");
    assert_eq!(entries(&etcd, "x"), [""; 0]);
    make_room(&etcd);
    let next = timeout(Duration::from_secs(10), waits).await.expect("it goes on").expect("no panic").expect("granted");
    next.release().await.expect("released");
    assert!(held.is_held());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_database_keeps_holders_and_goes_on_once_there_is_room() {
    holders_go_on(Release::Packaged).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_database_of_3_5_keeps_holders_and_goes_on_once_there_is_room() {
    holders_go_on(Release::V3_5).await;
}

/// What was entered without an answer goes at once; that it cannot come back is certain only once there is room.
async fn what_is_in_doubt_goes(release: Release) {
    let etcd = Setup::single(release).with(&["--quota-backend-bytes=16777216"]).start().await;
    let proxy = Proxy::start(etcd.nodes[0].client).await.expect("a proxy");
    let session = session(&proxy.address().to_string(), Duration::from_secs(8)).await.session;
    let (name, id) = (queue("x"), ContenderId::random(Mode::Write));
    session.list(&name).await.expect("connected");
    proxy.set(Proxied::DropReplies);
    let error = session.enter(&name, &id, b"").await.expect_err("the answer is lost");
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    proxy.set(Proxied::Pass);
    until_queued(&etcd, "x", 1).await;
    fill(&etcd);
    session.keep_alive().await.expect("kept");
    let error = session.leave(&name, &id).await.expect_err("there is no room to be certain");
    assert!(error.kind() == ErrorKind::Unavailable && error.to_string().contains("full"), "{error}");
    assert!(session.list(&name).await.expect("listed").queue.is_empty(), "nobody is in the way");
    make_room(&etcd);
    session.leave(&name, &id).await.expect("left for good");
    session.enter(&name, &ContenderId::random(Mode::Write), b"").await.expect("entered");
    session.close().await.expect("closed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_entry_in_doubt_is_removed_from_a_full_database() {
    what_is_in_doubt_goes(Release::Packaged).await;
    what_is_in_doubt_goes(Release::V3_5).await;
}

/// A server whose disk is full ends; what is held is over by its deadline, and all goes on once there is room and it runs again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_ends_tenures_in_time_and_nothing_else() {
    for release in [Release::Packaged, Release::V3_5] {
        let folder = tempfile::tempdir().expect("a folder");
        let mount = Mount::new(&folder.path().join("small"), "size=160m"); // a log alone takes 64 or 128
        let data = format!("--data-dir={}", mount.path().join("data").display());
        let mut etcd = Setup::single(release).with(&[&data]).start().await;
        let user = coordinator(&etcd.hosts(), "ttl=3s&connect_timeout=2s").await;
        let guard = user.lock("x").await.expect("granted");
        let filler = mount.path().join("filler");
        let _ = std::fs::write(&filler, vec![7; 160 << 20]).expect_err("more than fits");
        let start = Instant::now();
        while !etcd.nodes[0].process.has_ended() {
            assert!(start.elapsed() < Duration::from_secs(20), "the disk is never full");
            let _ = timeout(Duration::from_secs(1), user.try_lock("y")).await;
        }
        let error = timeout(Duration::from_secs(3), user.try_lock("z")).await.expect("within the limit");
        println!("{release:?}: {}", error.expect_err("nobody serves").report());
        timeout(Duration::from_secs(3), guard.lost()).await.expect("told by the deadline");
        std::fs::remove_file(filler).expect("removed");
        etcd.nodes[0].process.restart().expect("it starts");
        let again = timeout(Duration::from_secs(20), user.lock("x")).await.expect("it goes on").expect("granted");
        assert!(again.token() > guard.token());
        again.release().await.expect("released");
        user.close().await.expect("closed");
    }
}
