//! Elections on the command line, with real processes on SQLite. `TENURE_ROUNDS` says how often what is repeated is repeated.

#![expect(clippy::print_stdout, reason = "what was measured is to be seen beside the result of the test")]

#[path = "../support/mod.rs"]
mod support;

mod faults;
mod health;
mod history;
mod ledger;
mod observing;
mod replicas;
mod resigning;
mod rolling;
mod stuck;
mod terms;

#[cfg(feature = "http")]
mod crowd;
#[cfg(feature = "http")]
mod sidecar;

use std::time::Duration;

use replicas::Replicas;
use support::Room;

const TTL: Duration = Duration::from_secs(2);

/// Three replicas on a database of their own.
fn replicas() -> Replicas {
    Replicas::start(Room::with_ttl("2s"), TTL, 3)
}
