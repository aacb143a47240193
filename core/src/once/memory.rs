//! What is remembered of a success, and for how long.

use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use crate::{
    clock::{BootId, Moment},
    error::{Error, ErrorKind, Result},
    fenced::{DataKey, Stored},
    holder::Holder,
    token::FencingToken,
};

/// Where it is kept, among the data of the name.
pub(super) fn key() -> DataKey {
    DataKey::reserved("once")
}

/// A success that is remembered.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Success {
    /// Of the attempt that succeeded.
    pub token: FencingToken,
    /// Who it was: for people only.
    pub by: Holder,
    /// When, as RFC 3339, by the wall clock of who it was: for people only.
    pub at: String,
}

/// A success, and which hosts have known of it since when.
#[derive(Clone, Debug)]
pub(super) struct Memory {
    pub(super) success: Success,
    known: Vec<Knows>,
}

/// One boot of one host, and when by its own clock it has first known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Knows {
    host: String,
    since_ms: u64,
}

/// As it is stored. The token that the service keeps beside it is that of who wrote last: perhaps of a host that has only begun to count.
#[derive(Serialize, Deserialize)]
struct Written {
    token: FencingToken,
    by: Holder,
    at: String,
    known: Vec<Knows>,
}

impl Memory {
    /// So many hosts fit into a value together with the rest.
    const HOSTS: usize = 256;

    /// A success of this process, now.
    pub(super) fn of(token: FencingToken, program: Option<&str>, now: Moment) -> Self {
        let at = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
        let success = Success { token, by: Holder::this_process(program).short(), at };
        Self { success, known: Vec::new() }.known_since(now)
    }

    pub(super) fn read(name: &str, stored: &Stored) -> Result<Self> {
        let Written { token, by, at, known } = serde_json::from_slice(&stored.value).map_err(|error| {
            let message =
                format!("what is remembered of '{name}' is no record of a success: forget it, and do it again");
            Error::new(ErrorKind::Unexpected, message).with_source(error)
        })?;
        Ok(Self { success: Success { token, by, at }, known })
    }

    pub(super) fn to_value(&self) -> Vec<u8> {
        let Self { success: Success { token, by, at }, known } = self.clone();
        serde_json::to_vec(&Written { token, by, at, known }).unwrap_or_default()
    }

    /// Whether the host of that moment has begun to count.
    pub(super) fn is_known_at(&self, now: Moment) -> bool {
        self.age(now).is_some()
    }

    /// Whether it is not forgotten yet.
    pub(super) fn counts(&self, now: Moment, expiry: Duration) -> bool {
        self.age(now).is_none_or(|age| age < expiry)
    }

    /// How long this host knows of it, as far as it is known: the success is at least as old.
    fn age(&self, now: Moment) -> Option<Duration> {
        let host = host(now.boot)?;
        let since = self.known.iter().find(|knows| knows.host == host)?.since_ms;
        Some(now.since_boot.saturating_sub(Duration::from_millis(since)))
    }

    /// The host of that moment counts from then on, too. If there are too many, whoever has counted for longest counts anew.
    pub(super) fn known_since(&self, now: Moment) -> Self {
        let Self { success, mut known } = self.clone();
        if let Some(host) = host(now.boot) {
            let since = now.since_boot + Duration::from_millis(1); // rounded up: never sooner
            known.push(Knows { host, since_ms: u64::try_from(since.as_millis()).unwrap_or(u64::MAX) });
            known.drain(..known.len().saturating_sub(Self::HOSTS));
        }
        Self { success, known }
    }
}

/// Names a clock. A container may have one that is shifted against that of its host: then it is a host of its own.
fn host(boot: BootId) -> Option<String> {
    let shifted = std::fs::read_link("/proc/self/ns/time").unwrap_or_default();
    (boot != BootId::UNKNOWN).then(|| format!("{:032x} {}", boot.get(), shifted.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::{MAX_VALUE, Version};

    fn moment(boot: u128, seconds: u64) -> Moment {
        Moment { boot: BootId::new(boot), since_boot: Duration::from_secs(seconds) }
    }

    fn again(memory: &Memory) -> Memory {
        let stored = Stored { value: memory.to_value(), version: Version(1), token: memory.success.token };
        Memory::read("x", &stored).expect("its own")
    }

    #[test]
    fn each_host_counts_by_its_own_clock_and_from_its_own_first_sight() {
        let memory = again(&Memory::of(FencingToken::new(7), Some("job"), moment(1, 100)));
        let hour = Duration::from_secs(3600);
        assert!(memory.counts(moment(1, 100 + 3599), hour) && !memory.counts(moment(1, 100 + 3601), hour));
        for elsewhere in [moment(2, 0), moment(2, 1_000_000), moment(1, 0)] {
            assert!(memory.counts(elsewhere, hour), "{elsewhere:?}");
        }
        let memory = again(&memory.known_since(moment(2, 500)));
        assert!(memory.counts(moment(2, 500 + 3599), hour) && !memory.counts(moment(2, 500 + 3601), hour));
        assert!(!memory.counts(moment(1, 100 + 3601), hour), "the first one counts on");
        assert!(memory.counts(moment(0, 1_000_000), hour), "no boot, no clock");
        assert!(!memory.known_since(moment(0, 1)).is_known_at(moment(0, 1)));
    }

    #[test]
    fn any_number_of_hosts_fits() {
        let program = "\u{1}".repeat(100_000);
        let mut memory = Memory::of(FencingToken::new(7), Some(&program), moment(1, 100));
        for boot in 2..1000 {
            memory = memory.known_since(moment(boot << 64, u64::MAX / 2_000));
        }
        assert!(memory.to_value().len() <= MAX_VALUE, "{}", memory.to_value().len());
        let memory = again(&memory);
        assert!(memory.is_known_at(moment(999 << 64, u64::MAX)) && !memory.is_known_at(moment(1, 200)));
    }

    #[test]
    fn what_others_wrote_is_told() {
        let stored = Stored { value: b"x".to_vec(), version: Version(1), token: FencingToken::new(1) };
        assert_eq!(Memory::read("x", &stored).expect_err("foreign").kind(), ErrorKind::Unexpected);
    }
}
