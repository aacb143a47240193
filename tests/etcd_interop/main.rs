//! Go's own mutex on etcd and ours, on one name. `TENURE_ROUNDS` says how often what is repeated is repeated.

#![expect(clippy::print_stdout, reason = "what was measured is to be seen beside the result of the test")]

mod program;

use std::{
    fs::File,
    path::Path,
    sync::atomic::{AtomicU32, Ordering},
    time::{Duration, Instant},
};

use tenure_conformance::server::etcd::{Etcd, Release, Setup};
use tenure_core::Coordinator;
use tenure_tests::on_etcd::{coordinator, rounds, until_queued};
use tokio::time::timeout;

use self::program::{Kind, Program};

const TTL: Duration = Duration::from_secs(3);
const SOON: Duration = Duration::from_secs(5);

/// One holds, the other waits; then the first one ends, or is killed.
async fn hand_over(etcd: &Etcd, [first, second]: [Kind; 2], kill: bool) {
    let mut holder = Program::start(first, etcd, "x", TTL).await;
    let token = holder.locked(SOON).await.expect("granted");
    let mut waiter = Program::start(second, etcd, "x", TTL).await;
    until_queued(etcd, "x", 2).await;
    assert_eq!(waiter.locked(Duration::from_millis(150)).await, None, "{second:?} and {first:?} both hold");
    if kill {
        holder.kill().await;
        // It has renewed a third of the ttl ago at most.
        assert_eq!(waiter.locked(TTL / 2).await, None, "{second:?} holds, {first:?} may go on to hold");
    } else {
        holder.release(SOON).await;
    }
    let next = waiter.locked(TTL + SOON).await.expect("granted when the other one has ended");
    assert!(next > token, "{second:?} has {next} after {first:?} had {token}");
    waiter.release(SOON).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_mutex_of_go_and_ours_exclude_each_other_both_ways() {
    for release in [Release::Packaged, Release::V3_5] {
        let etcd = Setup::single(release).start().await;
        let (rounds, mut killed) = (rounds(10), 0);
        for round in 0..rounds {
            let kill = round % 5 == 2;
            for kinds in [[Kind::Ours, Kind::Go], [Kind::Go, Kind::Ours]] {
                hand_over(&etcd, kinds, kill).await;
                killed += u32::from(kill);
            }
        }
        println!("{release:?}: {rounds} rounds both ways, {killed} holders killed");
        assert!(killed > 0);
    }
}

/// Locks, and makes a file under the lock that nobody else may have made.
async fn cycle(coordinator: Coordinator, count: u32, file: &Path, done: &AtomicU32) {
    for _ in 0..count {
        let guard = timeout(SOON * 4, coordinator.lock("y")).await.expect("its turn comes").expect("granted");
        File::options().write(true).create_new(true).open(file).expect("nobody else holds");
        std::fs::remove_file(file).expect("it is there");
        guard.release().await.expect("released");
        done.fetch_add(1, Ordering::Relaxed);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_mutex_of_go_and_ours_take_turns() {
    let etcd = Setup::single(Release::Packaged).start().await;
    let (each, file, done) =
        (10 * u32::try_from(rounds(10)).expect("few"), etcd.folder().join("held"), AtomicU32::new(0));
    let [one, other] = [coordinator(&etcd.hosts(), "ttl=10s").await, coordinator(&etcd.hosts(), "ttl=10s").await];
    let start = Instant::now();
    let go = Program::cycle(&etcd, "y", each, &file).await;
    let go_too = Program::cycle(&etcd, "y", each, &file).await;
    tokio::join!(
        cycle(one, each, &file, &done),
        cycle(other, each, &file, &done),
        go.done(SOON * 12),
        go_too.done(SOON * 12)
    );
    println!("2 of Go and {} of ours: {} locks in {:?}", 2, 4 * each, start.elapsed());
    assert_eq!(done.load(Ordering::Relaxed), 2 * each);
}
