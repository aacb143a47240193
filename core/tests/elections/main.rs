//! Elections, on the memory backend and a paused clock.

mod health;
mod history;
mod observers;
mod office;
mod room;
mod running;
mod stubborn;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tenure_core::{ContenderId, Coordinator, Election, Leadership, MemoryBackend, Options, QueueName, TestClock};
use tokio::{
    runtime::Handle,
    task::JoinHandle,
    time::{sleep, timeout},
};

const TTL: Duration = Duration::from_secs(10);
const SOON: Duration = Duration::from_millis(500);

/// A service, and its clients.
struct World(MemoryBackend);

impl World {
    fn new() -> Self {
        Self(MemoryBackend::with_clock(TestClock::new().clock()))
    }

    /// Of a client of its own, which can be told to fail.
    fn client(&self) -> (MemoryBackend, Election) {
        let backend = self.0.other_client();
        let coordinator = Coordinator::new(backend.clone(), Options::default()).expect("good options");
        (backend, coordinator.election("x"))
    }

    fn election(&self) -> Election {
        self.client().1
    }

    fn remove(&self, id: &ContenderId) -> bool {
        self.0.remove(&QueueName::new("x").expect("a good name"), id)
    }

    /// The values of all candidates, in order.
    async fn line(&self) -> Vec<String> {
        let all = self.election().candidates().await.expect("listed");
        all.into_iter().map(|candidate| String::from_utf8(candidate.value).expect("text")).collect()
    }
}

/// Campaigns in the background; returns once it stands in line.
async fn candidate(world: &World, election: &Election, value: &'static str) -> JoinHandle<Leadership> {
    let (election, before) = (election.clone(), world.line().await.len());
    let campaign = tokio::spawn(async move { election.campaign(value).await.expect("won") });
    while world.line().await.len() <= before {
        sleep(Duration::from_millis(1)).await;
    }
    campaign
}

async fn soon<T>(task: JoinHandle<T>) -> T {
    timeout(SOON, task).await.expect("soon").expect("no panic")
}

/// Wakes a runtime now and then from outside. If a task blocks the thread that waits for timers, tokio lets no other one wait for them before
/// something else wakes it: nothing of that runtime goes on then, keep-alives included, and the deadline ends what is held.
struct Awake(Arc<AtomicBool>);

impl Awake {
    fn keep() -> Self {
        let (runtime, over) = (Handle::current(), Arc::<AtomicBool>::default());
        let told = over.clone();
        std::thread::spawn(move || {
            while !told.load(Ordering::SeqCst) {
                runtime.spawn(async {});
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        Self(over)
    }
}

impl Drop for Awake {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}
