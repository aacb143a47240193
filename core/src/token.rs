//! The number that proves a holder's place in the order of holders, and the check that makes it useful.

use std::{
    fmt,
    str::FromStr,
    sync::atomic::{AtomicU64, Ordering},
};

use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorKind, Result};

/// The number of an exclusive grant: of two holders of one name, the later one has the higher token.
///
/// It helps only if the protected resource refuses a token lower than the highest it has seen (see [`TokenGate`]). It is what the
/// backend counts anyway (a revision, a transaction id, a row id) plus the configured `token_base`; gaps are normal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FencingToken(u64);

impl FencingToken {
    /// The token with this number.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// The number, for storage beside the protected data.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The token raised by a namespace's `token_base`.
    ///
    /// # Errors
    /// `Config` if the sum does not fit into 64 bits.
    pub fn raised_by(self, base: u64) -> Result<Self> {
        self.0.checked_add(base).map(Self).ok_or_else(|| {
            Error::new(
                ErrorKind::Config,
                format!("token_base {base} is too large: token {self} on top of it overflows"),
            )
        })
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for FencingToken {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        text.parse().map(Self).map_err(|_| {
            Error::new(
                ErrorKind::Config,
                format!("'{text}' is no fencing token: write the decimal number that the holder was given"),
            )
        })
    }
}

/// The reference fence, for resources other than the service's own [data](crate::LockGuard::fenced): admits a token unless it has seen a higher one.
///
/// It protects as far as its memory reaches: one process, until that ends. A resource that outlives the process must keep the highest
/// token beside its data, raised in the same transaction. **Reads must pass the gate too**: if only writes do, a newer holder can read,
/// an older one's late write is still admitted, and the newer one's write then loses it.
///
/// ```
/// use tenure_core::{FencingToken, TokenGate};
///
/// let gate = TokenGate::new();
/// assert!(gate.admit(FencingToken::new(7)).is_ok());
/// assert!(gate.admit(FencingToken::new(7)).is_ok()); // the same holder, again
/// assert_eq!(gate.admit(FencingToken::new(6)), Err(FencingToken::new(7)));
/// ```
#[derive(Debug, Default)]
pub struct TokenGate(AtomicU64);

impl TokenGate {
    /// A gate that has seen no token yet.
    pub const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Admits `token` and remembers it.
    ///
    /// # Errors
    /// The highest token seen, if that is higher.
    pub fn admit(&self, token: FencingToken) -> Result<(), FencingToken> {
        let highest = self.0.fetch_max(token.0, Ordering::AcqRel);
        if highest > token.0 { Err(FencingToken(highest)) } else { Ok(()) }
    }
}
