//! One real ZooKeeper, and everything that can happen to it, to the way to it, and to what is in it. `TENURE_ROUNDS` says how often what is
//! repeated is repeated.

#![expect(clippy::print_stdout, reason = "what was measured is to be seen beside the result of the test")]

mod access;
mod cancel;
mod counts;
mod data;
mod doubt;
mod grants;
mod late;
mod loss;
mod outage;
mod overflow;
mod queues;
mod reconnect;
mod restore;
mod silence;
mod tls;
