//! How a coordinator behaves: the settings that are the same on every backend.

use std::time::Duration;

use crate::{
    error::{Error, ErrorKind, Result},
    keeper::{margin, period},
};

/// How a [`Coordinator`](crate::Coordinator) behaves; the same on every backend.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// The validity wanted: for so long after a keep-alive was sent the tenure is certain, less a margin of a tenth (at least 200 ms).
    /// 1 second to 1 day; 10 seconds unless set.
    pub ttl: Duration,
    /// How long the calls that do not wait for their turn (connecting, `try_lock`) go on trying to reach the backend. 1 day at
    /// most; 5 seconds unless set.
    pub connect_timeout: Duration,
    /// Added to every token; the same for everybody who uses the namespace. 0 unless set.
    pub token_base: u64,
    /// What entries say about the program that made them. The name of this program unless set.
    pub program: Option<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self { ttl: Duration::from_secs(10), connect_timeout: Duration::from_secs(5), token_base: 0, program: None }
    }
}

impl Options {
    const TTL: std::ops::RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(24 * 3600);

    /// Checks that it can work.
    ///
    /// # Errors
    /// `Config`, with what to write instead.
    pub fn check(&self) -> Result<()> {
        let complaint = if !Self::TTL.contains(&self.ttl) {
            format!("ttl = {} is out of range: write 1s to 24h", humantime::format_duration(self.ttl))
        } else if self.connect_timeout.is_zero() {
            "connect_timeout = 0s leaves no time to connect: write 1s or more".to_owned()
        } else if self.connect_timeout > *Self::TTL.end() {
            format!(
                "connect_timeout = {} is too long: write 24h or less",
                humantime::format_duration(self.connect_timeout)
            )
        } else {
            return Ok(());
        };
        Err(Error::new(ErrorKind::Config, complaint))
    }

    /// The longest time that can be kept free before the deadline, for work to be ended in an orderly way: what is left of the ttl after
    /// the margin and two keep-alive periods, so that one lost keep-alive ends nothing.
    pub fn longest_grace(&self) -> Duration {
        self.ttl.saturating_sub(margin(self.ttl)).saturating_sub(2 * period(self.ttl))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_grace_leaves_time_for_two_keep_alives() {
        for (ttl, grace) in [(1, 134), (2, 467), (10, 2334), (60, 14_000), (86_400, 20_160_000)] {
            let options = Options { ttl: Duration::from_secs(ttl), ..Options::default() };
            let longest = options.longest_grace().as_millis();
            assert!(longest.abs_diff(grace) <= 1, "ttl {ttl} s: {longest} ms");
        }
    }
}
