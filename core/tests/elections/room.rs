//! Handing over to one that is chosen, and preference.

use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::{SOON, TTL, World, candidate, soon};

#[tokio::test(start_paused = true)]
async fn the_leader_hands_over_by_name_and_the_others_make_room() {
    let world = World::new();
    let first = world.election().campaign("a").await.expect("won");
    let mut line = Vec::new();
    for value in ["b", "c", "d"] {
        line.push(candidate(&world, &world.election(), value).await);
    }
    let chosen = world.election().candidates().await.expect("listed").swap_remove(3);
    let token = first.token();
    timeout(SOON, first.resign_to(&chosen.id)).await.expect("soon").expect("handed over");
    let leadership = soon(line.pop().expect("d")).await;
    assert_eq!((leadership.id(), leadership.token()), (&chosen.id, chosen.token), "it did not move");
    assert!(leadership.token() > token);
    assert_eq!(world.line().await, ["d", "b", "c"]);
    leadership.resign().await.expect("resigned");
    for campaign in line {
        assert!(soon(campaign).await.token() > chosen.token);
    }
}

#[tokio::test(start_paused = true)]
async fn one_that_vanishes_is_passed_over() {
    let world = World::new();
    let first = world.election().campaign("a").await.expect("won");
    let second = candidate(&world, &world.election(), "b").await;
    let third = candidate(&world, &world.election(), "c").await;
    let chosen = world.election().candidates().await.expect("listed").swap_remove(2);
    third.abort();
    timeout(SOON, first.resign_to(&chosen.id)).await.expect("soon").expect("handed over");
    soon(second).await.resign().await.expect("resigned");
}

/// Its process has died, but its session is still there: the others wait for that to expire, and go on.
#[tokio::test(start_paused = true)]
async fn one_that_is_dead_is_waited_for_until_its_session_is_over() {
    let world = World::new();
    let first = world.election().campaign("a").await.expect("won");
    let second = candidate(&world, &world.election(), "b").await;
    let (backend, election) = world.client();
    let _third = candidate(&world, &election, "c").await;
    let chosen = world.election().candidates().await.expect("listed").swap_remove(2);
    backend.cut(true);
    timeout(TTL * 2, first.resign_to(&chosen.id)).await.expect("in time").expect("handed over");
    timeout(TTL * 2, second).await.expect("in time").expect("no panic").resign().await.expect("resigned");
}

#[tokio::test(start_paused = true)]
async fn a_leader_is_asked_to_resign_by_anybody() {
    let world = World::new();
    assert_eq!(world.election().ask_to_resign(None).await.expect("asked"), None);
    let first = world.election().campaign("a").await.expect("won");
    let line = [candidate(&world, &world.election(), "b").await, candidate(&world, &world.election(), "c").await];
    let chosen = world.election().candidates().await.expect("listed").swap_remove(2).id;
    let asking = tokio::spawn({
        let (election, chosen) = (world.election(), chosen.clone());
        async move { election.ask_to_resign(Some(&chosen)).await }
    });
    timeout(SOON, first.asked_to_resign()).await.expect("soon").expect("asked");
    assert!(!asking.is_finished(), "it has not resigned yet");
    first.resign().await.expect("resigned");
    let leader = soon(asking).await.expect("obeyed").expect("somebody leads");
    assert_eq!((leader.id, leader.value), (chosen.clone(), b"c".to_vec()));
    let [second, third] = line;
    drop(soon(third).await);
    let second = soon(second).await;
    let error = world.election().ask_to_resign(Some(&chosen)).await.expect_err("it has gone");
    assert!(error.to_string().contains("no candidate"), "{error}");
    assert!(timeout(SOON, second.asked_to_resign()).await.is_err(), "nobody asks");
}

#[tokio::test(start_paused = true)]
async fn a_preferred_candidate_asks_after_a_while_and_is_let_in() {
    let world = World::new();
    let patience = Duration::from_secs(20);
    let first = world.election().preferred(1, patience).campaign("near").await.expect("won");
    let second = candidate(&world, &world.election(), "elsewhere").await;
    let third = candidate(&world, &world.election().preferred(5, patience), "nearest").await;
    let asked = tokio::spawn(async move {
        first.asked_to_resign().await.expect("asked");
        first
    });
    sleep(patience / 2).await;
    assert!(!asked.is_finished(), "too soon");
    let first = timeout(patience, asked).await.expect("after a while").expect("no panic");
    first.resign().await.expect("resigned");
    let third = soon(third).await;
    assert_eq!(world.line().await, ["nearest", "elsewhere"]);
    // Nobody who is preferred less moves it.
    let _fourth = candidate(&world, &world.election().preferred(4, patience), "near").await;
    assert!(timeout(patience * 3, third.asked_to_resign()).await.is_err());
    third.resign().await.expect("resigned");
    // The fourth has asked, too: the second makes room for it.
    soon(_fourth).await.resign().await.expect("resigned");
    soon(second).await.resign().await.expect("resigned");
}
