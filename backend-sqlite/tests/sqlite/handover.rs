//! Hand-over between backends: in order, soon, and without polling.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use tenure_core::Wake;
use tokio::{sync::Barrier, task::JoinSet};

use crate::{backend, coordinator, id, name, opened, within};

/// Well under the regular look: what is this fast was told by a datagram.
const SOON: Duration = Duration::from_millis(500);

/// Nearly all of them, since a shared machine can be slow now and then; without datagrams most of them would not.
fn assert_mostly(limit: Duration, times: &[Duration]) {
    let late = times.iter().filter(|time| **time >= limit).count();
    assert!(late <= times.len().div_ceil(4), "{times:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_may_open_a_file_that_does_not_exist_yet() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, start) = (folder.path().join("deep/er/x.db"), Arc::new(Barrier::new(50)));
    let mut openers = JoinSet::new();
    for number in 0..50 {
        let (path, start) = (path.clone(), start.clone());
        openers.spawn(async move {
            start.wait().await;
            let coordinator = coordinator(&path).await;
            let guard = coordinator.lock(&format!("q{number}")).await.expect("granted");
            guard.token()
        });
    }
    let mut tokens: Vec<_> = within(openers.join_all()).await;
    tokens.sort();
    tokens.dedup();
    assert_eq!(tokens.len(), 50);
}

#[tokio::test]
async fn each_kind_of_waiter_is_woken_soon() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("x.db");
    let (one, two, queue) = (backend(&path).await, backend(&path).await, name("q"));
    let (holder, waiter) = (opened(&one).await.session, opened(&two).await.session);
    let watcher = opened(&two).await.session; // without an entry
    let mut times = Vec::new();
    for round in 0..5 {
        let (ahead, mine) = (id(), id());
        holder.enter(&queue, &ahead, b"").await.expect("entered");
        let seen = waiter.enter(&queue, &mine, b"").await.expect("entered").snapshot;
        let wakes = [Wake::Gone(&seen.queue[0]), Wake::Ahead(&seen.queue[1]), Wake::Any];
        let [gone, ahead_of, any] = wakes.map(|wake| within(waiter.wait(&queue, &seen, wake)));
        let [gone_beside, ahead_beside, any_beside] = wakes.map(|wake| within(watcher.wait(&queue, &seen, wake)));
        let waiting = async {
            let woken = tokio::try_join!(gone, ahead_of, any, gone_beside, ahead_beside, any_beside);
            woken.expect("woken");
            Instant::now()
        };
        let leaving = async {
            // Long enough for all to wait, and at another point of the regular look each time.
            tokio::time::sleep(Duration::from_millis(300 + 140 * round)).await;
            let left = Instant::now();
            holder.leave(&queue, &ahead).await.expect("left");
            left
        };
        let (woken, left) = tokio::join!(waiting, leaving);
        times.push(woken - left);
        waiter.leave(&queue, &mine).await.expect("left");
    }
    assert_mostly(SOON, &times);
}

/// Tasks of one process share its session.
#[tokio::test]
async fn a_waiter_for_an_entry_of_its_own_session_is_woken_soon() {
    let folder = tempfile::tempdir().expect("a folder");
    let backend = backend(&folder.path().join("x.db")).await;
    let (session, queue, mine) = (opened(&backend).await.session, name("q"), id());
    let mut times = Vec::new();
    for after in [100, 200, 300, 400, 500] {
        let seen = session.enter(&queue, &mine, b"").await.expect("entered").snapshot;
        let waiting = async {
            within(session.wait(&queue, &seen, Wake::Gone(&seen.queue[0]))).await.expect("woken");
            Instant::now()
        };
        let leaving = async {
            tokio::time::sleep(Duration::from_millis(after)).await;
            session.leave(&queue, &mine).await.expect("left");
            Instant::now()
        };
        let (woken, left) = tokio::join!(waiting, leaving);
        times.push(woken.saturating_duration_since(left));
    }
    assert_mostly(Duration::from_millis(100), &times);
}

#[tokio::test]
async fn an_observer_is_told_of_what_comes_and_what_is_written_but_not_of_other_queues() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("x.db");
    let (one, two, queue) = (backend(&path).await, backend(&path).await, name("q"));
    let (holder, observer) = (opened(&one).await.session, opened(&two).await.session);
    let (mine, mut times) = (id(), Vec::new());
    // Longer than a regular look, and then at other points of it.
    for pause in [800, 310, 470, 130] {
        let mut version = tenure_core::Version(0);
        for step in ["came", "written", "went"] {
            let seen = observer.list(&queue).await.expect("listed");
            let mut waiting = std::pin::pin!(observer.wait(&queue, &seen, Wake::Any));
            let elsewhere = async {
                holder.enter(&name("other"), &id(), b"").await.expect("entered");
                tokio::time::sleep(Duration::from_millis(pause)).await;
            };
            tokio::select! {
                _ = &mut waiting => panic!("woken by another queue before it {step}"),
                () = elsewhere => {}
            }
            let started = Instant::now();
            match step {
                "came" => version = holder.enter(&queue, &mine, b"").await.expect("entered").version,
                "written" => version = holder.write(&queue, &mine, version, b"x").await.expect("written"),
                _ => holder.leave(&queue, &mine).await.expect("left"),
            }
            within(waiting).await.expect("woken");
            times.push(started.elapsed());
        }
    }
    assert_mostly(Duration::from_millis(250), &times);
}

/// What is changed by hand comes without a datagram.
#[tokio::test]
async fn an_entry_that_an_operator_removes_is_missed_within_a_second() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("x.db");
    let coordinator = coordinator(&path).await;
    let guard = within(coordinator.lock("q")).await.expect("granted");
    tokio::time::sleep(Duration::from_millis(700)).await; // by then it watches its own entry
    let operator = rusqlite::Connection::open(&path).expect("it opens");
    let started = Instant::now();
    assert_eq!(operator.execute("DELETE FROM entries", []).expect("removed"), 1);
    within(guard.lost()).await;
    assert!(started.elapsed() < Duration::from_millis(1500), "{:?}", started.elapsed());
}

/// 200 waiters, so 200 hand-overs: with a poll of a second for each it would take minutes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_waiters_in_four_backends_are_served_in_order() {
    const WAITERS: usize = 200;
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("x.db");
    let first = coordinator(&path).await;
    let blocker = within(first.lock("q")).await.expect("granted");
    let mut coordinators = Vec::new();
    for _ in 0..4 {
        coordinators.push(coordinator(&path).await);
    }
    let (served, inside) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicUsize::new(0)));
    let mut waiters = JoinSet::new();
    for number in 0..WAITERS {
        let (coordinator, served, inside) = (coordinators[number % 4].clone(), served.clone(), inside.clone());
        waiters.spawn(async move {
            let guard = coordinator.lock("q").await.expect("granted");
            assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "alone");
            served.lock().expect("no panic").push(guard.token());
            inside.fetch_sub(1, Ordering::SeqCst);
            guard.release().await.expect("released");
        });
    }
    tokio::time::sleep(Duration::from_secs(3)).await;
    let started = Instant::now();
    blocker.release().await.expect("released");
    within(waiters.join_all()).await;
    let (taken, served) = (started.elapsed(), served.lock().expect("no panic"));
    println!("{WAITERS} hand-overs in {taken:?}");
    assert_eq!(served.len(), WAITERS);
    assert!(served.is_sorted(), "{served:?}");
    assert!(taken < Duration::from_secs(15), "{taken:?}");
}

/// A reader behind a writer, and permits that are too many, are served like everybody.
#[tokio::test]
async fn readers_and_permits_are_woken_too() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("x.db");
    let (one, two) = (coordinator(&path).await, coordinator(&path).await);
    let of = std::num::NonZeroU32::MIN;
    let permit = within(one.permit("p", of)).await.expect("granted");
    let writer = within(one.lock("r")).await.expect("granted");
    let waiting = async {
        let (reader, second) = tokio::join!(two.read("r"), two.permit("p", of));
        drop((reader.expect("granted"), second.expect("granted")));
        Instant::now()
    };
    let releasing = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        let started = Instant::now();
        permit.release().await.expect("released");
        writer.release().await.expect("released");
        started
    };
    let (woken, started) = within(async { tokio::join!(waiting, releasing) }).await;
    assert!(woken - started < SOON, "{:?}", woken - started);
}
