//! Seeing who leads.

use std::time::Duration;

use futures_util::{Stream, StreamExt};
use tenure_core::{Coordinator, ErrorKind, Leader, MemoryBackend, Options, Result};
use tokio::time::{sleep, timeout};

use super::{SOON, TTL, World, candidate, soon};

type Item = Result<Option<Leader>>;

/// What is told next, soon: the value, or `-` if nobody leads.
async fn next(observer: &mut (impl Stream<Item = Item> + Unpin)) -> String {
    let item = timeout(SOON, observer.next()).await.expect("soon").expect("it goes on").expect("no error");
    item.map_or("-".to_owned(), |leader| String::from_utf8(leader.value).expect("text"))
}

#[tokio::test(start_paused = true)]
async fn every_change_is_told_and_only_who_is_first() {
    let world = World::new();
    let mut observer = world.election().observe();
    assert_eq!(next(&mut observer).await, "-");
    let first = world.election().campaign("a").await.expect("won");
    assert_eq!(next(&mut observer).await, "a");
    let second = candidate(&world, &world.election(), "b").await;
    let third = candidate(&world, &world.election(), "c").await;
    third.abort();
    assert!(timeout(SOON, observer.next()).await.is_err(), "nothing has changed");
    first.update("a2").await.expect("updated");
    assert_eq!(next(&mut observer).await, "a2");
    first.resign().await.expect("resigned");
    assert_eq!(next(&mut observer).await, "b");
    drop(soon(second).await);
    assert_eq!(next(&mut observer).await, "-");
}

#[tokio::test(start_paused = true)]
async fn readers_lead_nobody_and_locks_do() {
    let world = World::new();
    let backend = world.0.other_client();
    let coordinator = Coordinator::new(backend, Options::default()).expect("good options");
    let reader = coordinator.read("x").await.expect("granted");
    assert_eq!(world.election().leader().await.expect("asked"), None);
    drop(reader);
    let guard = coordinator.lock("x").await.expect("granted");
    let leader = world.election().leader().await.expect("asked").expect("the lock");
    assert_eq!(leader.token, guard.token());
    assert!(String::from_utf8(leader.value).expect("JSON").contains("\"pid\""));
}

#[tokio::test(start_paused = true)]
async fn an_observer_survives_outages_and_lost_sessions_and_ends_with_the_truth() {
    let world = World::new();
    let (backend, election) = world.client();
    let first = world.election().campaign("a").await.expect("won");
    let mut observer = election.observe();
    assert_eq!(next(&mut observer).await, "a");
    backend.cut(true);
    first.resign().await.expect("resigned");
    let second = world.election().campaign("b").await.expect("won");
    assert!(timeout(TTL * 3, observer.next()).await.is_err(), "it cannot know");
    backend.cut(false);
    let told = timeout(TTL, observer.next()).await.expect("once it is back").expect("it goes on").expect("no error");
    assert_eq!(told.expect("somebody leads").token, second.token());
    world.0.expire_sessions();
    let third = timeout(TTL * 2, world.election().campaign("c")).await.expect("free").expect("won");
    let mut last = None;
    while let Ok(Some(item)) = timeout(Duration::from_secs(5), observer.next()).await {
        last = item.expect("no error");
    }
    assert_eq!(last.expect("somebody leads").token, third.token());
}

#[tokio::test(start_paused = true)]
async fn fifty_observers_see_ordered_parts_of_the_same_story() {
    let world = World::new();
    let story: Vec<_> = (0..30).map(|number| format!("leader-{number}")).collect();
    let observers: Vec<_> = (0..50)
        .map(|_| {
            let (mut observer, end) = (world.election().observe(), story[29].clone());
            tokio::spawn(async move {
                let mut tokens = Vec::new();
                while let Some(item) = observer.next().await {
                    let Some(leader) = item.expect("no error") else { continue };
                    tokens.push(leader.token);
                    if leader.value == end.as_bytes() {
                        break;
                    }
                }
                tokens
            })
        })
        .collect();
    let mut last = None;
    for value in &story {
        drop(last.take());
        last = Some(world.election().campaign(value).await.expect("won"));
        sleep(Duration::from_millis(20)).await;
    }
    let last = last.expect("thirty").token();
    for observer in observers {
        let tokens = soon(observer).await;
        assert!(tokens.is_sorted() && tokens.last() == Some(&last), "{tokens:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_bad_name_is_told_once_and_ends_it() {
    let coordinator = Coordinator::new(MemoryBackend::new(), Options::default()).expect("good options");
    let mut observer = coordinator.election("").observe();
    assert_eq!(observer.next().await.expect("told").expect_err("empty").kind(), ErrorKind::Config);
    assert!(observer.next().await.is_none());
}
