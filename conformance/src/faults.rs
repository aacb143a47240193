//! Cases on coordinators whose calls fail, whose service is silent, or whose entries an operator removes.

use std::{sync::Arc, time::Duration};

use tenure_core::{Backend, ErrorKind, LossReason};
use tokio::time::{sleep, timeout};

use crate::{
    Harness, HarnessExt,
    coordinators::{is_busy, soon, until_queued},
    dice::Dice,
    flaky::{Flaky, Odds},
    queue,
};

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
