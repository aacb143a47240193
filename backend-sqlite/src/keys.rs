//! How moments, names and tokens stand in the rows.

use std::{sync::Arc, time::Duration};

use tenure_core::{BootId, Contender, Error, ErrorKind, Moment, QueueName, Result};

/// A queue of one application. Names stand in the rows as they were given: they are parameters, never part of a statement.
#[derive(Clone, Debug)]
pub(crate) struct QueueKey {
    pub(crate) namespace: Arc<str>,
    pub(crate) name: QueueName,
}

/// A moment as it is stored: whole milliseconds of one boot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub(crate) boot: String,
    pub(crate) ms: i64,
}

impl Stamp {
    /// The present, never later than it is.
    pub(crate) fn present(now: Moment) -> Self {
        Self::of(now.boot, now.since_boot.as_millis())
    }

    /// An expiry, never earlier than it is: nobody may end a session before the deadline that its owner was told.
    pub(crate) fn expiry(end: Moment) -> Self {
        Self::of(end.boot, end.since_boot.as_nanos().div_ceil(1_000_000))
    }

    fn of(boot: BootId, ms: u128) -> Self {
        Self { boot: format!("{:032x}", boot.get()), ms: i64::try_from(ms).unwrap_or(i64::MAX) }
    }

    /// The moment it stands for. A boot that cannot be read is taken for one that is over.
    pub(crate) fn moment(&self) -> Moment {
        let boot = u128::from_str_radix(&self.boot, 16).map_or(BootId::UNKNOWN, BootId::new);
        Moment { boot, since_boot: Duration::from_millis(u64::try_from(self.ms).unwrap_or(0)) }
    }
}

/// The entry's token, which is also its row.
pub(crate) fn token_of(who: &Contender) -> Result<i64> {
    who.key.parse().map_err(|_| {
        Error::new(
            ErrorKind::Unexpected,
            format!("the contender {} was not listed by this backend: list again", who.id),
        )
    })
}

/// The number that SQLite has for a counter that never goes below zero.
pub(crate) fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expiry_is_never_stored_earlier_and_the_present_never_later() {
        let moment = Moment { boot: BootId::new(0xab), since_boot: Duration::from_nanos(5_000_001) };
        assert_eq!((Stamp::present(moment).ms, Stamp::expiry(moment).ms), (5, 6));
        let exact = Moment { since_boot: Duration::from_millis(5), ..moment };
        assert_eq!((Stamp::present(exact).ms, Stamp::expiry(exact).ms), (5, 5));
        assert_eq!(Stamp::expiry(exact).moment(), exact);
        let forever = Moment { since_boot: Duration::MAX, ..moment };
        assert_eq!(Stamp::expiry(forever).ms, i64::MAX);
    }
}
