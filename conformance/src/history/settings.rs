//! What a worker is to do, and what it is to do wrong.

use std::{fmt, net::SocketAddr, path::PathBuf, time::Duration};

use serde::{Deserialize, Serialize};

/// What a worker is told, as one line of JSON on its standard input: a URL may hold a password, and arguments can be read by everybody.
#[derive(Clone, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Settings {
    /// The backend.
    pub url: String,
    /// What is locked.
    pub name: String,
    /// Where the number is that they add to.
    pub store: Place,
    /// Where to take notes.
    pub journal: PathBuf,
    /// Which worker it is.
    pub worker: usize,
    /// Its how manyeth process.
    pub life: u32,
    /// What its chances depend on.
    pub seed: u64,
    /// It ends after so long by itself, if nobody else is left to end it.
    pub longest: Duration,
    /// What it does wrong.
    pub bug: Option<Bug>,
}

/// Where the number is that workers add to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Place {
    /// In a [`Store`](super::Store) that listens here.
    Store(SocketAddr),
    /// In the backend itself, behind its own fence.
    Backend,
}

/// A bug planted in the workers, to see that the checker reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Bug {
    /// Goes on after a loss, and claims to hold what it holds no more.
    IgnoreLoss,
    /// Sends a token that is 1000 too high.
    WrongToken,
    /// Never locks, and makes up tokens.
    NoLock,
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not the URL: it may hold a password.
        f.debug_struct("Settings").field("worker", &self.worker).field("life", &self.life).finish_non_exhaustive()
    }
}
