//! The watchdog's children: it has to bury them all.

use rustix::{
    io::Errno,
    process::{Pid, WaitOptions, WaitStatus, wait},
};

/// The processes to bury: the command, and the orphans it left us.
#[derive(Debug)]
pub(crate) struct Children {
    command: Pid,
    running: bool,
    news: Vec<WaitStatus>,
}

impl Children {
    /// The command has just been started.
    pub(crate) fn with(command: Pid) -> Self {
        Self { command, running: true, news: Vec::new() }
    }

    /// The command's process and process group.
    pub(crate) fn command(&self) -> Pid {
        self.command
    }

    /// Whether the command is not buried yet. After that its number may be another's.
    pub(crate) fn is_running(&self) -> bool {
        self.running
    }

    /// What has happened to the command since the last question.
    pub(crate) fn news(&mut self) -> Vec<WaitStatus> {
        std::mem::take(&mut self.news)
    }

    /// Whether there are any left, dead or alive.
    pub(crate) fn reap(&mut self) -> bool {
        loop {
            match wait(WaitOptions::NOHANG | WaitOptions::UNTRACED) {
                Ok(Some((pid, status))) => {
                    if pid == self.command {
                        self.running &= status.stopped();
                        self.news.push(status);
                    }
                }
                Err(Errno::INTR) => {}
                Err(_) => return false,
                Ok(None) => return true,
            }
        }
    }
}
