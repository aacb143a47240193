//! Elections on real servers, which go away and come back. `TENURE_ROUNDS` says how often what is repeated is repeated.

#![expect(clippy::print_stdout, reason = "what was measured is to be seen beside the result of the test")]

mod bare;
mod cancelled;
mod observers;
mod outage;
mod preferred;
mod service;
mod stage;
mod trips;
