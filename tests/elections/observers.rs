//! Many observers, while leaders change, the server is restarted, and its past is thrown away.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
    time::Duration,
};

use futures_util::StreamExt;
use tenure_core::{Election, FencingToken};
use tokio::{
    task::JoinHandle,
    time::{sleep, timeout},
};

use super::service::Service;

const OBSERVERS: usize = 50;

type Told = Arc<Mutex<Vec<Option<FencingToken>>>>;

fn observe(election: &Election) -> (Told, JoinHandle<()>) {
    let (told, mut leaders) = (Told::default(), election.observe());
    let kept = told.clone();
    let task = tokio::spawn(async move {
        while let Some(item) = leaders.next().await {
            let leader = item.unwrap_or_else(|error| panic!("{}", error.report()));
            kept.lock().expect("no panic").push(leader.map(|leader| leader.token));
        }
    });
    (told, task)
}

/// Leaders one after the other. Says with which tokens they led.
async fn story(elections: &[Election], leaders: usize) -> Vec<FencingToken> {
    let mut tokens = Vec::new();
    for number in 0..leaders {
        let campaign = elections[number % elections.len()].campaign(format!("leader-{number}"));
        let leadership = timeout(Duration::from_secs(30), campaign).await.expect("in time").expect("won");
        tokens.push(leadership.token());
        sleep(Duration::from_millis(50)).await;
        let _ = leadership.resign().await; // it may have been lost with the server
    }
    tokens
}

async fn all_end_with_the_true_leader(mut service: Service) {
    let (mut watching, mut elections) = (Vec::new(), Vec::new());
    for _ in 0..5 {
        watching.push(service.election("ttl=8s").await);
        elections.push(service.election("ttl=8s").await);
    }
    let observers: Vec<_> = (0..OBSERVERS).map(|number| observe(&watching[number % watching.len()])).collect();
    let mut led = story(&elections, 10).await;
    service.compact();
    led.extend(story(&elections, 5).await);
    service.kill();
    sleep(Duration::from_secs(1)).await;
    service.restart().await;
    led.extend(story(&elections, 10).await);
    let last = timeout(Duration::from_secs(30), elections[0].campaign("last")).await.expect("in time").expect("won");
    let next = tokio::spawn({
        let election = elections[1].clone();
        async move { election.campaign("second in line").await }
    });
    led.push(last.token());
    sleep(Duration::from_secs(1)).await;
    let led: BTreeSet<_> = led.into_iter().collect();
    assert!(last.is_held(), "it is not the last one: {:?}", last.state());
    let mut seen = 0;
    for (told, task) in observers {
        assert!(!task.is_finished(), "an observer has ended");
        let told = told.lock().expect("no panic").clone();
        assert_eq!(told.last(), Some(&Some(last.token())), "not the true leader");
        let tokens: Vec<_> = told.into_iter().flatten().collect();
        assert!(tokens.is_sorted() && tokens.iter().all(|token| led.contains(token)), "{tokens:?} of {led:?}");
        seen += tokens.len();
        task.abort();
    }
    println!("{OBSERVERS} observers of {} leaders were told of {} each, on average", led.len(), seen / OBSERVERS);
    next.abort();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_observers_end_with_the_true_leader_on_etcd() {
    all_end_with_the_true_leader(Service::etcd().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_observers_end_with_the_true_leader_on_zookeeper() {
    all_end_with_the_true_leader(Service::zookeeper().await).await;
}
