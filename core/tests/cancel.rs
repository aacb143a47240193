//! A caller may go away at any await: then there is either a live guard or nothing, and a newcomer gets in at once.

use std::{
    future::Future,
    pin::pin,
    task::{Context, Waker},
    time::Duration,
};

use tenure_core::{Backend, Call, Coordinator, Fault, LockGuard, MemoryBackend, Options, QueueName, TestClock};
use tokio::time::{sleep, timeout};

const SOON: Duration = Duration::from_secs(1);

fn world() -> (MemoryBackend, Coordinator) {
    let backend = MemoryBackend::with_clock(TestClock::new().clock());
    let coordinator = Coordinator::new(backend.clone(), Options::default()).expect("good options");
    (backend, coordinator)
}

/// Polls at most `polls` times, letting everything else run for a random while in between; whether it came to its end.
async fn poll_times<F: Future>(work: F, polls: u64, dice: &mut u64) -> bool {
    let mut work = pin!(work);
    for _ in 0..polls {
        if work.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready() {
            return true;
        }
        match roll(dice, 4) {
            0 => tokio::task::yield_now().await,
            millis => sleep(Duration::from_millis(3 * millis)).await,
        }
    }
    false
}

/// A number below `sides`, by a generator that a seed repeats.
fn roll(dice: &mut u64, sides: u64) -> u64 {
    *dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*dice >> 33) % sides
}

/// Makes the next calls take a random while each.
fn slow_down(backend: &MemoryBackend, dice: &mut u64) {
    for call in [Call::Enter, Call::List, Call::Wait, Call::Leave] {
        for _ in 0..2 {
            backend.inject(call, Fault::DelayReply(Duration::from_millis(roll(dice, 12))));
        }
    }
}

/// No entry is left, a newcomer gets in at once, and the session lives: it still holds what it held before.
async fn nothing_stays(backend: &MemoryBackend, anchor: Option<&LockGuard>, what: &str) {
    let queue = QueueName::new("x").expect("a good name");
    let empty = async {
        while !backend.entries(&queue).is_empty() {
            sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(SOON, empty).await.unwrap_or_else(|_| panic!("an entry stays: {what}"));
    let newcomer = Coordinator::new(backend.other_client(), Options::default()).expect("good options");
    let granted =
        timeout(SOON, newcomer.lock("x")).await.unwrap_or_else(|_| panic!("nobody gets in: {what}")).expect("granted");
    drop(granted);
    assert!(anchor.is_none_or(|anchor| anchor.is_held()), "the session was lost: {what}");
}

#[tokio::test(start_paused = true)]
async fn lock_dropped_after_any_poll_and_in_any_call_leaves_nothing() {
    let mut unfinished = 0;
    for round in 0..500 {
        let (backend, coordinator) = world();
        let anchor = coordinator.lock("anchor").await.expect("granted");
        let mut dice = round;
        slow_down(&backend, &mut dice);
        let polls = roll(&mut dice, 7);
        if !poll_times(coordinator.lock("x"), polls, &mut dice).await {
            unfinished += 1;
        }
        nothing_stays(&backend, Some(&anchor), &format!("uncontended, round {round}, after {polls} polls")).await;
    }
    assert!(unfinished >= 200, "the sweep met real awaits: {unfinished}");
}

#[tokio::test(start_paused = true)]
async fn a_waiter_dropped_after_any_poll_or_at_its_grant_leaves_nothing() {
    for round in 0..500 {
        let (backend, coordinator) = world();
        let anchor = coordinator.lock("anchor").await.expect("granted");
        let other = Coordinator::new(backend.other_client(), Options::default()).expect("good options");
        let held = other.lock("x").await.expect("granted");
        let mut dice = round;
        slow_down(&backend, &mut dice);
        let (before, after) = (1 + roll(&mut dice, 12), roll(&mut dice, 8));
        let mut waiter = Box::pin(coordinator.lock("x"));
        assert!(!poll_times(&mut waiter, before, &mut dice).await);
        drop(held); // from here on, its grant may arrive at any of the next polls
        let _ = poll_times(&mut waiter, after, &mut dice).await;
        drop(waiter);
        nothing_stays(&backend, Some(&anchor), &format!("contended, round {round}, {before} and {after} polls")).await;
    }
}

#[tokio::test(start_paused = true)]
async fn lock_dropped_while_a_call_is_lost_late_or_hangs_leaves_nothing() {
    let faults = [Fault::LoseRequest, Fault::LoseReply, Fault::ApplyLate(Duration::from_millis(700)), Fault::Hang];
    for call in [Call::Open, Call::SettleTokenBase, Call::Enter, Call::List, Call::Wait, Call::Leave] {
        for fault in faults {
            for patience in [0, 1, 25, 60, 400] {
                let (backend, coordinator) = world();
                let other = Coordinator::new(backend.other_client(), Options::default()).expect("good options");
                let held = other.lock("x").await.expect("granted");
                backend.inject(call, fault);
                assert!(timeout(Duration::from_millis(patience), coordinator.lock("x")).await.is_err());
                drop(held);
                backend.heal();
                sleep(Duration::from_secs(8)).await; // longer than any call, shorter than the ttl of a session that nobody renews
                nothing_stays(&backend, None, &format!("{call:?} {fault:?} {patience} ms")).await;
            }
        }
    }
}

/// Contract clause 6: an `enter` that was given up must not be applied after its `leave`.
#[tokio::test(start_paused = true)]
async fn an_enter_that_arrives_late_is_dead_once_given_up() {
    let (backend, coordinator) = world();
    let anchor = coordinator.lock("anchor").await.expect("granted");
    for _ in 0..3 {
        // the first, and its retries
        backend.inject(Call::Enter, Fault::ApplyLate(Duration::from_secs(5)));
    }
    assert!(timeout(Duration::from_millis(100), coordinator.lock("x")).await.is_err());
    sleep(Duration::from_secs(6)).await;
    nothing_stays(&backend, Some(&anchor), "late duplicates of an enter that was given up").await;
}

#[tokio::test(start_paused = true)]
async fn a_refused_try_writes_nothing() {
    let (backend, coordinator) = world();
    let queue = QueueName::new("x").expect("a good name");
    let held = coordinator.lock("x").await.expect("granted");
    let watcher = backend.other_client().open(Duration::from_secs(60)).await.expect("a session").session;
    let before = watcher.list(&queue).await.expect("listed");
    assert!(coordinator.try_lock("x").await.expect("an answer").is_none());
    assert_eq!(watcher.list(&queue).await.expect("listed").revision, before.revision, "something was written");
    drop(held);
}

#[tokio::test(start_paused = true)]
async fn release_dropped_at_once_still_releases() {
    for round in 0..50 {
        let (backend, coordinator) = world();
        let anchor = coordinator.lock("anchor").await.expect("granted");
        let guard = coordinator.lock("x").await.expect("granted");
        let mut dice = round;
        slow_down(&backend, &mut dice);
        let _ = poll_times(guard.release(), round % 5, &mut dice).await;
        nothing_stays(&backend, Some(&anchor), "release dropped").await;
    }
}
