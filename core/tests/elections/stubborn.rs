//! Probes, bodies and backends that do not do what they should.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};

use tenure_core::{Call, Election, Fault, Term};
use tokio::{
    task::JoinHandle,
    time::{Instant, sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use super::{Awake, SOON, TTL, World, candidate};

/// Runs for ever; says how many terms began.
fn run(election: Election) -> (Arc<AtomicU32>, JoinHandle<()>) {
    let terms = Arc::<AtomicU32>::default();
    let count = terms.clone();
    let task = tokio::spawn(async move {
        let body = |term: Term| {
            count.fetch_add(1, Ordering::SeqCst);
            async move { term.ended().await }
        };
        election.run("v", CancellationToken::new(), body).await.expect("no error");
    });
    (terms, task)
}

#[tokio::test(start_paused = true)]
async fn a_probe_that_panics_is_no_good_answer() {
    let world = World::new();
    let fails = Arc::<AtomicBool>::default();
    let probe = {
        let fails = fails.clone();
        move || {
            let fails = fails.clone();
            async move {
                assert!(!fails.load(Ordering::SeqCst), "the probe panics");
                true
            }
        }
    };
    let election = world.election().healthy_while(Duration::from_secs(1), probe).drain(Duration::from_secs(1));
    let (terms, task) = run(election);
    sleep(SOON).await;
    fails.store(true, Ordering::SeqCst);
    let next = timeout(Duration::from_secs(8), world.election().campaign("b")).await.expect("in time").expect("won");
    assert!(next.is_held() && terms.load(Ordering::SeqCst) == 1 && !task.is_finished());
}

/// The body holds a lock of the application while it is stuck, and the probe wants the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_probe_that_blocks_its_thread_is_no_good_answer() {
    let _awake = Awake::keep();
    let world = World::new();
    let (state, [stuck, released]) = (Arc::<Mutex<()>>::default(), [(); 2].map(|()| Arc::<AtomicBool>::default()));
    let probe = {
        let state = state.clone();
        move || {
            let state = state.clone();
            async move { state.lock().is_ok() }
        }
    };
    let (period, drain) = (Duration::from_millis(200), Duration::from_millis(200));
    let election = world.election().healthy_while(period, probe).drain(drain);
    let running = tokio::spawn({
        let (stuck, released) = (stuck.clone(), released.clone());
        async move {
            let body = |_: Term| {
                let (state, stuck, released) = (state.clone(), stuck.clone(), released.clone());
                async move {
                    let _state = state.lock();
                    stuck.store(true, Ordering::SeqCst);
                    while !released.load(Ordering::SeqCst) {
                        std::thread::sleep(Duration::from_millis(5));
                    }
                }
            };
            election.run("v", CancellationToken::new(), body).await
        }
    });
    while !stuck.load(Ordering::SeqCst) {
        sleep(Duration::from_millis(5)).await;
    }
    let start = Instant::now();
    let next = timeout(TTL / 2, world.election().campaign("b")).await;
    released.store(true, Ordering::SeqCst);
    running.abort();
    let took = start.elapsed();
    assert!(next.expect("for its probe, and not for the deadline").expect("won").is_held(), "{took:?}");
}

/// It never waits, but lets others run; so it can be dropped.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_body_that_overruns_its_time_is_dropped_before_the_next_one_leads() {
    let _awake = Awake::keep();
    struct Running(Arc<AtomicU32>);
    impl Drop for Running {
        fn drop(&mut self) {
            self.0.fetch_sub(1, Ordering::SeqCst);
        }
    }
    for _ in 0..3 {
        let (world, well, running) = (World::new(), Arc::new(AtomicBool::new(true)), Arc::<AtomicU32>::default());
        let probe = {
            let well = well.clone();
            move || std::future::ready(well.load(Ordering::SeqCst))
        };
        let (period, drain) = (Duration::from_millis(50), Duration::from_millis(100));
        let election = world.election().healthy_while(period, probe).drain(drain);
        let (stop, count) = (CancellationToken::new(), running.clone());
        let told = stop.clone();
        let first = tokio::spawn(async move {
            let body = |_: Term| {
                count.fetch_add(1, Ordering::SeqCst);
                let running = Running(count.clone());
                async move {
                    let _running = running;
                    loop {
                        std::thread::sleep(Duration::from_millis(20));
                        tokio::task::yield_now().await;
                    }
                }
            };
            election.run("v", told, body).await
        });
        while running.load(Ordering::SeqCst) == 0 {
            sleep(Duration::from_millis(1)).await;
        }
        well.store(false, Ordering::SeqCst);
        let next = timeout(TTL / 2, world.election().campaign("b")).await.expect("in time").expect("won");
        assert_eq!(running.load(Ordering::SeqCst), 0, "two bodies");
        stop.cancel();
        drop(next);
        first.await.expect("no panic").expect("no error");
    }
}

#[tokio::test(start_paused = true)]
async fn terms_that_end_as_soon_as_they_begin_do_not_spin() {
    let world = World::new();
    let (backend, election) = world.client();
    let (terms, _task) = run(election);
    sleep(SOON).await;
    for _ in 0..1000 {
        backend.inject(Call::KeepAlive, Fault::LoseRequest);
    }
    sleep(TTL * 2).await;
    let terms = terms.load(Ordering::SeqCst);
    assert!(terms < 20, "{terms} terms");
}

#[tokio::test(start_paused = true)]
async fn a_session_that_took_long_to_open_is_renewed_in_time() {
    let world = World::new();
    let (backend, election) = world.client();
    backend.inject(Call::Open, Fault::DelayReply(Duration::from_millis(4500)));
    let (terms, _task) = run(election);
    sleep(TTL * 3).await;
    assert_eq!(terms.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_was_refused_a_look_hears_the_next_request() {
    let world = World::new();
    let (backend, election) = world.client();
    let (_, _task) = run(election);
    sleep(SOON).await;
    backend.inject(Call::List, Fault::Deny);
    backend.inject(Call::List, Fault::Deny);
    timeout(TTL, world.election().ask_to_resign(None)).await.expect("in time").expect("obeyed");
}

/// Each request is for the leader of its time; and who asks second goes on to ask.
#[tokio::test(start_paused = true)]
async fn two_that_ask_for_two_others_are_both_obeyed() {
    let world = World::new();
    for value in ["a", "b", "c"] {
        let election = world.election();
        tokio::spawn(async move {
            election.run(value, CancellationToken::new(), async |term: Term| term.ended().await).await
        });
        sleep(SOON).await;
    }
    let line = world.election().candidates().await.expect("listed");
    let ask = |at: usize| {
        let (election, to) = (world.election(), line[at].id.clone());
        tokio::spawn(async move { election.ask_to_resign(Some(&to)).await })
    };
    for asking in [ask(2), ask(1)] {
        timeout(TTL, asking).await.expect("in time").expect("no panic").expect("obeyed").expect("somebody leads");
    }
}

/// The leader goes while the request is on its way, and the one after it has not heard of it when it comes into office.
#[tokio::test(start_paused = true)]
async fn a_request_follows_the_leadership() {
    let world = World::new();
    let stop = CancellationToken::new();
    for (value, stop) in [("a", stop.clone()), ("b", CancellationToken::new()), ("c", CancellationToken::new())] {
        let election = world.election();
        tokio::spawn(async move { election.run(value, stop, async |term: Term| term.ended().await).await });
        sleep(SOON).await;
    }
    let to = world.election().candidates().await.expect("listed").swap_remove(2).id;
    let (backend, election) = world.client();
    election.leader().await.expect("asked");
    backend.inject(Call::Enter, Fault::LoseRequest);
    let asking = tokio::spawn(async move { election.ask_to_resign(Some(&to)).await });
    sleep(Duration::from_millis(5)).await;
    stop.cancel();
    let leader = timeout(TTL, asking).await.expect("in time").expect("no panic").expect("obeyed");
    assert_eq!(leader.expect("somebody leads").value, b"c");
}

#[tokio::test(start_paused = true)]
async fn who_looks_now_and_then_hears_of_a_preferred_candidate_too() {
    let world = World::new();
    let patience = Duration::from_secs(5);
    let first = world.election().preferred(0, patience).campaign("a").await.expect("won");
    let _preferred = candidate(&world, &world.election().preferred(5, patience), "b").await;
    let looks = async { while timeout(patience / 2, first.asked_to_resign()).await.is_err() {} };
    timeout(patience * 3, looks).await.expect("it is heard");
}
