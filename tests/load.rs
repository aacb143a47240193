//! What goes on while servers fail: some locks are held all the time, others go from client to client.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use tenure_conformance::server::until;
use tenure_core::LockGuard;
use tokio::{
    task::JoinHandle,
    time::{sleep, timeout},
};

use crate::{client::Client, ledger::Ledger};

/// A call is given up after two seconds, a silent watch is looked after every four, and there may be two elections
/// with five seconds between them.
const LIMIT: Duration = Duration::from_secs(20);

/// Two clients at work.
#[derive(Debug)]
pub struct Load {
    held: Vec<Arc<LockGuard>>,
    cycles: Vec<JoinHandle<()>>,
    shared: Arc<Shared>,
    clients: Vec<Client>,
}

#[derive(Debug, Default)]
struct Shared {
    ledger: Ledger,
    stop: AtomicBool,
    /// In milliseconds, since the last look.
    longest: AtomicU64,
    /// How often each client had each name.
    turns: Vec<[AtomicU64; 2]>,
}

impl Load {
    /// So many locks are held, and so many names are wanted by both clients.
    pub async fn start(clients: [Client; 2], hold: usize, names: usize) -> Self {
        let turns = (0..names).map(|_| <[AtomicU64; 2]>::default()).collect();
        let shared = Arc::new(Shared { turns, ..Shared::default() });
        let (mut held, mut cycles) = (Vec::new(), Vec::new());
        for number in 0..hold {
            let guard = clients[number % 2].lock(format!("held-{number}"), LIMIT).await;
            held.push(shared.ledger.granted(guard));
        }
        for number in 0..names {
            for (at, client) in clients.iter().enumerate() {
                cycles.push(tokio::spawn(cycle(shared.clone(), client.clone(), at, number)));
            }
        }
        Self { held, cycles, shared, clients: clients.into() }
    }

    /// The longest lock and release since the last look.
    pub fn longest(&self) -> Duration {
        Duration::from_millis(self.shared.longest.swap(0, Ordering::Relaxed))
    }

    /// Nothing is lost, and every client gets every name again.
    ///
    /// # Panics
    /// If something is lost, or somebody is stuck.
    pub async fn goes_on(&self, after: &str) {
        let turns = || self.shared.turns.iter().flatten().map(|turns| turns.load(Ordering::Relaxed));
        let before: Vec<_> = turns().collect();
        let all = || std::future::ready(turns().zip(&before).all(|(now, before)| now > *before + 1));
        let stuck = || turns().zip(&before).filter(|(now, before)| *now <= *before + 1).count();
        assert!(until(LIMIT, all).await, "{after}: {} of {} cycles do not go on", stuck(), before.len());
        let lost = self.held.iter().filter(|guard| !guard.is_held()).count();
        assert_eq!(lost, 0, "{after}: lost, of {} that are held", self.held.len());
    }

    /// Says how many turns there were.
    ///
    /// # Panics
    /// If an error has reached a user, or something was lost.
    pub async fn end(self) -> u64 {
        self.shared.stop.store(true, Ordering::Relaxed);
        for cycle in self.cycles {
            timeout(LIMIT * 2, cycle).await.expect("it ends").expect("no error reaches the user");
        }
        for (number, guard) in self.held.into_iter().enumerate() {
            assert!(guard.is_held());
            let guard = self.shared.ledger.released(guard);
            self.clients[number % 2].release(guard, LIMIT).await;
        }
        for client in self.clients {
            client.close().await;
        }
        self.shared.turns.iter().flatten().map(|turns| turns.load(Ordering::Relaxed)).sum()
    }
}

async fn cycle(shared: Arc<Shared>, client: Client, at: usize, number: usize) {
    while !shared.stop.load(Ordering::Relaxed) {
        let start = Instant::now();
        let guard = shared.ledger.granted(client.lock(format!("cycled-{number}"), LIMIT).await);
        sleep(Duration::from_millis(5)).await;
        client.release(shared.ledger.released(guard), LIMIT).await;
        let took = u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX);
        shared.longest.fetch_max(took, Ordering::Relaxed);
        shared.turns[number][at].fetch_add(1, Ordering::Relaxed);
        sleep(Duration::from_millis(20)).await;
    }
}
