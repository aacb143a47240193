//! Three etcd servers on this machine, of which one dies, stops, lags, or all are restored from a backup.

#![expect(clippy::print_stdout, reason = "what was measured is to be seen beside the result of the test")]

mod failover;
mod first_item;
mod late;
mod restore;

use tenure_conformance::server::etcd::{Etcd, Release, Setup};
use tokio::sync::{Mutex, MutexGuard};

/// Clusters beside each other would take each other's processor time, and lose their leaders for that.
static ONE_AT_A_TIME: Mutex<()> = Mutex::const_new(());

async fn cluster(release: Release) -> (Etcd, MutexGuard<'static, ()>) {
    let alone = ONE_AT_A_TIME.lock().await;
    (Setup::cluster(release).start().await, alone)
}

/// The leader and the two others.
async fn roles(etcd: &Etcd) -> (usize, [usize; 2]) {
    let mut leader = None;
    while leader.is_none() {
        leader = etcd.leader().await;
    }
    let leader = leader.expect("known by now");
    (leader, [(leader + 1) % 3, (leader + 2) % 3])
}
