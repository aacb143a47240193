//! Random numbers that a seed repeats.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

/// Dice that fall the same way for the same seed (xorshift64*, Vigna 2016). Shared by reference; not for secrets.
#[derive(Debug)]
pub struct Dice(Mutex<u64>);

impl Dice {
    /// Dice for a seed.
    pub fn new(seed: u64) -> Self {
        Self(Mutex::new(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1))
    }

    /// A number below `sides`.
    pub fn roll(&self, sides: u64) -> u64 {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *state ^= *state >> 12;
        *state ^= *state << 25;
        *state ^= *state >> 27;
        (state.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11) % sides.max(1)
    }

    /// Whether a thing of so many per mille happens.
    pub fn happens(&self, per_mille: u32) -> bool {
        self.roll(1000) < u64::from(per_mille)
    }

    /// A time below `limit`, in whole milliseconds.
    pub fn time(&self, limit: Duration) -> Duration {
        Duration::from_millis(self.roll(u64::try_from(limit.as_millis()).unwrap_or(u64::MAX)))
    }
}
