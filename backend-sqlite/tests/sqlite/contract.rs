//! The clauses of the contract, one by one.

use std::time::Duration;

use tenure_core::{Backend, Clock, ErrorKind, MAX_VALUE, Session, Strength, Version, Wake};
use tenure_sqlite::SqliteBackend;

use crate::{backend, config, id, name, opened, within};

#[tokio::test]
async fn entries_stand_in_the_order_of_their_tokens_and_repeats_do_nothing_twice() {
    let folder = tempfile::tempdir().expect("a folder");
    let backend = backend(&folder.path().join("x.db")).await;
    assert_eq!(backend.strength(), Strength::Host);
    let (one, two) = (opened(&backend).await.session, opened(&backend).await.session);
    let (queue, a, b) = (name("a/b 名前"), id(), id());
    let first = one.enter(&queue, &a, b"A").await.expect("entered");
    let again = one.enter(&queue, &a, b"A").await.expect("entered");
    assert_eq!((first.token, first.version), (again.token, again.version));
    let second = two.enter(&queue, &b, b"B").await.expect("entered");
    assert!(second.token > first.token);
    let ids: Vec<_> = second.snapshot.queue.iter().map(|contender| contender.id.clone()).collect();
    assert_eq!(ids, [a.clone(), b.clone()]);
    assert_eq!(two.list(&name("a")).await.expect("listed").queue, []);

    // An entry is ours only if this session made it.
    assert_eq!(two.enter(&queue, &a, b"").await.expect_err("not ours").kind(), ErrorKind::Unexpected);
    two.leave(&queue, &a).await.expect("there is none of ours");
    assert_eq!(one.list(&queue).await.expect("listed").queue.len(), 2);
    one.leave(&queue, &a).await.expect("left");
    one.leave(&queue, &a).await.expect("left already");
    assert_eq!(one.list(&queue).await.expect("listed").queue.len(), 1);
}

#[tokio::test]
async fn values_are_written_by_version() {
    let folder = tempfile::tempdir().expect("a folder");
    let backend = backend(&folder.path().join("x.db")).await;
    let (one, two) = (opened(&backend).await.session, opened(&backend).await.session);
    let (queue, a) = (name("q"), id());
    let entered = one.enter(&queue, &a, b"1").await.expect("entered");
    let who = &entered.snapshot.queue[0];
    let next = one.write(&queue, &a, entered.version, b"2").await.expect("written");
    assert!(next > entered.version);
    assert_eq!(one.write(&queue, &a, entered.version, b"2").await.expect("a repeat"), next);
    assert_eq!(one.write(&queue, &a, entered.version, b"3").await.expect_err("old").kind(), ErrorKind::Unexpected);
    assert_eq!(one.write(&queue, &a, Version(9), b"3").await.expect_err("no such").kind(), ErrorKind::Unexpected);
    assert!(two.write(&queue, &a, next, b"3").await.is_err());
    let record = two.read(&queue, who).await.expect("read").expect("it is there");
    assert_eq!((record.token, record.version, &*record.value), (entered.token, next, &b"2"[..]));
    let large = vec![7; MAX_VALUE];
    let next = one.write(&queue, &a, next, &large).await.expect("the largest");
    assert_eq!(two.read(&queue, who).await.expect("read").expect("it is there").value, large);
    let error = one.write(&queue, &a, next, &vec![7; MAX_VALUE + 1]).await.expect_err("too large");
    assert_eq!(error.kind(), ErrorKind::Config);
    one.leave(&queue, &a).await.expect("left");
    assert!(two.read(&queue, who).await.expect("read").is_none());
}

#[tokio::test]
async fn a_closed_session_is_over_for_every_call() {
    let folder = tempfile::tempdir().expect("a folder");
    let backend = backend(&folder.path().join("x.db")).await;
    let (one, two) = (opened(&backend).await.session, opened(&backend).await.session);
    let (queue, a) = (name("q"), id());
    let seen = one.enter(&queue, &a, b"").await.expect("entered").snapshot;
    one.close().await.expect("closed");
    one.close().await.expect("closed already");
    assert_eq!(two.list(&queue).await.expect("listed").queue, []);
    every_call_is_refused(&*one, &seen).await;
}

pub(crate) async fn every_call_is_refused(session: &dyn Session, seen: &tenure_core::Snapshot) {
    let (queue, who) = (name("q"), &seen.queue[0]);
    let answers = [
        session.keep_alive().await.err(),
        session.enter(&queue, &id(), b"").await.err(),
        session.list(&queue).await.err(),
        within(session.wait(&queue, seen, Wake::Gone(who))).await.err(),
        session.leave(&queue, &who.id).await.err(),
        session.read(&queue, who).await.err(),
        session.write(&queue, &who.id, Version(1), b"").await.err(),
        session.settle_token_base(0).await.err(),
    ];
    for (call, error) in answers.into_iter().enumerate() {
        assert_eq!(error.map(|error| error.kind()), Some(ErrorKind::SessionLost), "call {call}");
    }
}

/// What was sent and given up takes effect before the leave that follows, or never.
#[tokio::test]
async fn given_up_is_dead() {
    let folder = tempfile::tempdir().expect("a folder");
    let backend = backend(&folder.path().join("x.db")).await;
    let (session, queue) = (opened(&backend).await.session, name("q"));
    for _ in 0..100 {
        let id = id();
        tokio::select! {
            biased;
            _ = session.enter(&queue, &id, b"") => {}
            () = std::future::ready(()) => {} // sent, and dropped at once
        }
        session.leave(&queue, &id).await.expect("left");
        assert_eq!(session.list(&queue).await.expect("listed").queue, []);
    }
}

#[tokio::test]
async fn namespaces_are_strangers_and_each_settles_its_own_token_base() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("x.db");
    let (shop, queue) = (backend(&path).await, name("q"));
    let mut other = config(&path);
    other.namespace = "other".to_owned();
    let other = SqliteBackend::connect(&other, &Clock::system()).await.expect("it opens");
    let (one, two) = (opened(&shop).await.session, opened(&other).await.session);
    one.enter(&queue, &id(), b"").await.expect("entered");
    let seen = two.list(&queue).await.expect("listed");
    assert_eq!(seen.queue, []);
    let waiting = tokio::time::timeout(Duration::from_millis(200), two.wait(&queue, &seen, Wake::Any));
    assert!(waiting.await.is_err(), "nothing has changed there");
    assert_eq!(one.settle_token_base(5).await.expect("settled"), 5);
    assert_eq!(two.settle_token_base(0).await.expect("settled"), 0);
    assert_eq!(one.settle_token_base(3).await.expect("never lower"), 5);
    assert_eq!(one.settle_token_base(7).await.expect("alone: raised"), 7);
    let three = opened(&shop).await.session;
    assert_eq!(three.settle_token_base(9).await.expect("not alone"), 7);
    assert_eq!(one.settle_token_base(u64::MAX).await.expect_err("too much").kind(), ErrorKind::Config);
}

#[tokio::test]
async fn a_keep_alive_counts_from_its_sending() {
    let folder = tempfile::tempdir().expect("a folder");
    let backend = backend(&folder.path().join("x.db")).await;
    let before = backend.clock().now();
    let opened = opened(&backend).await;
    assert!(opened.deadline.since_boot <= (backend.clock().now() + opened.ttl).since_boot);
    assert!(opened.deadline.since_boot >= (before + opened.ttl).since_boot);
    // A writer in the way delays the answer, not the start of the count.
    let blocker = rusqlite::Connection::open(folder.path().join("x.db")).expect("it opens");
    blocker.execute_batch("BEGIN IMMEDIATE").expect("locked");
    let before = backend.clock().now();
    let release = async {
        tokio::time::sleep(Duration::from_millis(400)).await;
        blocker.execute_batch("COMMIT").expect("unlocked");
        backend.clock().now()
    };
    let (deadline, released) = tokio::join!(opened.session.keep_alive(), release);
    let deadline = deadline.expect("extended").since_boot;
    assert!(deadline >= (before + opened.ttl).since_boot && deadline < (released + opened.ttl).since_boot);
    let stored: i64 = blocker.query_row("SELECT expires_ms FROM sessions", [], |row| row.get(0)).expect("a row");
    assert!(i128::from(stored) >= i128::try_from(deadline.as_millis()).expect("it fits"));
}

#[tokio::test]
async fn a_writer_that_was_stopped_makes_calls_unavailable_in_time_and_nothing_worse() {
    let folder = tempfile::tempdir().expect("a folder");
    let backend = backend(&folder.path().join("x.db")).await;
    let (session, queue) = (opened(&backend).await.session, name("q"));
    let blocker = rusqlite::Connection::open(folder.path().join("x.db")).expect("it opens");
    blocker.execute_batch("BEGIN IMMEDIATE").expect("locked");
    let started = std::time::Instant::now();
    let error = session.enter(&queue, &id(), b"").await.expect_err("locked");
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(started.elapsed() < Duration::from_secs(3));
    assert_eq!(session.list(&queue).await.expect("reading goes on").queue, []);
    blocker.execute_batch("ROLLBACK").expect("unlocked");
    session.enter(&queue, &id(), b"").await.expect("entered");
}
