//! Many observers, while leaders change, the server is restarted, and its past is thrown away.

use std::{
    collections::BTreeMap,
    num::NonZeroU32,
    sync::{Arc, Mutex},
    time::Duration,
};

use futures_util::StreamExt;
use tenure_conformance::{
    proxy::{Mode, Proxy},
    server::until,
};
use tenure_core::{Coordinator, Election, FencingToken, Leader};
use tenure_tests::rounds;
use tokio::{
    task::JoinHandle,
    time::{sleep, timeout},
};

use super::service::Service;

const OBSERVERS: usize = 50;

/// What one observer was told: who led, or that nobody did.
type Told = Arc<Mutex<Vec<Option<(FencingToken, String)>>>>;
/// Who has led, and under which value.
type Led = BTreeMap<FencingToken, String>;

fn observe(election: &Election) -> (Told, JoinHandle<()>) {
    let (told, mut leaders) = (Told::default(), election.observe());
    let kept = told.clone();
    let task = tokio::spawn(async move {
        while let Some(item) = leaders.next().await {
            let leader = item.unwrap_or_else(|error| panic!("{}", error.report()));
            kept.lock().expect("no panic").push(leader.map(|leader| (leader.token, value(leader))));
        }
    });
    (told, task)
}

fn value(leader: Leader) -> String {
    String::from_utf8(leader.value).expect("text")
}

/// Leaders one after the other, each with a candidate behind it that withdraws: that one never leads.
async fn story(elections: &[Election], leaders: usize, led: &mut Led) {
    for number in 0..leaders {
        let [election, other] = [0, 1].map(|more| &elections[(number + more) % elections.len()]);
        let value = format!("leader-{}", led.len());
        let campaign = election.campaign(&value);
        let leadership = timeout(Duration::from_secs(30), campaign).await.expect("in time").expect("won");
        led.insert(leadership.token(), value);
        let _ = timeout(Duration::from_millis(50), other.campaign("withdrawn")).await;
        let withdrawn = async || {
            let line = election.candidates().await.unwrap_or_default();
            line.iter().all(|candidate| candidate.value != b"withdrawn")
        };
        assert!(until(Duration::from_secs(20), withdrawn).await, "it stays in line");
        let _ = leadership.resign().await; // it may have been lost with the server
    }
}

/// Readers and permits come and go in the same queue, in front of leaders and behind them: observers name none of them.
fn others(coordinator: Coordinator) -> JoinHandle<()> {
    tokio::spawn(async move {
        let three = NonZeroU32::new(3).expect("not zero");
        loop {
            let reading = coordinator.read("x").await;
            sleep(Duration::from_millis(10)).await;
            drop(reading);
            let permit = coordinator.permit("x", three).await;
            sleep(Duration::from_millis(10)).await;
            drop(permit);
        }
    })
}

/// They have all been told how things stand now.
async fn until_told(observers: &[(Told, JoinHandle<()>)]) {
    let told = async || observers.iter().all(|(told, _)| !told.lock().expect("no panic").is_empty());
    assert!(until(Duration::from_secs(20), told).await, "an observer was told nothing");
}

/// Nobody but who led, under the right value, in order, with each change told once; and that nobody did, in between.
fn check(told: &[Option<(FencingToken, String)>], led: &Led) {
    assert!(told.windows(2).all(|pair| pair[0] != pair[1]), "no change: {told:?}");
    assert_eq!(told.first(), Some(&None), "nobody led when it began");
    let named: Vec<_> = told.iter().flatten().collect();
    assert!(named.windows(2).all(|pair| pair[0].0 < pair[1].0), "not in order: {named:?}");
    for (token, value) in named {
        assert_eq!(led.get(token), Some(value), "it did not lead: {token} of {led:?}");
    }
}

async fn all_end_with_the_true_leader(mut service: Service) {
    let proxy = Proxy::start(service.client()).await.expect("a proxy");
    let (mut watching, mut elections) = (Vec::new(), Vec::new());
    for _ in 0..5 {
        watching.push(service.coordinator_at(&proxy.address().to_string(), "ttl=8s").await.election("x"));
        elections.push(service.election("ttl=8s").await);
    }
    let observers: Vec<_> = (0..OBSERVERS).map(|number| observe(&watching[number % watching.len()])).collect();
    until_told(&observers).await;
    let others = others(service.coordinator("ttl=8s").await);
    let mut led = Led::new();
    story(&elections, 10, &mut led).await;
    // What they have not seen is thrown away before they are back.
    proxy.set(Mode::Cut);
    story(&elections, 5, &mut led).await;
    service.compact();
    proxy.set(Mode::Pass);
    story(&elections, 5, &mut led).await;
    service.kill();
    sleep(Duration::from_secs(1)).await;
    service.restart().await;
    story(&elections, 10, &mut led).await;
    let last = timeout(Duration::from_secs(30), elections[0].campaign("last")).await.expect("in time").expect("won");
    led.insert(last.token(), "last".to_owned());
    let next = tokio::spawn({
        let election = elections[1].clone();
        async move { election.campaign("second in line").await }
    });
    end(observers, &led, last.token()).await;
    assert!(last.is_held(), "it is not the last one: {:?}", last.state());
    next.abort();
    others.abort();
}

async fn end(observers: Vec<(Told, JoinHandle<()>)>, led: &Led, last: FencingToken) {
    let ends_with_the_last = |told: &Told| {
        let told = told.lock().expect("no panic");
        told.last().and_then(Option::as_ref).is_some_and(|(token, _)| *token == last)
    };
    let all = async || observers.iter().all(|(told, _)| ends_with_the_last(told));
    assert!(until(Duration::from_secs(20), all).await, "not all end with the true leader");
    sleep(Duration::from_millis(500)).await; // and nothing comes after it
    let (mut named, mut nobody) = (0, 0);
    for (told, task) in &observers {
        assert!(!task.is_finished() && ends_with_the_last(told), "not the true leader");
        let told = told.lock().expect("no panic").clone();
        check(&told, led);
        named += told.iter().flatten().count();
        nobody += told.iter().filter(|item| item.is_none()).count();
        task.abort();
    }
    println!(
        "{OBSERVERS} observers of {} leaders: each was told of {}, and {} times of nobody, on average",
        led.len(),
        named / OBSERVERS,
        nobody / OBSERVERS
    );
    assert!(nobody > OBSERVERS, "that nobody leads was told at the beginning only");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_observers_end_with_the_true_leader_on_etcd() {
    for _ in 0..rounds(1) {
        all_end_with_the_true_leader(Service::etcd().await).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_observers_end_with_the_true_leader_on_zookeeper() {
    for _ in 0..rounds(1) {
        all_end_with_the_true_leader(Service::zookeeper().await).await;
    }
}
