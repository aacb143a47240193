//! The idea of Tenure, without any network client: who may act, until when, and with which fencing token.
//!
//! A program that uses a [`Coordinator`] is granted a [`Tenure`]: until its deadline, and by this machine's own clock, nobody else holds
//! what is incompatible with it. The limit: a process can be paused between its look at the clock and its act, so what must never be
//! written by two holders has to check the [`FencingToken`] that every exclusive grant carries.
//!
//! [`LockGuard::fenced`] keeps data in the service, which checks it itself.
//!
//! A backend does one thing: it holds an ordered queue of ephemeral entries ([`Session`]). Everything else is written here, once. To
//! understand it, read `backend.rs`, `rule.rs` and `place.rs`.

pub use async_trait::async_trait;

pub use crate::{
    backend::{Backend, Opened, Session, Strength},
    clock::{BootId, Clock, Moment, TestClock, TimeSource},
    config::{Config, Profiles, Secret, Setting, Sources},
    coordinator::Coordinator,
    data::Data,
    driver::{Driver, Drivers},
    election::{
        Election,
        history::{TermNote, TermRecord},
        leadership::Leadership,
        observe::Leader,
        run::{Term, TermEnd},
    },
    error::{Error, ErrorKind, Result},
    fenced::{DataKey, Datum, Edit, EditId, Expect, Fence, Fenced, FencedStore, Outcome, Stored},
    guard::{LockGuard, Lost, Permit, ReadGuard, State, Tenure},
    holder::Holder,
    keeper::LossReason,
    memory::{Call, Fault, MemoryBackend, MemoryDriver},
    once::{Attempt, Begun, Once, Success},
    options::Options,
    queue::{
        Contender, ContenderId, Entered, MAX_VALUE, QueueName, Record, Snapshot, Version, Wake, check_value, random_hex,
    },
    rule::{Mode, Turn, turn},
    token::{FencingToken, TokenGate},
};

mod backend;
mod clock;
mod config;
mod coordinator;
mod data;
mod driver;
mod election;
mod error;
mod fenced;
mod guard;
mod health;
mod holder;
mod holding;
mod keeper;
mod memory;
mod once;
mod opening;
mod options;
mod place;
mod queue;
mod rule;
mod standing;
mod token;
