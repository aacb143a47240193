//! Winning, updating, resigning, losing.

use std::{future::poll_fn, pin::Pin, task::Poll};

use tenure_core::{Call, ErrorKind, Fault, LossReason};
use tokio::time::timeout;

use super::{SOON, World, candidate, soon};

/// Polls once.
async fn is_ready<F: Future>(mut future: Pin<&mut F>) -> bool {
    poll_fn(|context| Poll::Ready(future.as_mut().poll(context).is_ready())).await
}

#[tokio::test(start_paused = true)]
async fn one_leads_at_a_time_with_rising_tokens_in_the_order_of_the_candidacies() {
    let world = World::new();
    let first = world.election().campaign("a").await.expect("won");
    let others = [candidate(&world, &world.election(), "b").await, candidate(&world, &world.election(), "c").await];
    let mut last = first.token();
    first.resign().await.expect("resigned");
    for (other, value) in others.into_iter().zip(["b", "c"]) {
        let leadership = soon(other).await;
        assert!(leadership.token() > last);
        last = leadership.token();
        let leader = world.election().leader().await.expect("asked").expect("somebody leads");
        assert_eq!((leader.value, leader.token, &leader.id), (value.into(), last, leadership.id()));
        leadership.resign().await.expect("resigned");
    }
    assert_eq!(world.election().leader().await.expect("asked"), None);
}

#[tokio::test(start_paused = true)]
async fn two_tasks_of_one_process_exclude_each_other() {
    let world = World::new();
    let election = world.election();
    let first = election.campaign("a").await.expect("won");
    let second = candidate(&world, &election, "b").await;
    assert!(timeout(SOON, election.campaign("c")).await.is_err(), "a second leader");
    drop(first);
    soon(second).await.resign().await.expect("resigned");
}

#[tokio::test(start_paused = true)]
async fn the_value_is_replaced_in_office_also_after_a_lost_reply() {
    let world = World::new();
    let (backend, election) = world.client();
    let leadership = election.campaign("a").await.expect("won");
    for (round, value) in ["b", "c", "d"].into_iter().enumerate() {
        if round == 1 {
            backend.inject(Call::Write, Fault::LoseReply);
        }
        leadership.update(value).await.expect("updated");
        assert_eq!(world.line().await, [value]);
    }
    let large = vec![0; 65_537];
    assert_eq!(leadership.update(&large).await.expect_err("too large").kind(), ErrorKind::Config);
    assert_eq!(world.election().campaign(&large).await.expect_err("too large").kind(), ErrorKind::Config);
}

/// The update may have taken effect; the next one must not stumble over that.
#[tokio::test(start_paused = true)]
async fn an_update_works_after_one_that_was_given_up() {
    let world = World::new();
    let leadership = world.election().campaign("a").await.expect("won");
    let mut given_up = Box::pin(leadership.update("b"));
    for _ in 0..100 {
        if is_ready(given_up.as_mut()).await {
            break;
        }
        if world.line().await == ["b"] {
            break;
        }
    }
    drop(given_up);
    leadership.update("c").await.expect("updated");
    assert_eq!(world.line().await, ["c"]);
}

#[tokio::test(start_paused = true)]
async fn a_candidate_cancelled_at_any_moment_leaves_no_phantom() {
    let world = World::new();
    for polls in 0..40 {
        let leading = world.election().campaign("a").await.expect("won");
        let election = world.election();
        let mut campaign = Box::pin(election.campaign("b"));
        for poll in 0..polls {
            if is_ready(campaign.as_mut()).await {
                break;
            }
            if poll == polls / 2 {
                world.remove(leading.id());
            }
            tokio::task::yield_now().await;
        }
        drop(campaign);
        drop(leading);
        let next = timeout(SOON, world.election().campaign("c")).await.expect("nobody is in the way").expect("won");
        next.resign().await.expect("resigned");
    }
}

#[tokio::test(start_paused = true)]
async fn a_leader_whose_entry_is_removed_is_told_and_never_names_itself_again() {
    let world = World::new();
    let leadership = world.election().campaign("a").await.expect("won");
    let next = candidate(&world, &world.election(), "b").await;
    tokio::time::sleep(SOON * 2).await; // it is watched by now
    assert!(world.remove(leadership.id()));
    assert_eq!(timeout(SOON * 2, leadership.lost()).await.expect("within a second"), LossReason::Removed);
    let next = soon(next).await;
    assert_eq!(leadership.update("z").await.expect_err("over").kind(), ErrorKind::SessionLost);
    assert_eq!(world.line().await, ["b"]);
    assert!(next.is_held());
}
