//! Lends the terminal to the command, and takes it back, as a shell does.

use std::{
    fs::File,
    io::{self, IsTerminal, stdin, stdout},
};

use nix::sys::signal::{SigSet, SigmaskHow, Signal as NixSignal};
use rustix::{
    process::{Pid, Signal, getpgrp, getpid, kill_process},
    termios::{tcgetpgrp, tcsetpgrp},
};

/// The terminal at stdin, if there is one.
#[derive(Debug)]
pub(crate) struct Terminal {
    exists: bool,
    /// In a pipeline it is lent only on demand: the pager at its end may need it too.
    at_once: bool,
    group: Option<Pid>,
    lent: bool,
    /// The signals that were blocked before.
    mask: SigSet,
}

impl Terminal {
    /// Looks for a terminal. Until this is dropped, this process is not stopped for writing to it from the background.
    pub(crate) fn find() -> io::Result<Self> {
        let mask = SigSet::from_iter([NixSignal::SIGTTOU]).thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
        let exists = stdin().is_terminal();
        Ok(Self { exists, at_once: exists && stdout().is_terminal(), group: None, lent: false, mask })
    }

    /// The command runs, in this group. If it asked for the terminal before this, it was stopped, and that will be reported.
    pub(crate) fn started(&mut self, group: i32) {
        self.group = Pid::from_raw(group);
        if self.at_once {
            self.lend();
        }
    }

    /// Gives the terminal to the command, if it is ours to give. Whether the command has it now: it may have been stopped for the lack of
    /// it just before it was lent.
    pub(crate) fn lend(&mut self) -> bool {
        let Some(command) = self.group.filter(|_| self.exists) else { return false };
        let has_it = tcgetpgrp(stdin())
            .is_ok_and(|group| group == command || (group == getpgrp() && tcsetpgrp(stdin(), command).is_ok()));
        self.lent |= has_it;
        has_it
    }

    /// Takes the terminal back, unless the shell has taken it already.
    pub(crate) fn take_back(&self) {
        if self.lent && tcgetpgrp(stdin()).ok() == self.group {
            let _ = tcsetpgrp(stdin(), getpgrp());
        }
    }

    /// The shell has let us go on: in the foreground, if the terminal is ours.
    pub(crate) fn resumed(&mut self) {
        if self.lent || self.at_once {
            self.lend();
        }
    }

    /// Whether a stop of the command is meant for the whole job.
    pub(crate) fn is_job_control(&self, signal: Signal) -> bool {
        let by_terminal = [Signal::TSTP, Signal::TTIN, Signal::TTOU].contains(&signal);
        self.lent || (by_terminal && is_there())
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.take_back();
        let _ = self.mask.thread_set_mask(); // or the command of the next term would start with ours
    }
}

/// Whether this process has a terminal, at stdin or not.
pub(crate) fn is_there() -> bool {
    File::open("/dev/tty").is_ok()
}

/// Stops this process, so that the shell gives its prompt.
pub(crate) fn stop_self() {
    let _ = kill_process(getpid(), Signal::STOP);
}
