//! Candidates that lead whenever they can.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI32, AtomicU32, Ordering},
    },
    time::Duration,
};

use tenure_core::{Call, Election, Fault, FencingToken, Term};
use tokio::{
    task::JoinHandle,
    time::{Instant, sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use super::{SOON, TTL, World, candidate, soon};

/// Bodies that run, counted: one at a time, each started and ended once.
#[derive(Default)]
pub(super) struct Stage {
    running: AtomicI32,
    started: AtomicU32,
    ended: AtomicU32,
    highest: std::sync::Mutex<Option<FencingToken>>,
}

struct OnStage(Arc<Stage>);

impl Drop for OnStage {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::SeqCst);
        self.0.ended.fetch_add(1, Ordering::SeqCst);
    }
}

impl Stage {
    fn enter(self: &Arc<Self>, term: &Term) -> OnStage {
        assert_eq!(self.running.fetch_add(1, Ordering::SeqCst), 0, "two bodies run");
        self.started.fetch_add(1, Ordering::SeqCst);
        let mut highest = self.highest.lock().expect("no panic");
        assert!(highest.is_none_or(|highest| highest < term.token()), "tokens do not rise");
        *highest = Some(term.token());
        OnStage(self.clone())
    }

    pub(super) fn counts(&self) -> (u32, u32) {
        (self.started.load(Ordering::SeqCst), self.ended.load(Ordering::SeqCst))
    }
}

/// Runs until stopped; the body takes `ending` to end.
pub(super) fn run(election: Election, stage: &Arc<Stage>, ending: Duration) -> (CancellationToken, JoinHandle<()>) {
    let (stop, stage) = (CancellationToken::new(), stage.clone());
    let told = stop.clone();
    let running = tokio::spawn(async move {
        let body = |term: Term| {
            let on = stage.enter(&term);
            async move {
                term.ended().await;
                sleep(ending).await;
                drop(on);
            }
        };
        election.run("v", told, body).await.expect("no error");
    });
    (stop, running)
}

pub(super) async fn started(stage: &Stage, count: u32) {
    let all = async {
        while stage.counts().0 < count {
            sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(TTL * 3, all).await.expect("the next one starts");
}

#[tokio::test(start_paused = true)]
async fn replacing_replicas_one_by_one_starts_and_ends_each_term_once() {
    let (world, stage) = (World::new(), Arc::<Stage>::default());
    let mut replicas: Vec<_> = (0..3).map(|_| run(world.election(), &stage, Duration::from_millis(300))).collect();
    for round in 0..6 {
        started(&stage, round + 1).await;
        sleep(SOON).await;
        assert_eq!(stage.counts(), (round + 1, round));
        let start = Instant::now();
        for (stop, _) in &replicas {
            stop.cancel();
        }
        let fresh: Vec<_> = (0..3).map(|_| run(world.election(), &stage, Duration::from_millis(300))).collect();
        for (_, running) in std::mem::replace(&mut replicas, fresh) {
            soon(running).await;
        }
        started(&stage, round + 2).await;
        assert!(start.elapsed() < SOON, "{:?} without a leader", start.elapsed());
    }
    let (begun, ended) = stage.counts();
    assert_eq!(begun, ended + 1);
}

#[tokio::test(start_paused = true)]
async fn one_that_never_led_ends_nothing() {
    let (world, stage) = (World::new(), Arc::<Stage>::default());
    let _leads = world.election().campaign("a").await.expect("won");
    let (stop, running) = run(world.election(), &stage, Duration::ZERO);
    sleep(TTL).await;
    stop.cancel();
    soon(running).await;
    assert_eq!(stage.counts(), (0, 0));
    assert_eq!(world.line().await, ["a"]);
}

#[tokio::test(start_paused = true)]
async fn the_next_one_starts_after_the_old_body_has_ended() {
    let (world, stage) = (World::new(), Arc::<Stage>::default());
    let (stop, running) = run(world.election(), &stage, Duration::from_secs(25));
    let (_, _) = (started(&stage, 1).await, run(world.election(), &stage, Duration::ZERO));
    sleep(SOON).await;
    stop.cancel();
    sleep(Duration::from_secs(9)).await;
    assert_eq!(stage.counts(), (1, 0), "it drains");
    timeout(Duration::from_secs(2), running).await.expect("it is dropped after ten seconds").expect("no panic");
    started(&stage, 2).await;
}

/// Cut off: the body is told in time to end in good order, and has ended by the deadline in any case.
#[tokio::test(start_paused = true)]
async fn a_leader_that_is_cut_off_ends_before_the_next_one_starts() {
    for (ending, paired) in [(Duration::from_millis(500), true), (Duration::from_secs(60), true)] {
        let (world, stage) = (World::new(), Arc::<Stage>::default());
        let (backend, election) = world.client();
        let (_stop, _running) = run(election, &stage, ending);
        started(&stage, 1).await;
        let (_, _next) = run(world.election(), &stage, Duration::ZERO);
        sleep(SOON).await;
        backend.cut(true);
        started(&stage, 2).await; // which asserts that the first has ended
        assert_eq!(stage.counts() == (2, 1), paired);
        backend.cut(false);
        sleep(TTL * 3).await;
        assert_eq!(stage.counts(), (2, 1), "it campaigns again, behind");
        assert_eq!(world.line().await.len(), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn one_lost_keep_alive_ends_no_term() {
    let (world, stage) = (World::new(), Arc::<Stage>::default());
    let (backend, election) = world.client();
    let (_stop, _running) = run(election, &stage, Duration::ZERO);
    started(&stage, 1).await;
    for _ in 0..5 {
        backend.inject(Call::KeepAlive, Fault::LoseRequest);
        sleep(TTL).await;
    }
    assert_eq!(stage.counts(), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_runs_obeys_a_request_and_queues_up_again() {
    let (world, stage) = (World::new(), Arc::<Stage>::default());
    let (_stop, _running) = run(world.election(), &stage, Duration::from_millis(100));
    started(&stage, 1).await;
    let second = candidate(&world, &world.election(), "b").await;
    let third = candidate(&world, &world.election(), "c").await;
    let chosen = world.election().candidates().await.expect("listed").swap_remove(2);
    let leader = timeout(SOON, world.election().ask_to_resign(Some(&chosen.id))).await.expect("soon").expect("obeyed");
    assert_eq!(leader.expect("somebody leads").id, chosen.id);
    sleep(SOON).await;
    assert_eq!(world.line().await, ["c", "v", "b"]);
    assert_eq!(stage.counts(), (1, 1));
    drop((soon(third).await, second));
}

/// For a body that hands it on to what takes such a token.
#[tokio::test(start_paused = true)]
async fn the_token_of_a_term_is_cancelled_when_the_term_is_to_end() {
    let world = World::new();
    let (stop, drained) = (CancellationToken::new(), Arc::<AtomicU32>::default());
    let (election, told, count) = (world.election(), stop.clone(), drained.clone());
    let running = tokio::spawn(async move {
        let body = |term: Term| {
            let (end, count) = (term.cancellation(), count.clone());
            async move {
                assert_eq!(end.run_until_cancelled(std::future::pending::<()>()).await, None);
                count.fetch_add(1, Ordering::SeqCst);
            }
        };
        election.run("v", told, body).await
    });
    let next = candidate(&world, &world.election(), "b").await;
    assert_eq!(drained.load(Ordering::SeqCst), 0);
    stop.cancel();
    soon(running).await.expect("no error");
    assert_eq!(drained.load(Ordering::SeqCst), 1);
    soon(next).await.resign().await.expect("resigned");
}

/// The session is back before the deadline, but the body was told by then: that term is over, and the next one has a token of its own. A drain
/// time that leaves room for the outage ends no term.
#[tokio::test(start_paused = true)]
async fn an_outage_that_the_session_survives_ends_a_term_only_if_its_body_had_to_be_told() {
    for (drain, ends) in [(Duration::from_secs(10), true), (Duration::from_millis(200), false)] {
        let (world, stage) = (World::new(), Arc::<Stage>::default());
        let (backend, election) = world.client();
        let (_stop, _running) = run(election.drain(drain), &stage, Duration::ZERO);
        started(&stage, 1).await;
        // Just before a keep-alive: the outage begins when a third of the ttl is over already.
        sleep(TTL / 3 - Duration::from_millis(100)).await;
        backend.cut(true);
        sleep(TTL / 2).await;
        backend.cut(false);
        sleep(TTL).await;
        assert_eq!(stage.counts(), if ends { (2, 1) } else { (1, 0) }, "{drain:?}");
    }
}

/// Also in the pause after terms that ended at once.
#[tokio::test(start_paused = true)]
async fn stop_is_heard_at_once_between_terms() {
    let world = World::new();
    let stop = CancellationToken::new();
    let (election, told) = (world.election(), stop.clone());
    let running = tokio::spawn(async move { election.run("v", told, |_: Term| std::future::ready(())).await });
    sleep(TTL).await; // the pauses have grown to a second by now
    let start = Instant::now();
    stop.cancel();
    timeout(TTL, running).await.expect("it ends").expect("no panic").expect("no error");
    assert!(start.elapsed() < Duration::from_millis(50), "{:?}", start.elapsed());
}
