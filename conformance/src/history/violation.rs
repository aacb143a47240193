//! What can be wrong with a history.

use std::{collections::HashMap, fmt, mem::discriminant};

use tenure_core::FencingToken;

use super::Micros;

/// One thing that a history shows and that must not be. Workers are given as number and life: `3.0` is the first process of worker 3.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Violation {
    /// The store accepted a token after a higher one.
    TokenFell {
        /// Which request, counted from 0.
        request: usize,
        /// The higher one.
        highest: FencingToken,
        /// The one that came after it.
        token: FencingToken,
    },
    /// Two grants have one token.
    TokenTwice {
        /// The token.
        token: FencingToken,
        /// Who had it first, and who next.
        owners: [String; 2],
    },
    /// The store was sent a token that nobody had been granted.
    UnknownToken {
        /// Which request, counted from 0.
        request: usize,
        /// The token.
        token: FencingToken,
    },
    /// A grant that was asked for after an older one had begun has no higher token.
    OutOfOrder {
        /// The older one's.
        older: FencingToken,
        /// The newer one's.
        newer: FencingToken,
        /// Whose they are.
        owners: [String; 2],
    },
    /// The store accepted a value that is not one more than the one before: somebody's addition is lost.
    LostUpdate {
        /// Which request, counted from 0.
        request: usize,
        /// The value it should have been.
        expected: u64,
        /// The value it was.
        value: u64,
    },
    /// The store's value is not the number of accepted writes.
    WrongSum {
        /// The accepted writes.
        writes: u64,
        /// The value.
        value: u64,
    },
    /// Two workers claimed to hold the lock at one time.
    Overlap {
        /// Their tokens.
        tokens: [FencingToken; 2],
        /// Who they are.
        owners: [String; 2],
        /// For how long, in microseconds.
        length: Micros,
    },
    /// The fence refused a worker that held the lock then and later.
    HolderRefused {
        /// Its token.
        token: FencingToken,
        /// Who it is.
        owner: String,
    },
    /// Nobody was granted the lock for too long.
    NoProgress {
        /// From the last grant, or the end of the last fault, in microseconds.
        waited: Micros,
        /// When that was over.
        until: Micros,
    },
    /// The library failed in a way that no fault explains.
    Failure {
        /// Whom.
        owner: String,
        /// How.
        error: String,
    },
    /// Too little happened for the history to mean anything.
    Vacuous {
        /// Of what.
        what: String,
        /// How much there was.
        found: usize,
        /// How much there should have been.
        wanted: usize,
    },
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TokenFell { request, highest, token } => {
                write!(f, "request {request}: token {token} was accepted after {highest}")
            }
            Self::TokenTwice { token, owners: [a, b] } => write!(f, "token {token} was granted to {a} and to {b}"),
            Self::UnknownToken { request, token } => {
                write!(f, "request {request}: token {token} was granted to nobody")
            }
            Self::OutOfOrder { older, newer, owners: [a, b] } => {
                write!(f, "{b} asked after {a} had been granted {older}, and was granted {newer}")
            }
            Self::LostUpdate { request, expected, value } => {
                write!(f, "request {request}: {value} was written where {expected} was due: an update is lost")
            }
            Self::WrongSum { writes, value } => write!(f, "{writes} writes were accepted, but the value is {value}"),
            Self::Overlap { tokens: [x, y], owners: [a, b], length } => {
                write!(f, "{a} with token {x} and {b} with token {y} both held it for {length} us")
            }
            Self::HolderRefused { token, owner } => {
                write!(f, "{owner} was refused by the fence while it held token {token}")
            }
            Self::NoProgress { waited, until } => {
                write!(f, "nobody was granted the lock for {waited} us up to {until}")
            }
            Self::Failure { owner, error } => write!(f, "{owner} failed: {error}"),
            Self::Vacuous { what, found, wanted } => {
                write!(f, "the run shows too little: {found} x {what}, expected at least {wanted}")
            }
        }
    }
}

/// All that is wrong with a history; when shown, up to five of each kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Violations(pub Vec<Violation>);

impl fmt::Display for Violations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 5;
        write!(f, "{} violations", self.0.len())?;
        let mut shown = HashMap::new();
        for violation in &self.0 {
            let count = shown.entry(discriminant(violation)).or_insert(0);
            *count += 1;
            if *count <= SHOWN {
                write!(f, "\n  {violation}")?;
            }
        }
        Ok(())
    }
}

impl std::error::Error for Violations {}
