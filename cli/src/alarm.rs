//! The watchdog's time: since boot, suspended time included, as all deadlines are told.

use std::{io, time::Duration};

use rustix::{
    fd::{AsFd, BorrowedFd, OwnedFd},
    time::{
        ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, clock_gettime, timerfd_create,
        timerfd_settime,
    },
};

/// The present instant.
pub(crate) fn now() -> Duration {
    let time = clock_gettime(ClockId::Boottime);
    Duration::new(time.tv_sec.try_into().unwrap_or(0), time.tv_nsec.try_into().unwrap_or(0))
}

/// Becomes readable at an instant; right after a suspend if that came during it.
#[derive(Debug)]
pub(crate) struct Alarm(OwnedFd);

impl Alarm {
    /// An alarm that is not set.
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self(timerfd_create(TimerfdClockId::Boottime, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)?))
    }

    /// Sets it anew.
    pub(crate) fn set(&self, at: Duration) -> io::Result<()> {
        let at = at.max(Duration::from_nanos(1)); // zero would switch it off
        let at = Timespec { tv_sec: at.as_secs().try_into().unwrap_or(i64::MAX), tv_nsec: at.subsec_nanos().into() };
        let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: at };
        timerfd_settime(&self.0, TimerfdTimerFlags::ABSTIME, &once)?;
        Ok(())
    }
}

impl AsFd for Alarm {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
