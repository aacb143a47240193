//! A process that was killed, and does not die for a while: as in an uninterruptible wait, or with a lot of memory.

use std::{
    thread,
    time::{Duration, Instant},
};

use nix::{
    sys::ptrace::{Options, detach, seize},
    unistd::Pid,
};
use rustix::process::Signal;

use crate::support::{Room, found, is_alive, send, text, until};

/// Lives on after KILL, until this is dropped. To be dropped by the thread that made it.
struct Undying(Pid);

impl Undying {
    fn make(pid: i32) -> Self {
        let pid = Pid::from_raw(pid);
        seize(pid, Options::PTRACE_O_TRACEEXIT).expect("our descendant");
        Self(pid)
    }
}

impl Drop for Undying {
    fn drop(&mut self) {
        let _ = detach(self.0, None);
    }
}

fn leads_until_it_has_died(watchdog_is_stopped: bool) {
    let room = Room::with_ttl("2s");
    let script = "trap '' TERM; sh -c 'trap \"\" TERM; echo $$ > undying; while :; do sleep 0.1; done' & wait";
    let mut leader =
        room.start(&["elect", "--once", "--drain", "200ms", "--value", "old", "job", "--", "sh", "-c", script]);
    let pid = found("the process", || room.read("undying").trim().parse().ok());
    let undying = Undying::make(pid);
    let _next = room.start(&["elect", "--value", "new", "job", "sleep", "60"]);
    room.until_entries(2);
    if watchdog_is_stopped {
        send(leader.watchdog(), Signal::STOP);
    }
    leader.signal(Signal::TERM);
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(6) {
        let leads = text(&room.run(&["observe", "--once", "job"]).stdout);
        assert!(leads.ends_with(" old\n") && is_alive(pid), "{leads}");
        thread::sleep(Duration::from_millis(100));
    }
    drop(undying);
    assert_eq!(leader.code(), 137);
    assert!(!is_alive(pid));
    until("the next one to lead", || text(&room.run(&["observe", "--once", "job"]).stdout).ends_with(" new\n"));
}

#[test]
fn it_is_not_resigned_while_something_is_left() {
    leads_until_it_has_died(false);
}

/// `tenure` kills then; it keeps the leadership alive meanwhile.
#[test]
fn nor_if_the_watchdog_does_not_kill() {
    leads_until_it_has_died(true);
}
