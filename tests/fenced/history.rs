//! Eight workers add to one number in the service, by reading and then writing, while they are paused, killed and cut off.

use std::{
    hash::{BuildHasher, RandomState},
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use tenure_conformance::{
    dice::Dice,
    history::{Answer, Crew, Fault, Nemesis, Request, Summary, Trial, check},
    proxy::{Mode, Proxy},
};
use tenure_core::async_trait;
use tokio::time::sleep;

use crate::{AT_ONCE, etcd, on_etcd, on_sqlite, on_zk, zookeeper};

/// All workers lose their way to the service for a while.
#[derive(Debug)]
struct Cut(Arc<Proxy>, Duration);

#[async_trait]
impl Fault for Cut {
    fn name(&self) -> &str {
        "cut"
    }

    async fn strike(&self, _: &Crew, dice: Dice) -> io::Result<()> {
        let modes = [Mode::Stall, Mode::DropReplies, Mode::Cut, Mode::Blackhole, Mode::DropRequests];
        self.0.set(modes[usize::try_from(dice.roll(5)).unwrap_or(0)]);
        sleep(Duration::from_millis(100) + dice.time(self.1)).await;
        self.0.set(Mode::Pass);
        Ok(())
    }
}

/// Somebody keeps SQLite's write lock for a while.
#[derive(Debug)]
struct Blocked(PathBuf, Duration);

#[async_trait]
impl Fault for Blocked {
    fn name(&self) -> &str {
        "cut"
    }

    async fn strike(&self, _: &Crew, dice: Dice) -> io::Result<()> {
        let database = rusqlite::Connection::open(&self.0).map_err(io::Error::other)?;
        database.busy_timeout(Duration::from_secs(5)).map_err(io::Error::other)?;
        // The workers may be faster for a while; then there is nothing to be held.
        if database.execute_batch("BEGIN IMMEDIATE").is_ok() {
            sleep(Duration::from_millis(100) + dice.time(self.1)).await;
            database.execute_batch("ROLLBACK").map_err(io::Error::other)?;
        }
        Ok(())
    }
}

fn seed() -> u64 {
    RandomState::new().hash_one(0)
}

async fn nothing_is_lost(url: &str, cut: impl Fault) {
    let seconds = std::env::var("TENURE_FENCED_SECONDS").map_or(20, |text| text.parse().expect("a number of seconds"));
    let (folder, seed) = (tempfile::tempdir().expect("a folder"), seed());
    println!("{url}: seed {seed}, {seconds} s");
    let worker = Path::new(env!("CARGO_BIN_EXE_tenure-worker"));
    let trial = Trial::new(url, worker, folder.path(), seed, Duration::from_secs(seconds)).expect("a good URL");
    let nemesis = Nemesis::usual(seed, trial.ttl()).with(cut);
    let trial = trial.inside(tenure::drivers()).with_workers(8).with_nemesis(nemesis);
    let mut expected = trial.expectations();
    // With everybody cut off for a while there is less of everything.
    expected.grants = usize::try_from(seconds).expect("few");
    expected.losses /= 3;
    expected.progress += Duration::from_secs(2);
    let is_short = seconds < 30;
    if is_short {
        (expected.losses, expected.refused) = (0, 0);
        expected.strikes.values_mut().for_each(|least| *least = 1);
    }
    let limit = Duration::from_secs(3 * seconds + 60);
    let history = tokio::time::timeout(limit, trial.run()).await.expect("it ends").expect("a run");
    println!("{}; the number is {}", Summary::of(&history), history.value);
    let wrong = check(&history, &expected).err().unwrap_or_default();
    assert!(wrong.0.is_empty(), "{wrong}");
    assert!(history.value >= 10, "nothing was tested: {:?}", history.strikes);
    // A guard that is over by its own clock names no winner, and asks nobody.
    let by_the_service = |request: &&Request| matches!(request.answer, Answer::Refused(winner) if winner.get() > 0);
    let refused = history.store.iter().filter(by_the_service).count();
    assert!(is_short || refused > 0, "the service had nothing to refuse");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn eight_workers_that_are_killed_and_cut_off_lose_no_update_in_sqlite() {
    let _room = AT_ONCE.acquire().await.expect("it is open");
    let folder = tempfile::tempdir().expect("a folder");
    let blocked = Blocked(folder.path().join("t.db"), Duration::from_millis(1500));
    nothing_is_lost(&on_sqlite(folder.path()), blocked).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn eight_workers_that_are_killed_and_cut_off_lose_no_update_in_etcd() {
    let _room = AT_ONCE.acquire().await.expect("it is open");
    let etcd = etcd().await;
    let proxy = Arc::new(Proxy::start(etcd.nodes[0].client).await.expect("a proxy"));
    let url = on_etcd(&proxy.address().to_string());
    nothing_is_lost(&url, Cut(proxy.clone(), Duration::from_secs(3))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn eight_workers_that_are_killed_and_cut_off_lose_no_update_in_zookeeper() {
    let _room = AT_ONCE.acquire().await.expect("it is open");
    let zookeeper = zookeeper().await;
    let proxy = Arc::new(Proxy::start(zookeeper.nodes[0].client).await.expect("a proxy"));
    let url = on_zk(&proxy.address().to_string());
    nothing_is_lost(&url, Cut(proxy.clone(), Duration::from_secs(3))).await;
}
