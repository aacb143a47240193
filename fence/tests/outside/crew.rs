//! Eight workers read, add one and write, under a lock, while they are paused and killed and their connections are cut.
//!
//! `TENURE_FENCE_SECONDS` says for how long, on each resource (20 unless set).

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    },
    thread,
    time::{Duration, Instant},
};

use tenure_conformance::dice::Dice;
use tenure_core::FencingToken;
use tokio::{sync::Semaphore, time::sleep};

use crate::{
    lock::{TTL, coordinator, sqlite},
    resource::{Client, Resource, State, Wrong},
};

const WORKERS: usize = 8;

/// They wait more than they compute; more of them would take each other's processor time, and then show less.
static AT_ONCE: Semaphore = Semaphore::const_new(3);

/// What happened to one worker.
#[derive(Debug, Default)]
struct Tally {
    accepted: AtomicU64,
    /// Sent, and not answered so far.
    unknown: AtomicU64,
    refused: AtomicU64,
    changed: AtomicU64,
    killed: AtomicU64,
    paused: AtomicU64,
}

struct Worker {
    number: usize,
    lock: String,
    resource: Arc<dyn Resource>,
    dice: Dice,
    tally: Arc<Tally>,
    stop: Arc<AtomicBool>,
}

/// The run that every resource must stand behind its fence. It goes on for longer if too little has happened.
pub(crate) async fn loses_nothing(resource: Arc<dyn Resource>) {
    let _room = AT_ONCE.acquire().await.expect("it is open");
    let number = |name| std::env::var(name).ok().map(|text| text.parse::<u64>().expect("a number"));
    let length = Duration::from_secs(number("TENURE_FENCE_SECONDS").unwrap_or(20));
    let seed = number("TENURE_FENCE_SEED").unwrap_or(u64::from(std::process::id()));
    let folder = tempfile::tempdir().expect("a folder");
    let lock = sqlite(folder.path());
    drop(coordinator(&lock).await); // the file is made before eight of them want to
    let start = Instant::now();
    let stop = Arc::new(AtomicBool::new(false));
    let tallies: Vec<Arc<Tally>> = (0..WORKERS).map(|_| Arc::default()).collect();
    let worker = |number: usize| Worker {
        number,
        lock: lock.clone(),
        resource: resource.clone(),
        dice: Dice::new(seed ^ ((number as u64 + 1) << 32)),
        tally: tallies[number].clone(),
        stop: stop.clone(),
    };
    let threads: Vec<_> = (0..WORKERS).map(|number| worker(number).start()).collect();
    cut_now_and_then(&*resource, Dice::new(seed), || start.elapsed() > length && says_something(&tallies)).await;
    stop.store(true, SeqCst);
    for thread in threads {
        tokio::task::spawn_blocking(|| thread.join()).await.expect("it ends").expect("no worker panics");
    }
    let last = last(&resource).await;
    let seconds = start.elapsed().as_secs();
    println!("{resource:?}: seed {seed}, {seconds} s: {} writes, {}", last.count, sums(&tallies));
    judge(&last, &tallies);
}

async fn cut_now_and_then(resource: &dyn Resource, dice: Dice, done: impl Fn() -> bool) {
    let limit = Instant::now() + Duration::from_secs(600);
    while !done() {
        assert!(Instant::now() < limit, "nothing happens");
        // Rarer than the pauses are long, so that a late write finds its connection now and then.
        sleep(Duration::from_millis(500) + dice.time(Duration::from_secs(5))).await;
        resource.cut(true);
        sleep(dice.time(Duration::from_millis(250))).await;
        resource.cut(false);
    }
}

/// Whether all that is to be shown has happened.
fn says_something(tallies: &[Arc<Tally>]) -> bool {
    let sum = |count: fn(&Tally) -> &AtomicU64| tallies.iter().map(|tally| count(tally).load(SeqCst)).sum::<u64>();
    let late = sum(|tally| &tally.refused) + sum(|tally| &tally.changed);
    sum(|tally| &tally.accepted) >= 20 && sum(|tally| &tally.paused) > 0 && sum(|tally| &tally.killed) > 0 && late > 0
}

/// After all: what no holder can be too old for.
async fn last(resource: &Arc<dyn Resource>) -> State {
    let mut client = resource.client().await.expect("it connects");
    client.read(FencingToken::new(u64::MAX)).await.expect("the highest token")
}

fn judge(last: &State, tallies: &[Arc<Tally>]) {
    assert_eq!(last.fell, 0, "accepted tokens fell: {last:?}");
    assert_eq!(last.by.values().sum::<u64>(), last.count, "{last:?}");
    for (number, tally) in tallies.iter().enumerate() {
        let (stored, accepted) = (last.by.get(&number).copied().unwrap_or(0), tally.accepted.load(SeqCst));
        assert!(stored >= accepted, "worker {number}: {accepted} accepted, {stored} stored: updates were lost");
        let most = accepted + tally.unknown.load(SeqCst);
        assert!(stored <= most, "worker {number}: {stored} stored, at most {most} accepted");
    }
}

fn sums(tallies: &[Arc<Tally>]) -> String {
    let sum = |count: fn(&Tally) -> &AtomicU64| tallies.iter().map(|tally| count(tally).load(SeqCst)).sum::<u64>();
    format!(
        "{} accepted, {} unknown, {} refused, {} changed; {} pauses, {} kills",
        sum(|tally| &tally.accepted),
        sum(|tally| &tally.unknown),
        sum(|tally| &tally.refused),
        sum(|tally| &tally.changed),
        sum(|tally| &tally.paused),
        sum(|tally| &tally.killed),
    )
}

impl Worker {
    /// A life after the other, each in a runtime of its own, with which all ends as it stands: nobody releases or says goodbye.
    fn start(self) -> thread::JoinHandle<()> {
        thread::spawn(move || {
            while !self.stop.load(SeqCst) {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
                let life = Duration::from_secs(3) + self.dice.time(Duration::from_secs(12));
                runtime.block_on(async {
                    tokio::select! {
                        () = self.live() => {}
                        () = self.stopped() => {}
                        () = sleep(life) => drop(self.tally.killed.fetch_add(1, SeqCst)),
                    }
                });
                runtime.shutdown_background();
            }
        })
    }

    async fn stopped(&self) {
        while !self.stop.load(SeqCst) {
            sleep(Duration::from_millis(20)).await;
        }
    }

    async fn live(&self) {
        let coordinator = coordinator(&self.lock).await;
        loop {
            let Ok(mut client) = self.resource.client().await else {
                sleep(Duration::from_millis(20)).await;
                continue;
            };
            while let Ok(guard) = coordinator.lock("resource").await {
                if self.add_one(client.as_mut(), guard.token()).await.is_err() {
                    break; // its connection is gone
                }
                drop(guard);
                sleep(self.dice.time(Duration::from_millis(10))).await;
            }
        }
    }

    async fn add_one(&self, client: &mut dyn Client, token: FencingToken) -> Result<(), ()> {
        let Some(state) = self.settle(client.read(token).await)? else { return Ok(()) };
        if self.dice.happens(60) {
            // The whole runtime: nothing is renewed meanwhile.
            thread::sleep(TTL + TTL / 2 + self.dice.time(TTL));
            self.tally.paused.fetch_add(1, SeqCst);
        } else {
            sleep(self.dice.time(Duration::from_millis(5))).await;
        }
        // Whether or not the lock is still held: the fence is there to judge it.
        self.tally.unknown.fetch_add(1, SeqCst);
        let written = self.settle(client.write(token, &state.after(self.number, token)).await)?;
        self.tally.unknown.fetch_sub(1, SeqCst);
        if written.is_some() {
            self.tally.accepted.fetch_add(1, SeqCst);
        }
        Ok(())
    }

    /// `None` if it was certainly not done.
    fn settle<T>(&self, answer: Result<T, Wrong>) -> Result<Option<T>, ()> {
        match answer {
            Ok(value) => return Ok(Some(value)),
            Err(Wrong::Fenced(_)) => self.tally.refused.fetch_add(1, SeqCst),
            Err(Wrong::Changed) => self.tally.changed.fetch_add(1, SeqCst),
            Err(Wrong::Unknown(error)) => {
                if self.tally.unknown.load(SeqCst) == 1 {
                    println!("worker {}, for instance: {error}", self.number);
                }
                return Err(());
            }
        };
        Ok(None)
    }
}
