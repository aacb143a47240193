//! Cases on [`Coordinator`]: what users rely on, over the backend under test.

use std::{
    num::NonZeroU32,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use tenure_core::{Backend, Coordinator, ErrorKind, LossReason, Result, Wake};
use tokio::time::{sleep, timeout};

use crate::{
    Harness, HarnessExt,
    dice::Dice,
    flaky::{Flaky, Odds},
    queue,
};

const SOON: Duration = Duration::from_millis(900);

async fn soon<T>(what: &str, work: impl Future<Output = Result<T>>) -> T {
    timeout(SOON, work).await.unwrap_or_else(|_| panic!("not in time: {what}")).expect(what)
}

async fn is_busy(coordinator: &Coordinator, name: &str) -> bool {
    coordinator.try_lock(name).await.expect("an answer").is_none()
}

/// Until so many entries stand in the queue.
async fn until_queued(harness: &dyn Harness, name: &str, entries: usize) {
    let session = harness.client().await.open(harness.ttl() * 10).await.expect("a session").session;
    let queued = async {
        loop {
            let seen = session.list(&queue(name)).await.expect("listed");
            if seen.queue.len() == entries {
                break;
            }
            let _ = timeout(Duration::from_millis(100), session.wait(&queue(name), &seen, Wake::Any)).await;
        }
    };
    timeout(harness.ttl() * 2 + harness.expiry_slack(), queued)
        .await
        .unwrap_or_else(|_| panic!("never {entries} in {name}"));
    session.close().await.expect("closed");
}

fn of(limit: u32) -> NonZeroU32 {
    NonZeroU32::new(limit).expect("not zero")
}

/// Lock, hand-over by release and by drop, and try.
pub async fn a_lock_excludes_and_hands_over(harness: &dyn Harness) {
    let (first, second) = (harness.coordinator().await, harness.coordinator().await);
    let guard = first.lock("x").await.expect("granted");
    assert!(guard.is_held() && is_busy(&second, "x").await);
    guard.verify().await.expect("it stands");
    let waiter = tokio::spawn({
        let second = second.clone();
        async move { second.lock("x").await }
    });
    until_queued(harness, "x", 2).await;
    guard.release().await.expect("released");
    let guard = soon("by release", async { waiter.await.expect("no panic") }).await;
    let waiter = tokio::spawn({
        let first = first.clone();
        async move { first.lock("x").await }
    });
    until_queued(harness, "x", 2).await;
    drop(guard);
    let guard = soon("by drop", async { waiter.await.expect("no panic") }).await;
    guard.release().await.expect("released");
    assert!(!is_busy(&second, "x").await);
}

/// First in, first out.
pub async fn waiters_are_served_in_order_with_rising_tokens(harness: &dyn Harness) {
    let coordinators = [harness.coordinator().await, harness.coordinator().await, harness.coordinator().await];
    let guard = coordinators[0].lock("x").await.expect("granted");
    let served = Arc::new(std::sync::Mutex::new(vec![(0, guard.token())]));
    let mut waiters = Vec::new();
    for place in 1..=9 {
        let (coordinator, served) = (coordinators[place % 3].clone(), served.clone());
        waiters.push(tokio::spawn(async move {
            let guard = coordinator.lock("x").await.expect("granted");
            served.lock().expect("no panic").push((place, guard.token()));
            guard.release().await.expect("released");
        }));
        until_queued(harness, "x", place + 1).await;
    }
    guard.release().await.expect("released");
    for waiter in waiters {
        timeout(Duration::from_secs(10), waiter).await.expect("served").expect("no panic");
    }
    let served = served.lock().expect("no panic").clone();
    assert!(served.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 < pair[1].1), "{served:?}");
}

/// What a lock is for.
pub async fn a_hundred_contenders_lose_no_update(harness: &dyn Harness) {
    let coordinators = [
        harness.coordinator().await,
        harness.coordinator().await,
        harness.coordinator().await,
        harness.coordinator().await,
    ];
    let counter = Arc::new(AtomicU32::new(0));
    let mut tasks = Vec::new();
    for number in 0..100 {
        let (coordinator, counter) = (coordinators[number % 4].clone(), counter.clone());
        tasks.push(tokio::spawn(async move {
            let guard = coordinator.lock("x").await.expect("granted");
            let seen = counter.load(Ordering::SeqCst);
            tokio::task::yield_now().await;
            counter.store(seen + 1, Ordering::SeqCst);
            guard.release().await.expect("released");
        }));
    }
    for task in tasks {
        task.await.expect("no panic");
    }
    assert_eq!(counter.load(Ordering::SeqCst), 100);
}

/// Tries that fail are not in anybody's way.
pub async fn a_try_that_is_refused_leaves_nothing(harness: &dyn Harness) {
    let (first, second, third) =
        (harness.coordinator().await, harness.coordinator().await, harness.coordinator().await);
    let guard = first.lock("x").await.expect("granted");
    let tries = tokio::spawn({
        let second = second.clone();
        async move {
            for _ in 0..50 {
                assert!(is_busy(&second, "x").await);
                assert!(second.try_read("x").await.expect("an answer").is_none());
                assert!(second.try_permit("x", of(9)).await.expect("an answer").is_none());
            }
        }
    });
    tries.await.expect("no panic");
    guard.release().await.expect("released");
    soon("after refused tries", third.lock("x")).await.release().await.expect("released");
}

/// Not re-entrant, not shared within a process.
pub async fn two_tasks_on_one_coordinator_exclude_each_other(harness: &dyn Harness) {
    let coordinator = harness.coordinator().await;
    let guard = coordinator.lock("x").await.expect("granted");
    assert!(is_busy(&coordinator, "x").await);
    let waiter = tokio::spawn({
        let coordinator = coordinator.clone();
        async move { coordinator.lock("x").await }
    });
    until_queued(harness, "x", 2).await;
    assert!(!waiter.is_finished());
    let token = guard.token();
    drop(guard);
    let next = soon("the other task", async { waiter.await.expect("no panic") }).await;
    assert!(next.token() > token);
}

/// `a` and `a/b` are strangers.
pub async fn names_that_look_alike_do_not_meet(harness: &dyn Harness) {
    let coordinator = harness.coordinator().await;
    let mut held = Vec::new();
    for name in ["a", "a/b", "a/b/c", "a/", "ab", "A", "..", "."] {
        held.push(soon(name, coordinator.lock(name)).await);
    }
    assert!(held.iter().all(|guard| guard.is_held()));
}

/// A waiting writer is not overtaken by readers.
pub async fn readers_share_and_writers_do_not(harness: &dyn Harness) {
    let (first, second) = (harness.coordinator().await, harness.coordinator().await);
    let readers = [soon("a reader", first.read("x")).await, soon("another", second.read("x")).await];
    assert!(is_busy(&second, "x").await);
    let writer = tokio::spawn({
        let second = second.clone();
        async move { second.lock("x").await }
    });
    until_queued(harness, "x", 3).await;
    assert!(first.try_read("x").await.expect("an answer").is_none(), "a reader overtook a waiting writer");
    drop(readers);
    let writer = soon("the writer", async { writer.await.expect("no panic") }).await;
    let readers: Vec<_> = [&first, &second, &first]
        .into_iter()
        .map(|coordinator| {
            let coordinator = coordinator.clone();
            tokio::spawn(async move { coordinator.read("x").await })
        })
        .collect();
    until_queued(harness, "x", 4).await;
    drop(writer);
    for reader in readers {
        soon("all readers", async { reader.await.expect("no panic") }).await.verify().await.expect("they share");
    }
}

/// Permits.
pub async fn permits_admit_so_many_and_the_smallest_limit_counts(harness: &dyn Harness) {
    let coordinator = harness.coordinator().await;
    let (inside, most, served) =
        (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let mut tasks = Vec::new();
    for number in 0..12 {
        let (inside, most, served) = (inside.clone(), most.clone(), served.clone());
        let coordinator = if number % 2 == 0 { coordinator.clone() } else { harness.coordinator().await };
        tasks.push(tokio::spawn(async move {
            let permit = coordinator.permit("x", of(3)).await.expect("granted");
            most.fetch_max(inside.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            sleep(Duration::from_millis(30)).await;
            inside.fetch_sub(1, Ordering::SeqCst);
            served.fetch_add(1, Ordering::SeqCst);
            permit.release().await.expect("released");
        }));
    }
    for task in tasks {
        task.await.expect("no panic");
    }
    assert_eq!((most.load(Ordering::SeqCst), served.load(Ordering::SeqCst)), (3, 12));
    for leaver in 0..3 {
        let mut held = Vec::new();
        for _ in 0..3 {
            held.push(coordinator.permit("z", of(3)).await.expect("granted"));
        }
        let waiter = tokio::spawn({
            let coordinator = coordinator.clone();
            async move { coordinator.permit("z", of(3)).await }
        });
        until_queued(harness, "z", 4).await;
        held.remove(leaver).release().await.expect("released");
        drop(soon("whichever of them leaves", async { waiter.await.expect("no panic") }).await);
    }
    let held = [
        coordinator.permit("y", of(5)).await.expect("granted"),
        coordinator.permit("y", of(2)).await.expect("granted"),
    ];
    assert!(
        coordinator.try_permit("y", of(5)).await.expect("an answer").is_none(),
        "one of the holders asked for at most 2"
    );
    assert!(is_busy(&coordinator, "y").await);
    drop(held);
}

/// In the middle of a queue.
pub async fn a_waiter_that_gives_up_leaves_nothing(harness: &dyn Harness) {
    let (first, second, third) =
        (harness.coordinator().await, harness.coordinator().await, harness.coordinator().await);
    let guard = first.lock("x").await.expect("granted");
    let gives_up = tokio::spawn(async move { timeout(Duration::from_millis(400), second.lock("x")).await.is_err() });
    until_queued(harness, "x", 2).await;
    let waits = tokio::spawn(async move { third.lock("x").await });
    until_queued(harness, "x", 3).await;
    assert!(gives_up.await.expect("no panic"));
    until_queued(harness, "x", 2).await;
    assert!(!waits.is_finished());
    drop(guard);
    drop(soon("the one behind", async { waits.await.expect("no panic") }).await);
}

/// At random moments, with the session alive.
pub async fn a_cancelled_lock_leaves_nothing_at_any_time(harness: &dyn Harness) {
    let (cancelled, other) = (harness.coordinator().await, harness.coordinator().await);
    cancelled.connect().await.expect("connected");
    let dice = Dice::new(7);
    let mut unfinished = 0;
    for round in 0..60 {
        let held = if round % 2 == 0 { Some(other.lock("x").await.expect("granted")) } else { None };
        let granted = timeout(Duration::from_micros(dice.roll(4000)), cancelled.lock("x")).await;
        unfinished += u32::from(granted.is_err());
        drop((held, granted));
        soon("a newcomer", other.lock("x")).await.release().await.expect("released");
    }
    assert!(unfinished >= 30, "{unfinished}");
    until_queued(harness, "x", 0).await;
}

/// Network cut, in silence.
pub async fn a_silent_backend_is_lost_before_the_next_grant(harness: &dyn Harness) {
    let client = Flaky::new(harness.client().await, 1, Odds::NONE);
    let (first, second) = (harness.coordinator_over(client.clone()), harness.coordinator().await);
    let guard = first.lock("x").await.expect("granted");
    let deadline = {
        client.cut(true);
        let clock = client.clock().clone();
        let lost = guard.lost();
        tokio::spawn(async move { (lost.await, clock.now()) })
    };
    let limit = harness.ttl() * 3 + harness.expiry_slack();
    let next = timeout(limit, second.lock("x")).await.expect("taken over").expect("granted");
    let granted = client.clock().now();
    assert!(deadline.is_finished() && !guard.is_held(), "the successor came before the loss was told");
    let (reason, lost) = deadline.await.expect("no panic");
    assert_eq!(reason, LossReason::Expired);
    assert!(lost.since_boot < granted.since_boot && next.token() > guard.token());
    client.cut(false);
    next.verify().await.expect("it stands");
}

/// No revival; the coordinator goes on with a fresh session.
pub async fn a_lost_lock_stays_lost_and_the_next_one_is_fresh(harness: &dyn Harness) {
    let client = Flaky::new(harness.client().await, 1, Odds::NONE);
    let coordinator = harness.coordinator_over(client.clone());
    let guard = coordinator.lock("x").await.expect("granted");
    client.cut(true);
    timeout(harness.ttl() * 3, guard.lost()).await.expect("told");
    client.cut(false);
    let fresh = timeout(harness.ttl() * 3 + harness.expiry_slack(), coordinator.lock("x"))
        .await
        .expect("in time")
        .expect("granted");
    assert!(!guard.is_held() && fresh.is_held() && fresh.token() > guard.token());
    assert_eq!(guard.release().await.expect_err("it was lost").kind(), ErrorKind::SessionLost);
    fresh.verify().await.expect("releasing the old one did not touch the new one");
}

/// By an operator, while held.
pub async fn a_removed_entry_is_told_within_a_second(harness: &dyn Harness) {
    let (first, second) = (harness.coordinator().await, harness.coordinator().await);
    let guard = first.lock("x").await.expect("granted");
    sleep(Duration::from_millis(800)).await; // it watches its entry from half a second on
    let session = harness.client().await.open(harness.ttl() * 10).await.expect("a session").session;
    let entry = session.list(&queue("x")).await.expect("listed").queue[0].clone();
    harness.remove(&queue("x"), &entry.id).await;
    assert_eq!(timeout(Duration::from_secs(1), guard.lost()).await.expect("told in time"), LossReason::Removed);
    assert!(!guard.is_held());
    soon("the next", second.lock("x")).await.verify().await.expect("it stands");
    soon("the session lives on", first.lock("y")).await.verify().await.expect("it stands");
}

/// By an operator, while waiting: never granted without an entry.
pub async fn a_removed_waiter_enters_anew(harness: &dyn Harness) {
    let (first, second) = (harness.coordinator().await, harness.coordinator().await);
    let guard = first.lock("x").await.expect("granted");
    let waiter = tokio::spawn(async move { second.lock("x").await });
    until_queued(harness, "x", 2).await;
    let session = harness.client().await.open(harness.ttl() * 10).await.expect("a session").session;
    let entry = session.list(&queue("x")).await.expect("listed").queue[1].clone();
    harness.remove(&queue("x"), &entry.id).await;
    guard.release().await.expect("released");
    let limit = harness.ttl() * 4;
    let next = timeout(limit, waiter).await.expect("in time").expect("no panic").expect("granted");
    next.verify().await.expect("with an entry");
    assert_eq!(session.list(&queue("x")).await.expect("listed").queue.len(), 1);
}

/// An orderly end.
pub async fn closing_leaves_nothing(harness: &dyn Harness) {
    let (first, second) = (harness.coordinator().await, harness.coordinator().await);
    let guards = [first.lock("x").await.expect("granted"), first.lock("y").await.expect("granted")];
    first.close().await.expect("closed");
    assert!(guards.iter().all(|guard| !guard.is_held()));
    for name in ["x", "y"] {
        assert!(!is_busy(&second, name).await);
    }
}

/// Lost, delayed, late and hanging calls: exclusion and token order hold, and at the end nothing is in the way.
pub async fn locks_work_while_calls_fail(harness: &dyn Harness) {
    let odds = Odds { hang: 2, lateness: harness.ttl() / 2, ..Odds::BAD };
    let inside = Arc::new(std::sync::Mutex::new((0_u32, 0_u64)));
    let mut tasks = Vec::new();
    for seed in 0..4 {
        let inside = inside.clone();
        let client = Flaky::new(harness.client().await, seed + 1, odds);
        let coordinator = harness.coordinator_over(client.clone());
        tasks.push(tokio::spawn(async move {
            let mut grants = 0;
            let dice = Dice::new(seed + 100);
            let end = tokio::time::Instant::now() + Duration::from_secs(6);
            while tokio::time::Instant::now() < end {
                let patience = Duration::from_millis(50) + dice.time(Duration::from_secs(2));
                let Ok(Ok(guard)) = timeout(patience, coordinator.lock("x")).await else { continue };
                let before = {
                    let mut inside = inside.lock().expect("no panic");
                    inside.0 += 1;
                    let before = std::mem::replace(&mut inside.1, guard.token().get());
                    (inside.0, before)
                };
                assert_eq!(before.0, 1, "two holders");
                assert!(before.1 < guard.token().get(), "the token went back");
                let _ = guard.run(sleep(dice.time(Duration::from_millis(40)))).await;
                inside.lock().expect("no panic").0 -= 1;
                grants += 1;
                drop(guard);
            }
            (coordinator, client.faults(), grants)
        }));
    }
    let (mut alive, mut faults, mut grants) = (Vec::new(), 0, 0);
    for task in tasks {
        let (coordinator, failed, granted) = task.await.expect("two holders, or a token that went back");
        alive.push(coordinator); // their sessions live on: only an entry that should not be there could block now
        (faults, grants) = (faults + failed, grants + granted);
    }
    println!("{grants} grants, {faults} failed calls");
    assert!(grants >= 10 && faults >= 50, "nothing was tested: {grants} grants, {faults} faults");
    sleep(harness.ttl()).await;
    let newcomer = harness.coordinator().await;
    let granted =
        timeout(harness.ttl() * 4, newcomer.lock("x")).await.expect("nothing is in the way").expect("granted");
    granted.release().await.expect("released");
}
