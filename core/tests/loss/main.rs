//! A holder knows, by its own clock and in time, that its tenure is over; and nothing revives it.

mod sessions;

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use futures_util::StreamExt;
use tenure_core::{
    Call, Coordinator, ErrorKind, Fault, LossReason, MemoryBackend, Options, QueueName, State, TestClock,
};
use tokio::time::{Instant, sleep, timeout};

const TTL: Duration = Duration::from_secs(10);
const MARGIN: Duration = Duration::from_secs(1);

struct World {
    control: TestClock,
    backend: MemoryBackend,
    coordinator: Coordinator,
}

fn world() -> World {
    let control = TestClock::new();
    let backend = MemoryBackend::with_clock(control.clock());
    let coordinator = Coordinator::new(backend.clone(), Options::default()).expect("good options");
    World { control, backend, coordinator }
}

impl World {
    fn other(&self) -> Coordinator {
        Coordinator::new(self.backend.other_client(), Options::default()).expect("good options")
    }
}

#[tokio::test(start_paused = true)]
async fn a_silent_backend_is_lost_before_anyone_else_is_granted() {
    let world = world();
    let guard = world.coordinator.lock("x").await.expect("granted");
    let start = Instant::now();
    world.backend.cut(true);
    let other = world.other();
    let next = tokio::spawn(async move { (other.lock("x").await.expect("granted"), Instant::now()) });
    assert_eq!(guard.lost().await, LossReason::Expired);
    let lost = start.elapsed();
    assert!(!guard.is_held() && guard.deadline().is_none());
    assert!(lost <= TTL - MARGIN + Duration::from_millis(200), "{lost:?}");
    let (next, granted) = next.await.expect("no panic");
    assert!(granted - start > lost, "the successor came first");
    assert!(next.token() > guard.token());
    world.backend.cut(false);
    assert_eq!(guard.release().await.expect_err("it was lost").kind(), ErrorKind::SessionLost);
}

#[tokio::test(start_paused = true)]
async fn one_lost_keep_alive_is_jeopardy_and_the_next_one_ends_it() {
    let world = world();
    let guard = world.coordinator.lock("x").await.expect("granted");
    let mut states = guard.states();
    let Some(State::Held { deadline: first }) = states.next().await else { panic!("held at first") };
    world.backend.inject(Call::KeepAlive, Fault::LoseRequest);
    assert_eq!(states.next().await, Some(State::InJeopardy { deadline: first }));
    assert!(guard.is_held());
    let Some(State::Held { deadline }) = states.next().await else { panic!("held again") };
    assert!(deadline.since_boot > first.since_boot);
    world.backend.cut(true);
    assert!(matches!(states.next().await, Some(State::InJeopardy { .. })));
    assert_eq!(states.next().await, Some(State::Lost(LossReason::Expired)));
    assert_eq!(states.next().await, None);
}

#[tokio::test(start_paused = true)]
async fn the_deadline_counts_from_the_sending_and_a_late_answer_revives_nothing() {
    let world = world();
    let guard = world.coordinator.lock("x").await.expect("granted");
    let before = guard.deadline().expect("held");
    // A keep-alive whose request is on its way for 3 s, and one whose reply is: what it gives counts from when it was sent.
    sleep(Duration::from_millis(3300)).await;
    world.backend.cut(true);
    sleep(Duration::from_secs(3)).await;
    world.backend.cut(false);
    sleep(Duration::from_millis(100)).await;
    let after = guard.deadline().expect("held");
    let moved = after.since_boot - before.since_boot;
    assert!(moved <= Duration::from_millis(3600), "counted from the reply: {moved:?}");
    // Cut past the deadline, then let the answer through: over is over.
    world.backend.cut(true);
    assert_eq!(guard.lost().await, LossReason::Expired);
    world.backend.cut(false);
    sleep(Duration::from_secs(5)).await;
    assert!(!guard.is_held());
}

/// The server has extended the session in time, but the answer arrives after the old deadline: somebody may have been told "lost".
#[tokio::test(start_paused = true)]
async fn an_answer_that_arrives_after_the_deadline_revives_nothing() {
    let world = world();
    let guard = world.coordinator.lock("x").await.expect("granted");
    let deadline = guard.deadline().expect("held");
    world.backend.inject(Call::KeepAlive, Fault::DelayReply(Duration::from_secs(2)));
    sleep(Duration::from_secs(4)).await; // it was sent after a third of the ttl, and extended the session
    let left = world.control.clock().until(deadline);
    world.control.suspend(left + Duration::from_millis(1));
    assert!(!guard.is_held());
    for _ in 0..50 {
        sleep(Duration::from_millis(100)).await;
        assert!(!guard.is_held(), "revived");
    }
}

/// As above, with the answer on the very next tick, before any timer of ours.
#[tokio::test(start_paused = true)]
async fn an_answer_right_after_a_suspend_revives_nothing() {
    let world = world();
    let guard = world.coordinator.lock("x").await.expect("granted");
    let deadline = guard.deadline().expect("held");
    // Sent at 3.333 s, answered at 3.933 s; the clock's next look is at 4 s.
    world.backend.inject(Call::KeepAlive, Fault::DelayReply(Duration::from_millis(600)));
    sleep(Duration::from_millis(3920)).await;
    assert!(guard.is_held());
    world.control.suspend(world.control.clock().until(deadline) + Duration::from_millis(1));
    for _ in 0..100 {
        assert!(!guard.is_held(), "revived");
        sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn suspend_and_reboot_end_every_tenure_at_once() {
    for jump in [|c: &TestClock| c.suspend(Duration::from_secs(3600)), TestClock::reboot] {
        let world = world();
        let guards =
            [world.coordinator.lock("a").await.expect("granted"), world.coordinator.lock("b").await.expect("granted")];
        let reader = world.coordinator.read("c").await.expect("granted");
        let polled = Arc::new(AtomicU32::new(0));
        let work = tokio::spawn({
            let polled = polled.clone();
            let guard = world.coordinator.lock("d").await.expect("granted");
            async move {
                let ticks = async {
                    loop {
                        polled.fetch_add(1, Ordering::Relaxed);
                        sleep(Duration::from_millis(10)).await;
                    }
                };
                guard.run(ticks).await
            }
        });
        sleep(Duration::from_millis(1055)).await; // off the grid of the clock's own looks
        let seen = polled.load(Ordering::Relaxed);
        assert!(seen > 50);
        jump(&world.control);
        assert!(guards.iter().all(|guard| !guard.is_held()) && !reader.is_held());
        assert_eq!(guards[0].verify().await.expect_err("over").kind(), ErrorKind::SessionLost);
        let lost = timeout(Duration::from_millis(250), work).await.expect("told at once").expect("no panic");
        assert!(lost.is_err());
        assert_eq!(polled.load(Ordering::Relaxed), seen, "the work went on after the tenure was over");
        // Nobody is locked out by what is over.
        assert!(world.coordinator.lock("a").await.expect("a fresh session").is_held());
    }
}

#[tokio::test(start_paused = true)]
async fn a_removed_entry_and_an_ended_session_are_told_within_a_second() {
    let world = world();
    let queue = QueueName::new("x").expect("a good name");
    let guard = world.coordinator.lock("x").await.expect("granted");
    sleep(Duration::from_secs(1)).await;
    guard.verify().await.expect("it stands");
    let id = world.backend.entries(&queue).remove(0);
    assert!(world.backend.remove(&queue, &id));
    assert_eq!(timeout(Duration::from_secs(1), guard.lost()).await.expect("told in time"), LossReason::Removed);
    assert!(!guard.is_held());
    assert_eq!(guard.verify().await.expect_err("gone").kind(), ErrorKind::SessionLost);
    assert_eq!(guard.release().await.expect_err("it was lost").kind(), ErrorKind::SessionLost);

    let guard = world.coordinator.lock("x").await.expect("granted again, in the same session");
    sleep(Duration::from_secs(1)).await;
    world.backend.expire_sessions();
    assert_eq!(timeout(Duration::from_secs(1), guard.lost()).await.expect("told in time"), LossReason::SessionEnded);
}

#[tokio::test(start_paused = true)]
async fn a_waiter_whose_entry_is_removed_enters_anew_and_is_never_granted_without_one() {
    let world = world();
    let queue = QueueName::new("x").expect("a good name");
    let other = world.other();
    let held = world.coordinator.lock("x").await.expect("granted");
    let waiter = tokio::spawn(async move { other.lock("x").await.expect("granted") });
    sleep(Duration::from_millis(100)).await;
    let removed = world.backend.entries(&queue).remove(1);
    world.backend.remove(&queue, &removed);
    held.release().await.expect("released");
    let guard = timeout(Duration::from_secs(1), waiter).await.expect("granted").expect("no panic");
    guard.verify().await.expect("with an entry");
    assert_eq!(world.backend.entries(&queue).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn waiters_survive_outages_longer_than_the_ttl() {
    for outage in [5, 10, 20, 100] {
        let world = world();
        let held = world.coordinator.lock("x").await.expect("granted");
        let waiters: Vec<_> = (0..20)
            .map(|_| {
                let other = world.coordinator.clone();
                tokio::spawn(async move {
                    let guard = other.lock("x").await.expect("granted");
                    let token = guard.token();
                    guard.release().await.expect("released");
                    token
                })
            })
            .collect();
        sleep(Duration::from_secs(1)).await;
        world.backend.cut(true);
        sleep(Duration::from_secs(outage)).await;
        world.backend.cut(false);
        drop(held);
        for waiter in waiters {
            timeout(Duration::from_secs(30), waiter).await.expect("every wait completes").expect("no panic");
        }
    }
}

/// A grant is made from what was seen, but only before the deadline.
#[tokio::test(start_paused = true)]
async fn nobody_is_granted_after_their_own_deadline() {
    let world = world();
    let other = world.other();
    let held = other.lock("x").await.expect("granted");
    let waiter = tokio::spawn({
        let coordinator = world.coordinator.clone();
        async move { coordinator.lock("x").await.expect("granted") }
    });
    sleep(Duration::from_millis(100)).await;
    world.backend.inject(Call::List, Fault::DelayReply(Duration::from_millis(60)));
    held.release().await.expect("released");
    sleep(Duration::from_millis(30)).await; // the waiter's turn has been read, and is on its way to it
    world.control.suspend(Duration::from_secs(60));
    let guard = timeout(Duration::from_secs(5), waiter).await.expect("in time").expect("no panic");
    assert!(guard.is_held(), "granted by a session that is over");
    guard.verify().await.expect("it stands");
}

#[tokio::test(start_paused = true)]
async fn what_verify_finds_is_a_loss_at_once() {
    let world = world();
    let queue = QueueName::new("x").expect("a good name");
    let guard = world.coordinator.lock("x").await.expect("granted");
    world.backend.remove(&queue, &world.backend.entries(&queue)[0]);
    let other = world.other().try_lock("x").await.expect("an answer").expect("granted");
    assert!(guard.verify().await.is_err());
    assert!(!guard.is_held() && other.is_held());
    assert_eq!(timeout(Duration::from_millis(1), guard.lost()).await.expect("told"), LossReason::Removed);
}

/// An `enter` that arrives late makes the entry anew that an operator has removed: that one has another token.
#[tokio::test(start_paused = true)]
async fn an_entry_made_anew_under_the_same_id_is_not_taken_for_the_first() {
    let world = world();
    let queue = QueueName::new("x").expect("a good name");
    let held = world.other().lock("x").await.expect("granted");
    world.backend.inject(Call::Enter, Fault::ApplyLate(Duration::from_secs(2)));
    world.backend.inject(Call::Wait, Fault::DelayReply(Duration::from_secs(3)));
    let waiter = tokio::spawn({
        let coordinator = world.coordinator.clone();
        async move { coordinator.lock("x").await.expect("granted") }
    });
    sleep(Duration::from_millis(500)).await;
    world.backend.remove(&queue, &world.backend.entries(&queue)[1]);
    let third = world.other();
    let third = tokio::spawn(async move { third.lock("x").await.expect("granted") });
    sleep(Duration::from_secs(5)).await;
    drop(held);
    let third = third.await.expect("no panic");
    let before = third.token();
    drop(third);
    assert!(waiter.await.expect("no panic").token() > before, "a token went back");
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_has_died_without_a_word_delays_a_grant_by_three_ttls_at_most() {
    let world = world();
    let held = world.other().lock("x").await.expect("granted");
    world.backend.inject(Call::Wait, Fault::Hang);
    let waiter = tokio::spawn({
        let coordinator = world.coordinator.clone();
        async move { coordinator.lock("x").await.expect("granted") }
    });
    sleep(Duration::from_millis(100)).await;
    drop(held);
    assert!(timeout(3 * TTL + Duration::from_secs(1), waiter).await.expect("in time").expect("no panic").is_held());
}
