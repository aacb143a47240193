//! The process between `tenure` and the command: the command's parent, which ends it in time whatever happens to `tenure`.
//!
//! It is single-threaded, allocates little, talks to no backend, and knows one thing: the deadline. It kills at the deadline, and at
//! once when the socket to `tenure` ends. As a sub-reaper it becomes the parent of every orphan among the command's descendants.

use std::{ffi::OsString, io, process::ExitCode, time::Duration};

use nix::sys::{
    signal::{SigSet, SigmaskHow, Signal as NixSignal},
    signalfd::{SfdFlags, SignalFd},
};
use rustix::{
    event::{PollFd, PollFlags, poll},
    io::Errno,
    process::{Signal, getpid, kill_process_group, set_child_subreaper},
};

use crate::{
    alarm::{Alarm, now},
    children::Children,
    descendants::{self, Leftover},
    link::Link,
    protocol::{Cause, End, Order, Report},
    spawn,
};

/// How long to try at a time before looking for orders again.
pub(crate) const KILL_LIMIT: Duration = Duration::from_secs(1);

/// Runs the watchdog until nothing of the command is left.
pub(crate) fn main(socket: &str, command: &[OsString]) -> ExitCode {
    let _ = rustix::thread::set_name(c"tenure-watchdog");
    if let Err(error) = watch(socket, command) {
        crate::say(&format!("the watchdog failed: {error}")); // `tenure` will say what that means
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

fn watch(socket: &str, command: &[OsString]) -> io::Result<()> {
    // Whoever sends a signal means the command, or `tenure`. Not ignored, since the command would inherit that.
    let before = SigSet::all().thread_swap_mask(SigmaskHow::SIG_SETMASK)?;
    set_child_subreaper(Some(getpid()))?;
    let mut link = Link::connect(socket)?;
    let Some(Order::Start { deadline, grace }) = link.first()? else {
        return Ok(()); // `tenure` has gone, and nothing was started
    };
    descendants::living(&[])?; // without /proc there would be no promise to keep
    if now() + grace >= deadline {
        return link.report(&Report::TooLate);
    }
    let sigchld = SigSet::from_iter([NixSignal::SIGCHLD]);
    let signals = SignalFd::with_flags(&sigchld, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?;
    let alarm = Alarm::new()?;
    before.thread_set_mask()?; // for the command, which starts with the mask it would have without us
    let spawned = spawn::spawn(command);
    let _ = SigSet::all().thread_set_mask();
    match spawned {
        Ok(child) => {
            let _ = link.report(&Report::Started { group: child.as_raw_pid() }); // if nobody listens, the child ends below
            let children = Children::with(child);
            Watchdog {
                link,
                signals,
                alarm,
                children,
                deadline,
                grace,
                cause: Cause::Itself,
                kill_at: None,
                stuck: false,
            }
            .run()
        }
        Err(failure) => link.report(&Report::NotStarted { code: failure.code, why: failure.why }),
    }
}

struct Watchdog {
    link: Link,
    signals: SignalFd,
    alarm: Alarm,
    children: Children,
    deadline: Duration,
    grace: Duration,
    /// Why the command ended, should it end now.
    cause: Cause,
    /// When the command is killed that was told to end, or what it left behind.
    kill_at: Option<Duration>,
    stuck: bool,
}

impl Watchdog {
    fn run(mut self) -> io::Result<()> {
        loop {
            let any_left = self.children.reap();
            self.tell_news();
            if !any_left {
                return self.done(Vec::new());
            }
            self.sleep()?;
            let Some(orders) = self.link.orders() else {
                return self.abandoned();
            };
            for order in orders {
                self.obey(order);
            }
            if let Some(untouchable) = self.act_in_time() {
                return self.done(untouchable);
            }
        }
    }

    fn done(mut self, untouchable: Vec<i32>) -> io::Result<()> {
        let _ = self.link.report(&Report::Gone { untouchable }); // if nobody listens any more, it is well all the same
        Ok(())
    }

    /// Until something happens, or it is time to act.
    fn sleep(&mut self) -> io::Result<()> {
        let at = match (self.kill_at, self.cause) {
            (Some(kill_at), _) => kill_at.min(self.deadline),
            (None, Cause::Itself) => self.deadline.saturating_sub(self.grace),
            (None, _) => self.deadline,
        };
        self.alarm.set(if self.stuck { now() + KILL_LIMIT } else { at })?;
        let mut fds = [
            PollFd::new(&self.link, PollFlags::IN),
            PollFd::new(&self.signals, PollFlags::IN),
            PollFd::new(&self.alarm, PollFlags::IN),
        ];
        match poll(&mut fds, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        while let Ok(Some(_)) = self.signals.read_signal() {}
        Ok(())
    }

    fn obey(&mut self, order: Order) {
        if matches!(order, Order::Deadline(_)) {
            let _ = self.link.report(&Report::Noted);
        }
        match order {
            // A command that was told to end has the time that was left then, even if the lock is renewed after all.
            Order::Deadline(_) if matches!(self.cause, Cause::Warning | Cause::Loss) => {}
            Order::Start { deadline, .. } | Order::Deadline(deadline) => self.deadline = deadline,
            Order::Signal(signal) => {
                if let Some(signal) = Signal::from_named_raw(signal) {
                    self.signal_group(signal);
                }
            }
            Order::End { signal, limit } => {
                self.kill_at = Some(self.kill_at.map_or(limit, |before| before.min(limit)));
                if let Some(signal) = Signal::from_named_raw(signal).filter(|_| self.children.reap()) {
                    self.tell_to_end(signal, Cause::Told);
                }
            }
            Order::Kill => {
                self.blame(Cause::Loss);
                self.deadline = Duration::ZERO;
            }
        }
    }

    fn signal_group(&self, signal: Signal) {
        if self.children.is_running() {
            let _ = kill_process_group(self.children.command(), signal);
        }
    }

    /// Orphans too: nobody else would tell them. CONT, since a stopped process could not end in an orderly way.
    fn tell_to_end(&mut self, signal: Signal, cause: Cause) {
        self.blame(cause);
        let orphans = descendants::orphans(self.children.command());
        for signal in [signal, Signal::CONT] {
            self.signal_group(signal);
            for orphan in &orphans {
                let _ = orphan.signal(signal);
            }
        }
    }

    fn blame(&mut self, cause: Cause) {
        if self.children.is_running() {
            self.cause = cause;
        }
    }

    /// What the time demands. When all is over: the processes that are left, since they cannot be killed.
    fn act_in_time(&mut self) -> Option<Vec<i32>> {
        let now = now();
        if now >= self.deadline {
            self.children.reap(); // what has ended by itself a moment ago was not killed; but it was late
            self.blame(Cause::Loss);
            return self.kill();
        }
        if self.kill_at.is_some_and(|kill_at| now >= kill_at) {
            return self.kill();
        }
        if self.cause == Cause::Itself && self.kill_at.is_none() && now + self.grace >= self.deadline {
            self.warn();
        }
        None
    }

    fn warn(&mut self) {
        if !self.children.reap() || !self.children.is_running() {
            return;
        }
        let _ = self.link.report(&Report::Warned);
        self.tell_to_end(Signal::TERM, Cause::Warning);
    }

    fn tell_news(&mut self) {
        for status in self.children.news() {
            let Some(end) = End::of(status) else {
                let signal = status.stopping_signal().unwrap_or_default();
                let _ = self.link.report(&Report::Stopped { signal });
                continue;
            };
            if matches!(self.cause, Cause::Itself | Cause::Told) && now() >= self.deadline {
                self.cause = Cause::Loss; // it ended while nobody could look: perhaps too late
            }
            let _ = self.link.report(&Report::Ended { end, cause: self.cause });
            self.end_the_rest();
        }
    }

    /// The command has ended; whatever it left behind has to end before the lock does.
    fn end_the_rest(&mut self) {
        let limit = now() + self.grace;
        self.kill_at = Some(self.kill_at.map_or(limit, |before| before.min(limit)));
        for process in descendants::living(&[]).unwrap_or_default() {
            let _ = process.signal(Signal::TERM);
            let _ = process.signal(Signal::CONT);
        }
    }

    fn kill(&mut self) -> Option<Vec<i32>> {
        self.signal_group(Signal::KILL);
        let Leftover { stubborn, untouchable, over } = descendants::kill_all(KILL_LIMIT, || self.children.reap());
        self.tell_news();
        if over {
            return Some(untouchable);
        }
        if !self.stuck {
            self.stuck = true;
            let _ = self.link.report(&Report::Stuck { processes: stubborn });
        }
        None
    }

    /// `tenure` is gone: the lock may expire at any time from now on.
    fn abandoned(mut self) -> io::Result<()> {
        while self.kill().is_none() {}
        Ok(())
    }
}
