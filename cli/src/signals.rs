//! The signals that `tenure` acts on instead of dying from them.

use std::{fs, io, task::Poll};

use tokio::signal::unix::{Signal as Stream, SignalKind, signal};

use rustix::process::Signal;

use crate::terminal;

/// Those that end the waiting, and ask a running command to end.
pub(crate) const ENDING: [Signal; 4] = [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT];

/// Those that end a service for good; HUP often means something else to one.
pub(crate) const STOPPING: [Signal; 3] = [Signal::INT, Signal::TERM, Signal::QUIT];

const FORWARDED: [Signal; 3] = [Signal::USR1, Signal::USR2, Signal::WINCH];

/// What arrives. Signals that were ignored when `tenure` started (`nohup`, background jobs) stay ignored, for the command as well.
#[derive(Debug)]
pub(crate) struct Signals {
    streams: Vec<(Signal, Stream)>,
    /// Whether HUP asks to end.
    hup_ends: bool,
}

impl Signals {
    /// Listens from now on.
    pub(crate) fn listen() -> io::Result<Self> {
        let mut signals = Self { streams: Vec::new(), hup_ends: true };
        signals.add(&ENDING)?;
        signals.add(&FORWARDED)?;
        Ok(signals)
    }

    /// To a service HUP means to read its settings anew. It asks to end only if there is a terminal, which has hung up.
    pub(crate) fn of_service(mut self) -> Self {
        self.hup_ends = terminal::is_there();
        self
    }

    /// Listens for stops by the terminal too, from now on: while only waiting, it is right to be stopped like any other.
    pub(crate) fn add_job_control(&mut self) -> io::Result<()> {
        self.add(&[Signal::TSTP, Signal::CONT])
    }

    fn add(&mut self, which: &[Signal]) -> io::Result<()> {
        let ignored = ignored();
        let known: Vec<_> = self.streams.iter().map(|(signal, _)| *signal).collect();
        for one in which.iter().filter(|one| !known.contains(one) && ignored & (1 << (one.as_raw() - 1)) == 0) {
            self.streams.push((*one, signal(SignalKind::from_raw(one.as_raw()))?));
        }
        Ok(())
    }

    /// The next signal.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub(crate) async fn next(&mut self) -> Signal {
        std::future::poll_fn(|context| {
            let mut arrived = self
                .streams
                .iter_mut()
                .filter_map(|(signal, stream)| stream.poll_recv(context).is_ready().then_some(*signal));
            arrived.next().map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }

    /// The next signal that asks to end. It stops for the terminal, and ignores others.
    pub(crate) async fn ending(&mut self) -> Signal {
        loop {
            match self.next().await {
                Signal::HUP if !self.hup_ends => {}
                signal if ENDING.contains(&signal) => return signal,
                Signal::TSTP => terminal::stop_self(),
                _ => {}
            }
        }
    }
}

/// As a bit mask. If it cannot be read, nothing is taken for ignored.
fn ignored() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}
