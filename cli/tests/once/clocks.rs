//! Wall clocks decide nothing: not those of hosts that are days apart, and not one that is set.

use std::{thread, time::Duration};

use super::runs::{by_clock, remembered};
use crate::support::{Room, Running};

/// The command notes the time that its host believes it is.
fn runs(room: &Room, expire: &str, offset: &str) -> usize {
    let mut command = room.tenure(&["once", "--expire", expire, "job", "sh", "-c", "date +%s >> dates"]);
    by_clock(&mut command, offset);
    assert_eq!(Running::start(&mut command).code(), 0);
    room.read("dates").lines().count()
}

#[test]
fn hosts_whose_clocks_are_days_apart_do_it_once() {
    for first in ["-3d", "+0d", "+3d"] {
        let room = Room::new();
        assert_eq!(runs(&room, "1h", first), 1);
        let success = remembered(&room);
        for other in ["+0d", "+1d", "-1d", "+300d", "-300d"] {
            assert_eq!(runs(&room, "1h", other), 1, "{first} {other}");
        }
        assert_eq!(remembered(&room), success);
    }
}

#[test]
fn it_is_forgotten_when_the_time_has_passed_and_not_when_a_clock_is_set() {
    let room = Room::new();
    assert_eq!(runs(&room, "4s", "+1d"), 1);
    let success = remembered(&room);
    assert_eq!(runs(&room, "4s", "+9d"), 1);
    thread::sleep(Duration::from_millis(4100));
    assert_eq!(remembered(&room), success, "to look forgets nothing");
    assert_eq!(runs(&room, "1h", "+9d"), 1, "who wants it for longer has it for longer");
    assert_eq!(runs(&room, "4s", "-9d"), 2);
    assert!(remembered(&room) > success);
    let dates: Vec<i64> = room.read("dates").lines().map(|date| date.parse().expect("seconds")).collect();
    assert!(dates[0] - dates[1] > 86_400, "the fake is in effect: {dates:?}");
}
