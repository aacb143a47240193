//! Who is not well does not lead.

use std::{
    future::ready,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tenure_core::Term;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::{
    Awake, TTL, World,
    running::{Stage, run, started},
};

#[tokio::test(start_paused = true)]
async fn who_is_not_well_neither_leads_nor_stands_in_line() {
    let (world, stage) = (World::new(), Arc::<Stage>::default());
    let well = Arc::new(AtomicBool::new(true));
    let probe = {
        let well = well.clone();
        move || ready(well.load(Ordering::SeqCst))
    };
    let election = world.election().healthy_while(Duration::from_secs(1), probe).drain(Duration::from_secs(2));
    let (_stop, _running) = run(election, &stage, Duration::ZERO);
    started(&stage, 1).await;
    let (_, _other) = run(world.election(), &stage, Duration::ZERO);
    well.store(false, Ordering::SeqCst);
    let start = Instant::now();
    started(&stage, 2).await;
    assert!(start.elapsed() < Duration::from_secs(6), "{:?}", start.elapsed());
    sleep(TTL).await;
    assert_eq!(world.line().await.len(), 1);
    well.store(true, Ordering::SeqCst);
    sleep(TTL).await;
    assert_eq!(world.line().await.len(), 2, "it stands in line again");
}

/// The longest drain time there is means: as long as the body likes.
#[tokio::test(start_paused = true)]
async fn a_body_may_be_given_all_the_time_there_is() {
    let (world, stage) = (World::new(), Arc::<Stage>::default());
    let election = world.election().healthy_while(Duration::from_secs(1), || ready(true)).drain(Duration::MAX);
    let (stop, running) = run(election, &stage, TTL * 5);
    started(&stage, 1).await;
    stop.cancel();
    let start = Instant::now();
    timeout(TTL * 6, running).await.expect("in time").expect("no panic");
    assert!(start.elapsed() >= TTL * 5, "it was not cut short");
}

#[tokio::test(start_paused = true)]
async fn a_leadership_by_itself_says_that_it_is_not_well() {
    let world = World::new();
    let well = Arc::new(AtomicBool::new(false));
    let probe = {
        let well = well.clone();
        move || ready(well.load(Ordering::SeqCst))
    };
    let election = world.election().healthy_while(Duration::from_secs(1), probe);
    let campaign = tokio::spawn(async move { election.campaign("a").await.expect("won") });
    sleep(TTL).await;
    assert!(world.line().await.is_empty(), "it is not well, and stands in no line");
    well.store(true, Ordering::SeqCst);
    let leadership = timeout(Duration::from_secs(2), campaign).await.expect("in time").expect("no panic");
    assert!(timeout(TTL, leadership.unwell()).await.is_err());
    well.store(false, Ordering::SeqCst);
    timeout(Duration::from_secs(4), leadership.unwell()).await.expect("in time");
    assert!(leadership.is_held(), "when to resign is for its holder to say");
}

/// A body that does not move any more, and a probe that never answers.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_leader_that_is_stuck_is_out_within_the_stated_time() {
    let _awake = Awake::keep();
    let world = World::new();
    let (stuck, released) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let probe = {
        let stuck = stuck.clone();
        move || {
            let stuck = stuck.clone();
            async move {
                if stuck.load(Ordering::SeqCst) {
                    std::future::pending().await
                }
                true
            }
        }
    };
    let (period, drain) = (Duration::from_millis(200), Duration::from_millis(300));
    let election = world.election().healthy_while(period, probe).drain(drain);
    let running = tokio::spawn({
        let (stuck, released) = (stuck.clone(), released.clone());
        async move {
            let body = |_: Term| {
                let (stuck, released) = (stuck.clone(), released.clone());
                async move {
                    stuck.store(true, Ordering::SeqCst);
                    while !released.load(Ordering::SeqCst) {
                        std::thread::sleep(Duration::from_millis(5)); // it blocks its thread
                    }
                }
            };
            election.run("v", CancellationToken::new(), body).await
        }
    });
    while !stuck.load(Ordering::SeqCst) {
        sleep(Duration::from_millis(5)).await;
    }
    let start = std::time::Instant::now();
    let limit = period * 4 + drain + Duration::from_secs(1);
    let next = timeout(limit, world.election().campaign("b")).await;
    released.store(true, Ordering::SeqCst);
    running.abort();
    let leadership = next.expect("within the stated time").expect("won");
    assert!(leadership.is_held());
    assert!(start.elapsed() < TTL / 2, "it was not for the deadline");
}
