//! Handing over to one that is chosen, and preference.

use std::time::Duration;

use tenure_core::{Call, Coordinator, Fault, Options};
use tokio::time::{Instant, sleep, timeout};

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
    assert!(timeout(SOON, first.resign_to(&chosen.id)).await.expect("soon").expect("handed over"), "it leads");
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
    assert!(!timeout(SOON, first.resign_to(&chosen.id)).await.expect("soon").expect("resigned"), "it has gone");
    soon(second).await.resign().await.expect("resigned");
}

/// A lock makes no room for anybody.
#[tokio::test(start_paused = true)]
async fn one_that_vanishes_while_another_one_leads_is_missed_at_once() {
    let world = World::new();
    let first = world.election().campaign("a").await.expect("won");
    let other = Coordinator::new(world.0.other_client(), Options::default()).expect("good options");
    let lock = tokio::spawn(async move { other.lock("x").await.expect("granted") });
    sleep(SOON).await;
    let third = candidate(&world, &world.election(), "c").await;
    let chosen = world.election().candidates().await.expect("listed").swap_remove(2).id;
    let handing_over = tokio::spawn(async move { first.resign_to(&chosen).await });
    let lock = soon(lock).await;
    sleep(SOON).await;
    assert!(!handing_over.is_finished(), "it waits for the lock");
    third.abort();
    assert!(!soon(handing_over).await.expect("resigned"), "it has gone");
    assert!(lock.is_held());
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
    let leads = timeout(TTL * 2, first.resign_to(&chosen.id)).await.expect("in time").expect("handed over");
    assert!(leads, "nobody knows yet that it is dead");
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

/// Who asks puts a new request in the place of the old one when it sees another one lead. That one has listed the old one only, and finds
/// that it is gone.
#[tokio::test(start_paused = true)]
async fn a_request_that_is_replaced_while_it_is_read_is_heard() {
    let world = World::new();
    let first = world.election().campaign("a").await.expect("won");
    let (slow, election) = world.client();
    let second = candidate(&world, &election, "b").await;
    let third = candidate(&world, &world.election(), "c").await;
    let chosen = world.election().candidates().await.expect("listed").swap_remove(2).id;
    let asking = tokio::spawn({
        let (election, chosen) = (world.election(), chosen.clone());
        async move { election.ask_to_resign(Some(&chosen)).await }
    });
    timeout(SOON, first.asked_to_resign()).await.expect("soon").expect("asked");
    slow.inject(Call::Read, Fault::LoseRequest); // it is read once more, later
    first.resign().await.expect("resigned");
    let third = soon(third).await;
    assert_eq!(third.id(), &chosen);
    assert!(!second.is_finished(), "it has made room before it came into office");
    assert_eq!(soon(asking).await.expect("obeyed").expect("somebody leads").id, chosen);
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

/// Twenty ask, and each request takes a second to be read.
#[tokio::test(start_paused = true)]
async fn many_requests_are_read_side_by_side() {
    const ASKING: usize = 20;
    let world = World::new();
    let (backend, election) = world.client();
    let first = election.preferred(0, Duration::ZERO).campaign("a").await.expect("won");
    let mut line = Vec::new();
    for _ in 0..ASKING {
        line.push(candidate(&world, &world.election().preferred(5, Duration::ZERO), "b").await);
    }
    sleep(SOON).await;
    for _ in 0..ASKING {
        backend.inject(Call::Read, Fault::DelayReply(Duration::from_secs(1)));
    }
    timeout(Duration::from_secs(2), first.asked_to_resign()).await.expect("a second").expect("asked");
}

#[tokio::test(start_paused = true)]
async fn a_preferred_candidate_that_comes_and_goes_moves_nothing() {
    let world = World::new();
    let patience = Duration::from_secs(20);
    let first = world.election().preferred(0, patience).campaign("steady").await.expect("won");
    let coming_and_going = async {
        for _ in 0..10 {
            let fickle = candidate(&world, &world.election().preferred(5, patience), "fickle").await;
            sleep(patience * 3 / 4).await;
            fickle.abort();
            while world.line().await.len() > 1 {
                sleep(Duration::from_millis(1)).await;
            }
        }
    };
    tokio::select! {
        asked = first.asked_to_resign() => panic!("it is asked to resign: {asked:?}"),
        () = coming_and_going => {}
    }
    assert!(first.is_held());
}

/// It stays for as long as it is patient itself, however impatient the other one is.
#[tokio::test(start_paused = true)]
async fn a_leader_yields_to_preference_only_after_its_own_time_in_office() {
    let world = World::new();
    let (start, term) = (Instant::now(), Duration::from_secs(60));
    let first = world.election().preferred(0, term).campaign("a").await.expect("won");
    let second = candidate(&world, &world.election().preferred(5, Duration::from_secs(1)), "b").await;
    timeout(term * 2, first.asked_to_resign()).await.expect("in the end").expect("asked");
    let led = start.elapsed();
    assert!(led >= term && led < term + TTL, "{led:?}");
    first.resign().await.expect("resigned");
    soon(second).await.resign().await.expect("resigned");
}

/// The longest hysteresis there is means never; and by hand means at once.
#[tokio::test(start_paused = true)]
async fn a_leader_may_be_told_never_to_yield_to_preference() {
    let world = World::new();
    let first = world.election().preferred(0, Duration::MAX).campaign("a").await.expect("won");
    let second = candidate(&world, &world.election().preferred(5, Duration::from_secs(1)), "b").await;
    timeout(TTL * 1000, first.asked_to_resign()).await.expect_err("it never yields");
    let asking = tokio::spawn(async move { world.election().ask_to_resign(None).await });
    timeout(SOON, first.asked_to_resign()).await.expect("at once").expect("asked");
    first.resign().await.expect("resigned");
    soon(second).await.resign().await.expect("resigned");
    soon(asking).await.expect("obeyed");
}
