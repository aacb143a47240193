//! Who has led when, and why that ended.

use std::time::Duration;

use tenure_core::{Call, Coordinator, Election, Fault, Options, TermNote, TermRecord};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::{SOON, TTL, World, candidate, soon};

async fn history(world: &World) -> Vec<TermRecord> {
    world.election().history().await.expect("told")
}

/// The reason that was noted last, or `-` while the term goes on, or `?` if it ended unseen.
async fn ends(world: &World) -> Vec<String> {
    let note = |term: TermRecord| match term.end {
        None => "-".to_owned(),
        Some(TermNote::Noted { why, .. }) => why,
        Some(_) => "?".to_owned(),
    };
    history(world).await.into_iter().map(note).collect()
}

async fn until_begun(world: &World, count: usize) {
    let begun = async {
        while history(world).await.len() < count {
            sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(SOON, begun).await.expect("it is noted soon");
}

#[tokio::test(start_paused = true)]
async fn terms_are_noted_with_their_ends_and_what_ended_unseen_by_the_next_one() {
    let world = World::new();
    let world = &world;
    let election = |value| async move { world.election().with_history().campaign(value).await.expect("won") };
    let first = election("a").await;
    until_begun(world, 1).await;
    assert_eq!(ends(world).await, ["-"]);
    let token = first.token();
    first.resign_because("it is done").await.expect("resigned");
    let second = election("b").await;
    until_begun(world, 2).await;
    drop(second); // without a word
    let third = election("c").await;
    until_begun(world, 3).await;
    assert_eq!(ends(world).await, ["it is done", "?", "-"]);
    let all = history(world).await;
    assert_eq!((all[0].token, &*all[0].value, all[0].pid), (token, "a", std::process::id()));
    assert_eq!(all[1].end, Some(TermNote::Unseen { before: third.token() }));
    assert!(all.windows(2).all(|pair| pair[0].token < pair[1].token));
}

/// A resignation right after the grant, before the beginning could be noted.
#[tokio::test(start_paused = true)]
async fn the_shortest_term_is_noted_too() {
    let world = World::new();
    let leadership = world.election().with_history().campaign("a").await.expect("won");
    leadership.resign().await.expect("resigned");
    assert_eq!(ends(&world).await, ["it has resigned"]);
}

#[tokio::test(start_paused = true)]
async fn bodies_that_run_say_why_they_ended() {
    let world = World::new();
    let (stop, told) = (CancellationToken::new(), CancellationToken::new());
    let (election, mut bodies) = (world.election().with_history(), 0);
    let running = tokio::spawn({
        let (stop, told) = (stop.clone(), told.clone());
        async move {
            let body = |term: tenure_core::Term| {
                bodies += 1;
                let (returns, told) = (bodies == 1, told.clone());
                async move {
                    tokio::select! {
                        () = told.cancelled(), if returns => {}
                        () = term.ended() => {}
                    }
                }
            };
            election.run("a", stop, body).await.expect("it ends by itself");
        }
    });
    until_begun(&world, 1).await;
    told.cancel();
    sleep(TTL).await;
    until_begun(&world, 2).await;
    let next = candidate(&world, &world.election(), "b").await;
    world.election().ask_to_resign(None).await.expect("asked");
    soon(next).await.resign().await.expect("resigned");
    until_begun(&world, 3).await;
    stop.cancel();
    soon(running).await;
    assert_eq!(ends(&world).await, ["the body has returned", "it was asked to resign", "it was told to stop"]);
}

/// It can neither begin late nor end late for the sake of the history.
#[tokio::test(start_paused = true)]
async fn a_history_that_cannot_be_written_is_in_nobodys_way() {
    let world = World::new();
    for fault in [Fault::Hang, Fault::Deny, Fault::LoseRequest, Fault::LoseReply] {
        for call in [Call::Get, Call::Edit] {
            let (backend, election) = world.client();
            for _ in 0..4 {
                backend.inject(call, fault);
            }
            let start = Instant::now();
            let election: Election = election.with_history();
            let leadership = election.campaign("a").await.expect("won");
            assert!(start.elapsed() < SOON, "{fault:?}");
            let start = Instant::now();
            leadership.resign().await.expect("resigned");
            assert!(start.elapsed() < Duration::from_millis(600), "{call:?} {fault:?}: {:?}", start.elapsed());
        }
    }
    let leadership = world.election().with_history().campaign("a").await.expect("won");
    until_begun(&world, 1).await;
    leadership.resign().await.expect("resigned");
    assert_eq!(ends(&world).await.pop().expect("one"), "it has resigned");
}

#[tokio::test(start_paused = true)]
async fn only_those_who_keep_it_are_in_it_and_it_is_in_no_queue() {
    let world = World::new();
    world.election().campaign("a").await.expect("won").resign().await.expect("resigned");
    assert_eq!(history(&world).await, []);
    let leadership = world.election().with_history().campaign("b").await.expect("won");
    until_begun(&world, 1).await;
    assert_eq!(world.line().await, ["b"]);
    let coordinator = Coordinator::new(world.0.other_client(), Options::default()).expect("good options");
    assert_eq!(coordinator.data("x").expect("a good name").get("history").await.expect("read"), None, "it is ours");
    drop(leadership);
}
