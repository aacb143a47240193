//! The command line on a real ZooKeeper: what is not the same on every backend. `TENURE_ROUNDS` says how often what is repeated is repeated.

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
mod once;
