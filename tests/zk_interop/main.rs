//! Other people's locks on ZooKeeper and ours, on one name. `TENURE_ROUNDS` says how often what is repeated is repeated.

#![expect(clippy::print_stdout, reason = "what was measured is to be seen beside the result of the test")]

mod program;

use std::time::{Duration, Instant};

use tenure_conformance::server::{
    until,
    zookeeper::{Setup, Zookeeper},
};
use tenure_tests::{on_zk::until_queued, rounds};

use self::program::{Kind, Program};

const TTL: Duration = Duration::from_secs(3);
const SOON: Duration = Duration::from_secs(10);
/// Of so many rounds, one kills the holder.
const KILLED: usize = 5;

/// One holds, the other waits; then the first one lets go, or is killed and replaced.
async fn hand_over(zookeeper: &Zookeeper, [first, second]: [&mut Program; 2], kill: bool) {
    let kinds = (first.kind(), second.kind());
    first.lock().await;
    let token = first.locked(SOON).await.expect("granted");
    second.lock().await;
    until_queued(zookeeper, "x", 2).await;
    assert_eq!(second.locked(Duration::from_millis(30)).await, None, "both of {kinds:?} hold");
    if kill {
        let next = Program::start(first.kind(), zookeeper, "x", TTL).await;
        std::mem::replace(first, next).kill().await;
        // It has been heard of a third of the ttl ago at most.
        assert_eq!(second.locked(TTL / 2).await, None, "{kinds:?}: the killed one may go on to hold");
    } else {
        first.release(SOON).await;
    }
    let next = second.locked(TTL + SOON).await.unwrap_or_else(|| panic!("{kinds:?}: never handed over"));
    assert!(next > token, "{kinds:?}: {next} after {token}");
    second.release(SOON).await;
}

async fn both_ways(foreign: Kind) {
    let zookeeper = Setup::single().start().await;
    let (rounds, mut killed) = (rounds(5), 0);
    let mut ours = Program::start(Kind::Ours, &zookeeper, "x", TTL).await;
    let mut theirs = Program::start(foreign, &zookeeper, "x", TTL).await;
    let start = Instant::now();
    for round in 0..rounds {
        let kill = round % KILLED == 2;
        hand_over(&zookeeper, [&mut ours, &mut theirs], kill).await;
        hand_over(&zookeeper, [&mut theirs, &mut ours], kill).await;
        killed += 2 * u32::from(kill);
    }
    println!("{foreign:?}: {rounds} rounds both ways, {killed} holders killed, in {:?}", start.elapsed());
    assert!(killed > 0);
    ours.end(SOON).await;
    theirs.end(SOON).await;
    assert!(zookeeper.operator().await.list("/n/x").await.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_mutex_of_curator_and_ours_exclude_each_other_both_ways() {
    both_ways(Kind::Curator).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_lock_of_kazoo_and_ours_exclude_each_other_both_ways() {
    both_ways(Kind::Kazoo).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_recipe_on_zookeeper_async_and_ours_exclude_each_other_both_ways() {
    both_ways(Kind::Async).await;
}

/// Two of each, so many locks in a row, and under each a file that nobody else may have made.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn foreign_locks_and_ours_take_turns() {
    let zookeeper = Setup::single().start().await;
    let each = 10 * u32::try_from(rounds(5)).expect("few");
    for foreign in Kind::FOREIGN {
        let (name, file) = (format!("{foreign:?}"), zookeeper.folder().join("held"));
        let mut programs = Vec::new();
        for kind in [Kind::Ours, foreign, Kind::Ours, foreign] {
            programs.push(Program::cycle(kind, &zookeeper, &name, each, &file).await);
        }
        let start = Instant::now();
        for program in &mut programs {
            program.begin().await;
        }
        for program in programs {
            program.done(SOON * 12).await;
        }
        println!("2 of {foreign:?} and 2 of ours: {} locks in {:?}", 4 * each, start.elapsed());
        let path = format!("/n/{name}");
        let empty = || async { zookeeper.operator().await.list(&path).await.is_empty() };
        assert!(until(SOON, empty).await, "something stays in {path}");
    }
}
