//! The wall clock decides nothing.

mod support;

use std::{
    path::Path,
    process::Command,
    thread,
    time::{Duration, SystemTime},
};

use support::{Room, Running, text};

const LIBRARY: &str = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1";

/// Lets a process live by a wall clock that follows a file: `+1d` there is a day ahead.
fn by_false_clock<'a>(command: &'a mut Command, room: &Room) -> &'a mut Command {
    assert!(Path::new(LIBRARY).exists(), "libfaketime is missing: apt-get install -y faketime");
    command.env("LD_PRELOAD", LIBRARY).env("FAKETIME_TIMESTAMP_FILE", room.path("offset"));
    command.env("FAKETIME_NO_CACHE", "1").env("FAKETIME_DONT_FAKE_MONOTONIC", "1").env("DONT_FAKE_MONOTONIC", "1")
}

fn now() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970").as_secs()
}

#[test]
fn a_wall_clock_that_jumps_by_a_day_changes_nothing() {
    for offset in ["+1d", "-1d"] {
        let room = Room::with_ttl("2s");
        room.write("offset", "+0d");
        let script = "date +%s >> dates; touch ready; until [ -e go ]; do sleep 0.05; done; date +%s >> dates";
        let mut holder = Running::start(by_false_clock(&mut room.tenure(&["lock", "job", "sh", "-c", script]), &room));
        support::until("the command", || room.path("ready").exists());
        let mut waiter = room.start(&["lock", "job", "sh", "-c", "[ -e go ] && echo after"]);
        room.until_entries(2);

        room.write("offset", offset); // while it is held, and another waits by the true clock
        let mut false_waiter = room.tenure(&["lock", "-n", "job", "true"]);
        thread::sleep(Duration::from_secs(5));
        assert_eq!(Running::start(by_false_clock(&mut false_waiter, &room)).code(), 75, "{offset}");
        assert!(holder.is_running() && waiter.is_running(), "{offset}");
        assert_eq!(room.entries(), 2);

        room.write("go", "");
        assert_eq!(holder.code(), 0, "{offset}");
        waiter.status();
        assert_eq!(text(&waiter.output().stdout), "after\n");
        let dates: Vec<u64> = room.read("dates").lines().map(|date| date.parse().expect("seconds")).collect();
        assert!(dates[0].abs_diff(now()) < 60 && dates[1].abs_diff(now()) > 86_000, "the fake is in effect: {dates:?}");
    }
}
