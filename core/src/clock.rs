//! The one clock that all deadlines are told by. It counts the time a machine spends suspended, and a reboot ends it.

use std::{
    fmt::Debug,
    ops::{Add, Sub},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

/// Which boot of the machine a [`Moment`] belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BootId(u128);

impl BootId {
    /// The boot could not be told apart from others: good enough within one process, not for what several share.
    pub const UNKNOWN: Self = Self(0);

    /// The boot with this number.
    pub const fn new(number: u128) -> Self {
        Self(number)
    }

    /// Its number, for storage.
    pub const fn get(self) -> u128 {
        self.0
    }
}

/// An instant of one boot of one machine. Moments of different boots cannot be compared; [`Clock::has_passed`] takes any moment of
/// another boot for past.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Moment {
    /// The boot it belongs to.
    pub boot: BootId,
    /// Time since that boot, suspended time included.
    pub since_boot: Duration,
}

impl Add<Duration> for Moment {
    type Output = Self;

    fn add(self, span: Duration) -> Self {
        Self { since_boot: self.since_boot.saturating_add(span), ..self }
    }
}

impl Sub<Duration> for Moment {
    type Output = Self;

    fn sub(self, span: Duration) -> Self {
        Self { since_boot: self.since_boot.saturating_sub(span), ..self }
    }
}

/// Where a [`Clock`] takes its time from.
pub trait TimeSource: Debug + Send + Sync + 'static {
    /// The present moment. It never goes back within one boot, and no user can set it.
    fn now(&self) -> Moment;
}

/// Tells the time, and sleeps by it. Cheap to clone.
///
/// Timers stop while a machine is suspended, so [`Clock::sleep_until`] sleeps in slices of at most 200 ms and looks again: it can be late
/// by that much after a resume. [`Clock::has_passed`] is never late.
#[derive(Clone, Debug)]
pub struct Clock(Arc<dyn TimeSource>);

impl Clock {
    const SLICE: Duration = Duration::from_millis(200);

    /// The machine's own clock: `CLOCK_BOOTTIME` and the kernel's boot id on Linux; elsewhere the monotonic clock, which may stop while
    /// the machine is suspended.
    pub fn system() -> Self {
        Self(Arc::new(system::System::new()))
    }

    /// A clock by another source.
    pub fn new(source: impl TimeSource) -> Self {
        Self(Arc::new(source))
    }

    /// The present moment.
    pub fn now(&self) -> Moment {
        self.0.now()
    }

    /// Whether the moment is over: reached, or of another boot.
    pub fn has_passed(&self, moment: Moment) -> bool {
        self.until(moment).is_zero()
    }

    /// The time left until then; zero if it has passed.
    pub fn until(&self, moment: Moment) -> Duration {
        let now = self.now();
        if now.boot == moment.boot { moment.since_boot.saturating_sub(now.since_boot) } else { Duration::ZERO }
    }

    /// Sleeps until the moment has passed.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn sleep_until(&self, moment: Moment) {
        loop {
            let left = self.until(moment);
            if left.is_zero() {
                return;
            }
            tokio::time::sleep(left.min(Self::SLICE)).await;
        }
    }
}

/// A clock for tests: follows tokio's time (paused or not), and can be made to jump.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
/// use std::time::Duration;
/// use tenure_core::TestClock;
///
/// let control = TestClock::new();
/// let clock = control.clock();
/// let deadline = clock.now() + Duration::from_secs(10);
/// control.suspend(Duration::from_secs(3600));
/// assert!(clock.has_passed(deadline));
/// # });
/// ```
#[derive(Clone, Debug)]
pub struct TestClock(Arc<Jumping>);

#[derive(Debug)]
struct Jumping {
    start: tokio::time::Instant,
    state: Mutex<(BootId, Duration)>,
}

impl TestClock {
    /// A clock that starts at an arbitrary moment.
    #[expect(clippy::new_without_default, reason = "its start is the time of the call")]
    pub fn new() -> Self {
        let state = Mutex::new((BootId::new(1), Duration::from_secs(1000)));
        Self(Arc::new(Jumping { start: tokio::time::Instant::now(), state }))
    }

    /// The clock to inject.
    pub fn clock(&self) -> Clock {
        Clock(self.0.clone())
    }

    /// The machine sleeps for so long: the time passes, but no timer runs.
    pub fn suspend(&self, span: Duration) {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner).1 += span;
    }

    /// The machine starts anew, under another boot id.
    pub fn reboot(&self) {
        let mut state = self.0.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.0 = BootId::new(state.0.get() + 1);
    }
}

impl TimeSource for Jumping {
    fn now(&self) -> Moment {
        let (boot, offset) = *self.state.lock().unwrap_or_else(PoisonError::into_inner);
        Moment { boot, since_boot: offset + self.start.elapsed() }
    }
}

#[cfg(target_os = "linux")]
mod system {
    use std::time::Duration;

    use rustix::time::{ClockId, clock_gettime};

    use super::{BootId, Moment, TimeSource};

    #[derive(Debug)]
    pub(super) struct System {
        boot: BootId,
    }

    impl System {
        pub(super) fn new() -> Self {
            let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
            let digits: String = text.chars().filter(char::is_ascii_hexdigit).collect();
            Self { boot: u128::from_str_radix(&digits, 16).map_or(BootId::UNKNOWN, BootId::new) }
        }
    }

    impl TimeSource for System {
        fn now(&self) -> Moment {
            let time = clock_gettime(ClockId::Boottime);
            let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
            let nanos = u32::try_from(time.tv_nsec).unwrap_or(0);
            Moment { boot: self.boot, since_boot: Duration::new(seconds, nanos) }
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use std::time::Instant;

    use super::{BootId, Moment, TimeSource};

    #[derive(Debug)]
    pub(super) struct System {
        start: Instant,
    }

    impl System {
        pub(super) fn new() -> Self {
            Self { start: Instant::now() }
        }
    }

    impl TimeSource for System {
        fn now(&self) -> Moment {
            Moment { boot: BootId::UNKNOWN, since_boot: self.start.elapsed() }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_sleep_ends_soon_after_a_suspend_or_a_reboot() {
        for jump in [|c: &TestClock| c.suspend(Duration::from_secs(3600)), TestClock::reboot] {
            let control = TestClock::new();
            let clock = control.clock();
            let (before, until) = (tokio::time::Instant::now(), clock.now() + Duration::from_secs(60));
            let sleeper = tokio::spawn({
                let clock = clock.clone();
                async move { clock.sleep_until(until).await }
            });
            tokio::time::sleep(Duration::from_secs(1)).await;
            assert!(!sleeper.is_finished() && !clock.has_passed(until));
            jump(&control);
            assert!(clock.has_passed(until));
            sleeper.await.expect("it ends");
            assert!(before.elapsed() <= Duration::from_secs(1) + Clock::SLICE);
        }
    }

    #[test]
    fn the_system_clock_moves_and_knows_its_boot() {
        let clock = Clock::system();
        let now = clock.now();
        std::thread::sleep(Duration::from_millis(2));
        assert!(clock.now().since_boot > now.since_boot);
        assert!(!cfg!(target_os = "linux") || now.boot != BootId::UNKNOWN);
    }
}
