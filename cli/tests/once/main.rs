//! `tenure once`, with real processes on SQLite. `TENURE_ROUNDS` says how often what is repeated is repeated.

#![expect(clippy::print_stdout, reason = "what was measured is to be seen beside the result of the test")]

#[path = "../support/mod.rs"]
mod support;

mod chaos;
mod clocks;
mod crash;
mod plain;
mod runs;
