//! The command line on real etcd servers: what a fault of theirs does to the command that runs, what people are told if they cannot be
//! used, and that a configuration is all it takes to get there. `TENURE_ROUNDS` says how often what is repeated is repeated.

#![expect(clippy::print_stdout, reason = "what was measured is to be seen beside the result of the test")]

#[path = "../support/mod.rs"]
mod support;

#[path = "../once/fleet.rs"]
mod fleet;
#[path = "../elect/ledger.rs"]
mod ledger;
#[path = "../elect/replicas.rs"]
mod replicas;
#[path = "../once/runs.rs"]
mod runs;

mod elect;
mod exclusion;
mod loss;
mod once;
mod refused;
mod switch;

use support::{Room, until};
use tenure_conformance::server::etcd::{Etcd, Release, Setup};

async fn start() -> Etcd {
    Setup::single(Release::Packaged).start().await
}

/// A folder for commands on these hosts, in the namespace `n`.
fn room(hosts: &str, settings: &str) -> Room {
    Room::on(format!("etcd://{hosts}/n?{settings}"))
}

/// Until so many entries stand in the queue of `job`.
fn until_queued(etcd: &Etcd, count: usize) {
    until("the entries", || etcd.keys("n/job/").len() == count);
}
