//! A restore from a backup: revisions, and with them tokens, are given a second time.

use std::time::{Duration, Instant};

use tenure_conformance::{
    queue,
    server::etcd::{Etcd, Release, Setup},
};
use tenure_core::{
    ContenderId, DataKey, Edit, EditId, ErrorKind, Expect, Fence, FencingToken, LossReason, Mode, Outcome,
};
use tenure_tests::on_etcd::{connect, coordinator, restore, session};
use tokio::time::timeout;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restore_is_told_within_a_keep_alive_and_answered_by_a_token_base() {
    let mut etcd = Setup::single(Release::V3_5).start().await;
    let ttl = Duration::from_secs(12);
    let users = coordinator(&etcd.hosts(), "ttl=12s").await;
    let bare = session(&etcd.hosts(), ttl).await.session;
    let guard = users.lock("x").await.expect("granted");
    let file = etcd.folder().join("backup").display().to_string();
    etcd.control(&["snapshot", "save", &file]);
    let mut highest = guard.token();
    for _ in 0..50 {
        let guard = users.lock("y").await.expect("granted");
        highest = guard.token();
        guard.release().await.expect("released");
    }
    bare.list(&queue("x")).await.expect("listed"); // it has seen the newest revision too
    restore(&mut etcd, &file);
    assert!(etcd.serves(Duration::from_secs(10)).await);
    let back = Instant::now();
    let told = timeout(ttl / 3 + Duration::from_secs(1), guard.lost()).await.expect("told within a keep-alive");
    println!("told {:?} after the servers were back: {told}", back.elapsed());
    assert_eq!(told, LossReason::DataReplaced);
    let said = guard.verify().await.expect_err("lost").to_string();
    assert!(said.contains("the lock 'x'") && said.contains("raise token_base"), "{said}");
    let error = bare.keep_alive().await.expect_err("the data went back");
    println!("{}", error.report());
    assert!(error.kind() == ErrorKind::SessionLost && error.to_string().contains("raise token_base"), "{error}");
    for error in [
        bare.list(&queue("x")).await.expect_err("for good"),
        bare.enter(&queue("x"), &ContenderId::random(Mode::Write), b"").await.expect_err("for good"),
    ] {
        assert_eq!(error.kind(), ErrorKind::SessionLost);
    }
    bare.close().await.expect("closed");
    users.close().await.expect("closed");
    old_tokens_return_unless_the_base_is_raised(&etcd, highest, ttl).await;
}

/// For those who start afterwards.
async fn old_tokens_return_unless_the_base_is_raised(etcd: &Etcd, highest: FencingToken, ttl: Duration) {
    let fresh = coordinator(&etcd.hosts(), "ttl=12s").await;
    let repeated = timeout(ttl * 2, fresh.lock("y")).await.expect("in time").expect("granted");
    assert!(repeated.token() < highest);
    let refused = connect(&etcd.hosts(), &format!("token_base={highest}")).await.expect_err("others are there");
    assert!(refused.kind() == ErrorKind::Config && refused.to_string().contains("stop the others first"), "{refused}");
    repeated.release().await.expect("released");
    fresh.close().await.expect("closed");
    let mut raised = Err(refused);
    let end = Instant::now() + ttl * 3; // the sessions of the backup have to expire
    while raised.is_err() && Instant::now() < end {
        raised = connect(&etcd.hosts(), &format!("token_base={highest}")).await;
    }
    let raised = raised.expect("nobody else is there");
    assert!(raised.lock("y").await.expect("granted").token() > highest);
    assert!(connect(&etcd.hosts(), "").await.is_err(), "one without the base was let loose");
}

/// After a restore the number of an older grant is given again. It is no licence to write: the entry is another one, and so is the session.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_number_that_is_given_again_is_no_licence_to_write() {
    let mut etcd = Setup::single(Release::V3_5).start().await;
    let ttl = Duration::from_secs(12);
    let file = etcd.folder().join("backup").display().to_string();
    etcd.control(&["snapshot", "save", &file]);
    let old = coordinator(&etcd.hosts(), "ttl=12s").await;
    let guard = old.lock("x").await.expect("granted");
    guard.fenced().expect("it keeps data").put("k", b"old").await.expect("written");
    let bare = session(&etcd.hosts(), ttl).await.session;
    let entered = bare.enter(&queue("y"), &ContenderId::random(Mode::Write), b"").await.expect("entered");
    restore(&mut etcd, &file);
    assert!(etcd.serves(Duration::from_secs(10)).await);
    // Until somebody has the very number: a lock and its release take two.
    let fresh = coordinator(&etcd.hosts(), "ttl=12s").await;
    let mut again = fresh.lock("y").await.expect("granted");
    while again.token() < entered.token {
        let is_odd = (entered.token.get() - again.token().get()) % 2 == 1;
        again.release().await.expect("released");
        if is_odd {
            etcd.control(&["put", "one-more", ""]);
        }
        again = fresh.lock("y").await.expect("granted");
    }
    assert_eq!(again.token(), entered.token, "the number is given again");
    again.fenced().expect("it keeps data").put("k", b"new").await.expect("written");
    let (name, key, id) = (queue("y"), DataKey::new("k").expect("a key"), EditId::random());
    let thief = session(&etcd.hosts(), ttl).await.session;
    for session in [&bare, &thief] {
        let fence =
            Fence { queue: &name, entry: &entered.snapshot.queue[0], token: entered.token, raised: entered.token };
        let edit = Edit { key: &key, expect: Expect::Anything, value: Some(b"stale"), id: &id };
        let outcome = session.fenced().expect("it keeps data").edit(fence, edit).await;
        println!("number {} again, at {}: {outcome:?}", entered.token, again.token());
        assert!(!matches!(outcome, Ok(Outcome::Done(_))), "accepted");
    }
    let refused = guard.fenced().expect("it keeps data").put("k", b"stale").await.expect_err("the data went back");
    println!("the guard of before: {}", refused.report());
    let stored = fresh.data("y").expect("a name").get("k").await.expect("read").expect("there");
    assert_eq!((stored.value, stored.token), (b"new".to_vec(), again.token()));
    assert_eq!(fresh.data("x").expect("a name").get("k").await.expect("read"), None, "it is not in the backup");
    let highest = again.token();
    again.release().await.expect("released");
    fresh.close().await.expect("closed");
    with_a_base_the_tokens_beside_the_data_rise(&etcd, highest, ttl).await;
}

async fn with_a_base_the_tokens_beside_the_data_rise(etcd: &Etcd, highest: FencingToken, ttl: Duration) {
    let end = Instant::now() + ttl * 3; // the other sessions have to expire
    let raised = loop {
        match connect(&etcd.hosts(), &format!("token_base={highest}")).await {
            Ok(raised) => break raised,
            Err(error) => assert!(Instant::now() < end, "{}", error.report()),
        }
    };
    let guard = raised.lock("y").await.expect("granted");
    let data = guard.fenced().expect("it keeps data");
    data.put("k", b"newer").await.expect("written");
    let stored = data.get("k").await.expect("read").expect("there");
    assert!(stored.token == guard.token() && stored.token > highest, "{}", stored.token);
}
