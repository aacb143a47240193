//! Candidates that give up at any moment, tasks beside each other, and entries that are removed: nobody leads who should not.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use tenure_conformance::{
    dice::Dice,
    proxy::{Mode, Proxy},
};
use tenure_core::{Election, ErrorKind, LossReason};
use tenure_tests::rounds;
use tokio::{
    join,
    time::{sleep, timeout},
};

use super::service::Service;

const SOON: Duration = Duration::from_secs(5);

/// How long it takes to win while nobody else campaigns.
async fn takes(election: &Election) -> Duration {
    let mut longest = Duration::ZERO;
    for _ in 0..3 {
        let start = Instant::now();
        election.campaign("measured").await.expect("won").resign().await.expect("resigned");
        longest = longest.max(start.elapsed());
    }
    longest
}

/// At random times on a slow wire, while the leader before resigns at a random time, too: so some give up at the moment of their grant.
async fn leave_no_phantom(service: Service) {
    let proxy = Proxy::start(service.client()).await.expect("a proxy");
    let cancelled = service.coordinator_at(&proxy.address().to_string(), "ttl=30s").await.election("x");
    let other = service.election("ttl=30s").await;
    proxy.set(Mode::Delay(Duration::from_millis(2)));
    let (dice, span, count) = (Dice::new(13), takes(&cancelled).await, rounds(60));
    let (mut won, mut unfinished) = (0, 0);
    for round in 0..count {
        let held = if round % 2 == 0 { Some(other.campaign("held").await.expect("won")) } else { None };
        let resigning = async {
            sleep(dice.time(span)).await;
            drop(held);
        };
        let (outcome, ()) = join!(timeout(dice.time(span * 2), cancelled.campaign("cancelled")), resigning);
        won += usize::from(outcome.is_ok());
        unfinished += usize::from(outcome.is_err());
        drop(outcome);
        let next = timeout(SOON, other.campaign("next")).await.expect("nobody is in the way").expect("won");
        let leader = other.leader().await.expect("asked").expect("somebody leads");
        assert_eq!((&leader.id, leader.token), (next.id(), next.token()), "a phantom leads");
        next.resign().await.expect("resigned");
    }
    println!("of {count} candidates {won} won, and {unfinished} gave up before");
    assert!(won * 10 >= count && unfinished * 10 >= count, "not at the moment of the grant");
    service.until_queued(0).await;
    let again = cancelled.campaign("again").await.expect("the session lives");
    again.verify().await.expect("it stands");
}

async fn exclude_each_other(service: Service) {
    let (election, leading) = (service.election("ttl=30s").await, Arc::<AtomicU32>::default());
    let tasks: Vec<_> = (0..2)
        .map(|_| {
            let (election, leading) = (election.clone(), leading.clone());
            tokio::spawn(async move {
                let mut tokens = Vec::new();
                for _ in 0..rounds(20) {
                    let leadership = timeout(SOON, election.campaign("task")).await.expect("in time").expect("won");
                    assert_eq!(leading.fetch_add(1, Ordering::SeqCst), 0, "two lead");
                    tokens.push(leadership.token());
                    sleep(Duration::from_millis(2)).await;
                    leading.fetch_sub(1, Ordering::SeqCst);
                    leadership.resign().await.expect("resigned");
                }
                tokens
            })
        })
        .collect();
    let mut tokens = Vec::new();
    for task in tasks {
        let of_task = task.await.expect("no panic");
        assert!(of_task.is_sorted());
        tokens.extend(of_task);
    }
    tokens.sort();
    let count = tokens.len();
    tokens.dedup();
    assert_eq!((tokens.len(), count), (count, 2 * rounds(20)), "every term has a token of its own");
}

/// By hand, before the leader has begun to watch its own entry: it is told within a second, and the next one leads.
async fn is_told_when_its_entry_is_removed_right_after_the_grant(service: Service) {
    let (first, second) = (service.election("ttl=30s").await, service.election("ttl=30s").await);
    for _ in 0..rounds(3) {
        let leadership = first.campaign("removed").await.expect("won");
        let next = second.clone();
        let next = tokio::spawn(async move { next.campaign("next").await.expect("won") });
        service.until_queued(2).await;
        service.remove_first().await;
        let next = timeout(SOON, next).await.expect("in time").expect("no panic");
        let reason = timeout(Duration::from_secs(2), leadership.lost()).await.expect("it is told within a second");
        assert_eq!(reason, LossReason::Removed);
        assert_eq!(leadership.update("z").await.expect_err("it is over").kind(), ErrorKind::SessionLost);
        let leader = first.leader().await.expect("asked").expect("somebody leads");
        assert_eq!((leader.token, leader.value), (next.token(), b"next".to_vec()), "a phantom leads");
        assert!(next.is_held() && next.token() > leadership.token());
        next.resign().await.expect("resigned");
        service.until_queued(0).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cancelled_candidates_leave_no_phantom_on_etcd() {
    leave_no_phantom(Service::etcd().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cancelled_candidates_leave_no_phantom_on_zookeeper() {
    leave_no_phantom(Service::zookeeper().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_tasks_of_one_process_exclude_each_other_on_etcd() {
    exclude_each_other(Service::etcd().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_tasks_of_one_process_exclude_each_other_on_zookeeper() {
    exclude_each_other(Service::zookeeper().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_whose_key_is_removed_at_once_is_told_on_etcd() {
    is_told_when_its_entry_is_removed_right_after_the_grant(Service::etcd().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_whose_node_is_removed_at_once_is_told_on_zookeeper() {
    is_told_when_its_entry_is_removed_right_after_the_grant(Service::zookeeper().await).await;
}
