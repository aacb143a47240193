//! The test that believes nobody: worker processes take the lock and change a fenced store, a [`Nemesis`] kills and pauses them, and
//! [`check`] judges what they did by what they and the store wrote down.
//!
//! A [`Trial`] runs the whole. What it can show is that a history breaks the guarantee, never that no history does; so a good history
//! counts only if enough happened in it ([`Expectations`]), and the checker is to be shown [planted bugs](Bug) that it must report.
//!
//! All times are those of one host, by the clock that counts suspended time, in microseconds since its start. To test a backend of your
//! own, build a program of one line and give its path to a [`Trial`]:
//!
//! ```no_run
//! # async fn main_of_the_worker() -> std::io::Result<()> {
//! tenure_conformance::history::work(tenure_core::Drivers::new().with(tenure_core::MemoryDriver)).await
//! # }
//! ```

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tenure_core::{Clock, FencingToken};

pub use self::{
    check::{Expectations, check},
    crew::{Crew, Process},
    nemesis::{Aim, Fault, Kill, Nemesis, Pause},
    settings::{Bug, Place, Settings},
    store::{Answer, Request, Store},
    summary::Summary,
    trial::Trial,
    violation::{Violation, Violations},
    worker::{run, work},
};

mod bare;
mod check;
#[cfg(test)]
mod check_tests;
mod crew;
mod grants;
mod journal;
mod nemesis;
mod number;
mod settings;
mod store;
mod summary;
mod trial;
mod violation;
mod worker;

/// Microseconds since the start of the machine, suspended time included.
pub type Micros = u64;

/// All that was written down in one run.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// What the workers noted, each worker's notes in their order.
    pub events: Vec<Event>,
    /// What the store was asked, in the order in which it answered: the truth where a worker did not live to see the answer.
    pub store: Vec<Request>,
    /// What the store held in the end.
    pub value: u64,
    /// What the nemesis did.
    pub strikes: Vec<Strike>,
    /// When the nemesis had ended, and a quiet time after it.
    pub until: Micros,
}

/// One note of a worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// When; before the thing for [`What::Started`], [`What::Asking`] and [`What::Holding`], after it for all others.
    pub at: Micros,
    /// Which worker.
    pub worker: usize,
    /// Its how manyeth process, from 0.
    pub life: u32,
    /// What happened.
    #[serde(flatten)]
    pub what: What,
}

/// What a worker notes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum What {
    /// The process runs.
    Started,
    /// It is about to ask for the lock.
    Asking,
    /// It ran out of patience and took its request back.
    GaveUp,
    /// It was granted the lock.
    Granted {
        /// The token of the grant.
        token: FencingToken,
    },
    /// A claim: the guard, asked *after* the time of this note was read, said that the lock is held. So it was held at that time.
    Holding {
        /// The token of the grant.
        token: FencingToken,
    },
    /// The store answered a read.
    Read {
        /// The token that was sent.
        token: FencingToken,
        /// What it said.
        answer: Answer,
    },
    /// The store answered a write.
    Wrote {
        /// The token that was sent.
        token: FencingToken,
        /// What it said.
        answer: Answer,
    },
    /// It knows of this write of the number in the backend: its own, which was accepted, or one that it has read.
    Stored {
        /// Versions rise with each write.
        version: u64,
        /// Of who wrote it.
        token: FencingToken,
        /// What was written.
        value: u64,
    },
    /// The lock was lost.
    Lost {
        /// The token of the grant.
        token: FencingToken,
        /// Why, in words.
        reason: String,
    },
    /// A release was confirmed.
    Released {
        /// The token of the grant.
        token: FencingToken,
    },
    /// The guard was dropped.
    Dropped {
        /// The token of the grant.
        token: FencingToken,
    },
    /// A call of the library failed.
    Failed {
        /// The whole report.
        error: String,
        /// Whether trying again would not help: that must not happen, whatever the nemesis does.
        grave: bool,
    },
}

/// One deed of the nemesis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Strike {
    /// The name of the fault.
    pub fault: String,
    /// When it began.
    pub from: Micros,
    /// When all that can be healed was.
    pub to: Micros,
}

/// How often each fault struck.
pub type Counts = BTreeMap<String, usize>;

fn now(clock: &Clock) -> Micros {
    micros(clock.now().since_boot)
}

fn micros(span: std::time::Duration) -> Micros {
    span.as_micros().try_into().unwrap_or(Micros::MAX)
}
