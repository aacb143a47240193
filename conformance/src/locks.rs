//! Cases on [`tenure_core::Coordinator`]: what users rely on, over the backend under test.

use std::{
    num::NonZeroU32,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use tokio::time::{sleep, timeout};

use crate::{
    Harness, HarnessExt,
    coordinators::{is_busy, soon, until_queued},
    dice::Dice,
};

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
        // An entry that stays would be renewed for ever, so the bound need not be short.
        let next = timeout(harness.ttl() * 3 + harness.expiry_slack(), other.lock("x")).await;
        next.expect("an entry stays").expect("granted").release().await.expect("released");
    }
    assert!(unfinished >= 30, "{unfinished}");
    until_queued(harness, "x", 0).await;
}
