//! Simulation: contenders with flaky ways to one memory backend, on a paused clock that jumps, with cuts, cancelled calls and an
//! operator. A seed repeats all faults and times, but not the order in which tokio's channels wake several waiters of one moment: so
//! `TENURE_SIM_SEED` runs one seed fifty times. `TENURE_SIM_SEEDS` sets how many are run otherwise.

#![expect(clippy::print_stdout, reason = "the counts are to be seen beside the result of the test")]

use std::{
    num::NonZeroU32,
    ops::Deref,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tenure_conformance::{
    dice::Dice,
    flaky::{Flaky, Odds},
    queue,
};
use tenure_core::{
    Backend, Contender, Coordinator, LockGuard, MemoryBackend, Options, Permit, ReadGuard, Result, Tenure, TestClock,
    Turn, turn,
};
use tokio::{
    task::JoinHandle,
    time::{Instant, sleep, timeout},
};

const TTL: Duration = Duration::from_secs(2);
const NAMES: [&str; 2] = ["a", "a/b"];

/// What happened, over all seeds.
#[derive(Debug, Default)]
struct Counts {
    grants: AtomicU64,
    cancelled: AtomicU64,
    losses: AtomicU64,
    faults: AtomicU64,
    cuts: AtomicU64,
    suspends: AtomicU64,
    removals: AtomicU64,
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

enum Guard {
    Lock(LockGuard),
    Read(ReadGuard),
    Permit(Permit, u32),
}

impl Deref for Guard {
    type Target = Tenure;

    fn deref(&self) -> &Tenure {
        match self {
            Self::Lock(guard) => guard,
            Self::Read(guard) => guard,
            Self::Permit(guard, _) => guard,
        }
    }
}

impl Guard {
    async fn acquire(coordinator: &Coordinator, name: &str, dice: &Dice) -> Result<Self> {
        match dice.roll(6) {
            0 => coordinator.read(name).await.map(Self::Read),
            1 => {
                let limit = 1 + u32::from(dice.happens(500));
                coordinator
                    .permit(name, NonZeroU32::MIN.saturating_add(limit - 1))
                    .await
                    .map(|permit| Self::Permit(permit, limit))
            }
            _ => coordinator.lock(name).await.map(Self::Lock),
        }
    }

    async fn release(self) -> Result<()> {
        match self {
            Self::Lock(guard) => guard.release().await,
            Self::Read(guard) => guard.release().await,
            Self::Permit(guard, _) => guard.release().await,
        }
    }
}

/// Everybody who believes to hold something, and the highest token of each name.
#[derive(Default)]
struct Believers {
    held: Vec<Arc<Guard>>,
    highest: [u64; NAMES.len()],
}

impl Believers {
    fn add(&mut self, guard: &Arc<Guard>, at: usize) {
        self.held.push(guard.clone());
        if let Guard::Lock(lock) = &**guard {
            let token = lock.token().get();
            assert!(token > self.highest[at], "token {token} after {}", self.highest[at]);
            self.highest[at] = token;
        }
        let together: Vec<_> =
            self.held.iter().filter(|other| other.name() == guard.name() && other.is_held()).collect();
        let all_readers = together.iter().all(|other| matches!(***other, Guard::Read(_)));
        let limits =
            together.iter().map(|other| if let Guard::Permit(_, limit) = ***other { limit as usize } else { 0 });
        let smallest = limits.min().unwrap_or(0);
        assert!(
            together.len() <= 1 || all_readers || together.len() <= smallest,
            "{} hold {} together",
            together.len(),
            guard.name()
        );
    }

    fn remove(&mut self, guard: &Arc<Guard>) {
        self.held.retain(|other| !Arc::ptr_eq(other, guard));
    }
}

struct World {
    clock: TestClock,
    backend: MemoryBackend,
    believers: Mutex<Believers>,
    counts: Arc<Counts>,
}

impl World {
    fn believers(&self) -> std::sync::MutexGuard<'_, Believers> {
        self.believers.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn coordinator(&self, backend: impl Backend) -> Coordinator {
        let mut options = Options::default();
        options.ttl = TTL;
        Coordinator::new(backend, options).expect("good options")
    }
}

/// One contender: acquires, works, releases or drops, gives up, and is cut off now and then.
async fn contend(world: Arc<World>, seed: u64) -> Coordinator {
    let dice = Dice::new(seed);
    let flaky = Flaky::new(Arc::new(world.backend.other_client()), seed + 1, Odds::BAD);
    let coordinator = world.coordinator(flaky.clone());
    let breaker = tokio::spawn(cut_now_and_then(world.clone(), flaky.clone(), Dice::new(seed + 2)));
    let end = Instant::now() + Duration::from_secs(60);
    while Instant::now() < end {
        let at = usize::from(dice.happens(200));
        match timeout(dice.time(Duration::from_secs(3)), Guard::acquire(&coordinator, NAMES[at], &dice)).await {
            Err(_) => count(&world.counts.cancelled),
            Ok(Err(error)) => panic!("{error:?}"),
            Ok(Ok(guard)) => hold(&world, guard, at, &dice).await,
        }
    }
    breaker.abort();
    flaky.cut(false);
    world.counts.faults.fetch_add(flaky.faults(), Ordering::Relaxed);
    coordinator
}

async fn hold(world: &World, guard: Guard, at: usize, dice: &Dice) {
    count(&world.counts.grants);
    let guard = Arc::new(guard);
    world.believers().add(&guard, at);
    tokio::select! {
        biased;
        _ = guard.lost() => {
            count(&world.counts.losses);
            assert!(!guard.is_held(), "told as lost, but held");
        }
        () = sleep(dice.time(Duration::from_secs(5))) => {
            // A suspend can end it just now; that is told one slice of the clock's sleep later.
            if !guard.is_held() {
                timeout(Duration::from_millis(250), guard.lost()).await.expect("a loss is told at the deadline");
            }
        }
    }
    world.believers().remove(&guard);
    let guard = Arc::into_inner(guard).expect("nobody else has it");
    if dice.happens(500) {
        drop(guard);
    } else {
        let _ = timeout(dice.time(Duration::from_secs(1)), guard.release()).await;
    }
}

async fn cut_now_and_then(world: Arc<World>, flaky: Arc<Flaky>, dice: Dice) {
    loop {
        sleep(Duration::from_secs(2) + dice.time(Duration::from_secs(8))).await;
        count(&world.counts.cuts);
        flaky.cut(true);
        sleep(dice.time(TTL * 5 / 2)).await;
        flaky.cut(false);
    }
}

/// Suspends the machine, and removes entries of contenders who wait, as an operator might.
async fn meddle(world: Arc<World>, dice: Dice) {
    loop {
        sleep(dice.time(Duration::from_secs(3))).await;
        if dice.happens(30) {
            count(&world.counts.suspends);
            world.clock.suspend(dice.time(TTL * 2));
        }
        let name = queue(NAMES[usize::from(dice.happens(200))]);
        let contenders: Vec<_> =
            world.backend.entries(&name).into_iter().map(|id| Contender { id, key: "".into() }).collect();
        let waiting: Vec<_> = contenders.iter().filter(|who| turn(&contenders, &who.id) != Turn::Mine).collect();
        if let Some(victim) = waiting.get(usize::try_from(dice.roll(4)).unwrap_or(0)) {
            count(&world.counts.removals);
            world.backend.remove(&name, &victim.id);
        }
    }
}

async fn run(seed: u64, counts: Arc<Counts>) {
    let clock = TestClock::new();
    let backend = MemoryBackend::with_clock(clock.clock());
    let world = Arc::new(World { clock, backend, believers: Mutex::default(), counts });
    let operator = tokio::spawn(meddle(world.clone(), Dice::new(seed * 1000 + 999)));
    let contenders: Vec<JoinHandle<_>> =
        (0..5).map(|number| tokio::spawn(contend(world.clone(), seed * 1000 + number * 10))).collect();
    let mut alive = Vec::new();
    for contender in contenders {
        alive.push(contender.await.expect("no violation"));
    }
    operator.abort();
    // Their sessions live on: only an entry that nobody wants could be in the way now.
    sleep(Duration::from_secs(12)).await;
    for name in NAMES {
        let newcomer = world.coordinator(world.backend.other_client());
        let granted = timeout(Duration::from_secs(10), newcomer.lock(name)).await;
        let granted =
            granted.unwrap_or_else(|_| panic!("a zombie holds {name}: {:?}", world.backend.entries(&queue(name))));
        granted.expect("granted").release().await.expect("released");
    }
    drop(alive);
}

fn run_paused(seed: u64, counts: Arc<Counts>) {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime");
    runtime.block_on(run(seed, counts));
}

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} must be a number")))
}

#[test]
fn nobody_shares_what_is_exclusive_and_nothing_stays_behind() {
    let counts = Arc::new(Counts::default());
    if let Some(seed) = setting("TENURE_SIM_SEED") {
        return (0..50).for_each(|_| run_paused(seed, counts.clone()));
    }
    let seeds = setting("TENURE_SIM_SEEDS").unwrap_or(200);
    let next = Arc::new(AtomicU64::new(1));
    let threads: Vec<_> = (0..2)
        .map(|_| {
            let (next, counts) = (next.clone(), counts.clone());
            std::thread::spawn(move || {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed > seeds {
                        return;
                    }
                    let failed = std::panic::catch_unwind(|| run_paused(seed, counts.clone())).is_err();
                    assert!(!failed, "seed {seed} failed: TENURE_SIM_SEED={seed} repeats it");
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().expect("no seed failed");
    }
    println!("{seeds} seeds: {counts:?}");
    for counter in [
        &counts.grants,
        &counts.cancelled,
        &counts.losses,
        &counts.faults,
        &counts.cuts,
        &counts.suspends,
        &counts.removals,
    ] {
        assert!(counter.load(Ordering::Relaxed) >= seeds / 2, "too little happened: {counts:?}");
    }
}
