//! All processes that stem from this one, and their end: those in sessions of their own, daemons and orphans included.
//!
//! It relies on this process being a sub-reaper: an orphan becomes our child, so a descendant always has an unbroken line to us. What
//! another process starts on request (a service manager, a container engine) does not stem from us.

use std::{
    collections::HashMap,
    fs, io, thread,
    time::{Duration, Instant},
};

use rustix::{
    io::Errno,
    process::{Pid, PidfdFlags, Signal, getpid, kill_process, pidfd_open, pidfd_send_signal},
};

/// A process, told apart from a later one with the same number by its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) pid: i32,
    pub(crate) parent: i32,
    alive: bool,
    started: u64,
}

/// What is left after everything was killed.
#[derive(Debug, Default)]
pub(crate) struct Leftover {
    /// Killed, but not dead yet.
    pub(crate) stubborn: Vec<i32>,
    /// Processes of other users.
    pub(crate) untouchable: Vec<i32>,
    /// Whether there is nothing more to do.
    pub(crate) over: bool,
}

impl Process {
    /// The process that has this number now.
    pub(crate) fn find(pid: i32) -> Option<Self> {
        parse(pid, &fs::read(format!("/proc/{pid}/stat")).ok()?)
    }

    fn is(&self, other: &Self) -> bool {
        (self.pid, self.started) == (other.pid, other.started)
    }

    /// Sends a signal to this very process.
    pub(crate) fn signal(&self, signal: Signal) -> Result<(), Errno> {
        let pid = Pid::from_raw(self.pid).ok_or(Errno::SRCH)?;
        match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(handle) => {
                let same = Self::find(self.pid).is_some_and(|now| now.is(self));
                if same { pidfd_send_signal(handle, signal) } else { Err(Errno::SRCH) }
            }
            Err(Errno::NOSYS) => kill_process(pid, signal),
            Err(error) => Err(error),
        }
    }
}

/// The living descendants of this process, but for those in `spare` and what stems from them.
///
/// # Errors
/// What keeps `/proc` from being read.
pub(crate) fn living(spare: &[Process]) -> io::Result<Vec<Process>> {
    let mut children = HashMap::<i32, Vec<Process>>::new();
    for process in table()? {
        children.entry(process.parent).or_default().push(process);
    }
    let mut found = Vec::new();
    let mut parents = vec![getpid().as_raw_pid()];
    while let Some(parent) = parents.pop() {
        for child in children.remove(&parent).unwrap_or_default() {
            if !spare.iter().any(|spared| spared.is(&child)) {
                parents.push(child.pid);
                found.push(child);
            }
        }
    }
    found.retain(|process| process.alive);
    Ok(found)
}

/// Our living children but for the command: they were left to us.
pub(crate) fn orphans(command: Pid) -> Vec<Process> {
    let mut all = living(&[]).unwrap_or_default();
    all.retain(|process| process.parent == getpid().as_raw_pid() && process.pid != command.as_raw_pid());
    all
}

/// Kills until nothing is left, or only what cannot be killed, or the limit is over. `reap` buries the dead and says whether we have
/// any children left: without children there are no descendants.
pub(crate) fn kill_all(limit: Duration, mut reap: impl FnMut() -> bool) -> Leftover {
    let start = Instant::now();
    loop {
        let left = kill_once(&[], &mut reap);
        if left.over || start.elapsed() > limit {
            return left;
        }
        thread::sleep(Duration::from_millis(2));
    }
}

/// Kills what is there now, but for those in `spare` and what stems from them.
pub(crate) fn kill_once(spare: &[Process], reap: impl FnOnce() -> bool) -> Leftover {
    let (mut left, living) = (Leftover::default(), living(spare));
    for process in living.iter().flatten() {
        let list = match process.signal(Signal::KILL) {
            Err(Errno::PERM) => &mut left.untouchable,
            _ => &mut left.stubborn,
        };
        list.push(process.pid);
    }
    if !reap() {
        return Leftover { over: true, ..Leftover::default() };
    }
    let only_others = left.stubborn.is_empty() && !(left.untouchable.is_empty() && spare.is_empty());
    left.over = only_others && living.is_ok();
    left
}

fn table() -> io::Result<Vec<Process>> {
    let pid = |entry: io::Result<fs::DirEntry>| entry.ok()?.file_name().to_str()?.parse().ok();
    Ok(fs::read_dir("/proc")?.filter_map(pid).filter_map(Process::find).collect())
}

/// `pid (name) state parent …`: the name may hold anything, brackets included.
fn parse(pid: i32, stat: &[u8]) -> Option<Process> {
    let name_end = stat.iter().rposition(|byte| *byte == b')')?;
    let fields: Vec<&str> = std::str::from_utf8(&stat[name_end + 1..]).ok()?.split_ascii_whitespace().collect();
    let (state, threads) = (*fields.first()?, fields.get(17)?.parse::<u32>().ok()?);
    // A process whose first thread has ended looks dead, but its other threads still act.
    let alive = !matches!(state, "Z" | "X") || threads > 1;
    Some(Process { pid, parent: fields.get(1)?.parse().ok()?, alive, started: fields.get(19)?.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_brackets_and_a_dead_first_thread() {
        let stat = |state: &str, threads: u32| {
            format!("7 (a) Z (b) ) {state} 3 7 7 0 -1 4 0 0 0 0 0 0 0 0 20 0 {threads} 0 1234 0 0")
        };
        let parsed = |state, threads| parse(7, stat(state, threads).as_bytes()).expect("well-formed");
        assert_eq!(parsed("S", 1), Process { pid: 7, parent: 3, alive: true, started: 1234 });
        assert!(!parsed("Z", 1).alive);
        assert!(parsed("Z", 2).alive);
        assert_eq!(parse(7, b"7 (cut"), None);
    }

    #[test]
    fn a_signal_reaches_only_the_process_that_was_meant() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("sleep runs");
        let pid = i32::try_from(child.id()).expect("a pid");
        let process = living(&[]).expect("readable").into_iter().find(|p| p.pid == pid).expect("it is ours");
        assert_eq!(living(&[process]).expect("readable").iter().find(|p| p.pid == pid), None);
        let another = Process { started: process.started + 1, ..process };
        assert!(living(&[another]).expect("readable").contains(&process), "only the number is the same");
        assert_eq!(another.signal(Signal::KILL), Err(Errno::SRCH));
        assert_eq!(process.signal(Signal::KILL), Ok(()));
        assert!(!child.wait().expect("it ends").success());
    }
}
