//! How sessions begin and end: together, in time, and with nothing left of them.

use std::time::Duration;

use futures_util::StreamExt;
use tenure_core::{Call, Coordinator, ErrorKind, Fault, LossReason, Options, QueueName, State};
use tokio::time::{Instant, sleep, timeout};

use super::{TTL, world};

#[tokio::test(start_paused = true)]
async fn closing_loses_what_is_held_and_leaves_nothing() {
    let world = world();
    let guard = world.coordinator.lock("x").await.expect("granted");
    world.coordinator.close().await.expect("closed");
    assert_eq!(guard.lost().await, LossReason::SessionEnded);
    assert!(world.backend.entries(&QueueName::new("x").expect("good")).is_empty());
    assert!(world.coordinator.lock("x").await.expect("a fresh session").is_held());
    world.backend.expire_sessions();
    sleep(TTL).await;
    world.coordinator.close().await.expect("what has ended is closed");
}

/// Whoever closes is told, and nobody waits for the ttl.
#[tokio::test(start_paused = true)]
async fn a_session_that_could_not_be_closed_at_once_is_closed_soon() {
    let world = world();
    let _held = world.coordinator.lock("x").await.expect("granted");
    world.backend.inject(Call::Close, Fault::LoseRequest);
    let error = world.coordinator.close().await.expect_err("the first request is lost");
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    let next = timeout(Duration::from_secs(1), world.other().lock("x")).await.expect("soon");
    assert!(next.expect("granted").is_held());
}

#[tokio::test(start_paused = true)]
async fn an_unreachable_backend_is_told_within_the_connect_timeout() {
    let world = world();
    world.backend.cut(true);
    let start = Instant::now();
    assert_eq!(world.coordinator.connect().await.expect_err("cut off").kind(), ErrorKind::Unavailable);
    assert_eq!(world.coordinator.try_lock("x").await.expect_err("cut off").kind(), ErrorKind::Unavailable);
    assert!(start.elapsed() <= Duration::from_secs(11));
}

#[tokio::test(start_paused = true)]
async fn states_end_with_the_release_and_keep_nothing_alive() {
    let world = world();
    let guard = world.coordinator.lock("x").await.expect("granted");
    let (mut states, lost) = (guard.states(), tokio::spawn(guard.lost()));
    assert!(matches!(states.next().await, Some(State::Held { .. })));
    guard.release().await.expect("released");
    assert_eq!(states.next().await, None);
    let watcher = world.other();
    let before = watcher.lock("y").await.expect("granted");
    drop(world.coordinator);
    sleep(Duration::from_secs(60)).await;
    assert!(!lost.is_finished(), "a release is no loss");
    assert!(before.is_held());
    // Nobody renews what nobody has: the base can be raised only once the session has gone.
    drop((before, watcher));
    sleep(Duration::from_secs(11)).await;
    let mut options = Options::default();
    options.token_base = 5;
    let alone = Coordinator::new(world.backend.other_client(), options).expect("good options");
    alone.lock("x").await.expect("no other session is left").release().await.expect("released");
}

#[tokio::test(start_paused = true)]
async fn calls_that_never_return_are_given_up_and_repeated() {
    for call in [Call::Open, Call::SettleTokenBase, Call::Enter] {
        let world = world();
        world.backend.inject(call, Fault::Hang);
        let granted = timeout(TTL, world.coordinator.lock("x")).await;
        assert!(granted.unwrap_or_else(|_| panic!("{call:?} hangs")).expect("granted").is_held());
    }
}

#[tokio::test(start_paused = true)]
async fn many_with_little_patience_open_a_session_together() {
    let world = world();
    for _ in 0..10 {
        world.backend.inject(Call::Open, Fault::DelayReply(Duration::from_millis(400)));
    }
    let mut tries = 0;
    while timeout(Duration::from_millis(150), world.coordinator.lock("x")).await.is_err() {
        tries += 1;
        assert!(tries < 5, "each try opens a session of its own, and none gets there");
    }
}

#[tokio::test(start_paused = true)]
async fn a_refused_release_is_told_and_tried_on() {
    let world = world();
    let queue = QueueName::new("x").expect("a good name");
    let guard = world.coordinator.lock("x").await.expect("granted");
    world.backend.inject(Call::Leave, Fault::Deny);
    assert_eq!(guard.release().await.expect_err("refused").kind(), ErrorKind::Denied);
    sleep(Duration::from_secs(2)).await;
    assert!(world.backend.entries(&queue).is_empty(), "it was not tried again");
}

/// The backend has extended the session, but that was never heard: it would live on for a ttl, and nobody is to wait for that.
#[tokio::test(start_paused = true)]
async fn a_session_lost_to_its_holder_is_given_back() {
    let world = world();
    let guard = world.coordinator.lock("x").await.expect("granted");
    for _ in 0..100 {
        world.backend.inject(Call::KeepAlive, Fault::LoseReply);
    }
    let other = world.other();
    let next = tokio::spawn(async move { other.lock("x").await.expect("granted") });
    let start = Instant::now();
    assert_eq!(guard.lost().await, LossReason::Expired);
    assert!(!next.is_finished(), "before it was told");
    let next = timeout(Duration::from_millis(100), next).await.expect("granted at once").expect("no panic");
    assert!(next.token() > guard.token());
    assert!(start.elapsed() < TTL, "{:?}", start.elapsed());
}
