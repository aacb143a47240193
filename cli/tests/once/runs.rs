//! What the commands of many runners have written, and what the runners say of themselves: of one key, at most one is the success.
#![allow(dead_code, unreachable_pub, reason = "every test program uses a part of it")]

use std::{collections::BTreeMap, path::Path, process::Command};

use serde_json::Value;

use crate::support::{Room, Running, text};

/// Notes its start and its end, each with its token, and its processes; up to a second lies between. Three in five fail.
pub const BODY: &str = "
    echo \"$PPID $$\" > \"pids-$TENURE_TOKEN\"; echo \"start $TENURE_TOKEN\" >> ledger
    n=$(od -An -N1 -tu1 /dev/urandom); sleep 0.$((n % 10))
    [ $((n / 10 % 5)) -lt 2 ] || { echo \"fail $TENURE_TOKEN\" >> ledger; exit 9; }
    echo \"end $TENURE_TOKEN\" >> ledger";

/// One process of `tenure once`, which says in a file what came of it.
pub struct Runner {
    pub number: usize,
    pub process: Running,
}

pub fn runner(room: &Room, number: usize, options: &[&str], change: impl FnOnce(&mut Command)) -> Runner {
    let file = format!("result-{number}.json");
    let mut command =
        room.tenure(&[&["once", "--result-file", &file], options, &["job", "--", "sh", "-c", BODY]].concat());
    change(&mut command);
    Runner { number, process: Running::start(&mut command) }
}

impl Runner {
    /// What it says: nothing, if it was killed.
    pub fn result(&self, room: &Room) -> Option<Value> {
        serde_json::from_str(&room.read(&format!("result-{}.json", self.number))).ok()
    }
}

const LIBRARY: &str = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1";

/// Lets a process live by a wall clock that is so much ahead or behind.
pub fn by_clock(command: &mut Command, offset: &str) {
    assert!(Path::new(LIBRARY).exists(), "libfaketime is missing: apt-get install -y faketime");
    command.env("LD_PRELOAD", LIBRARY).env("FAKETIME", offset);
    command.env("FAKETIME_DONT_FAKE_MONOTONIC", "1").env("DONT_FAKE_MONOTONIC", "1");
}

/// The token of the success that is remembered.
pub fn remembered(room: &Room) -> Option<u64> {
    let output = room.run(&["once", "--status", "job"]);
    let line = text(&output.stdout);
    match output.status.code() {
        Some(0) => Some(line.split(' ').next().expect("a token").parse().expect("a number")),
        Some(1) => None,
        code => panic!("{code:?} {}", text(&output.stderr)),
    }
}

/// How often the command has begun. Two never overlap, and each begins once, with a rising token.
pub fn check_ledger(ledger: &str) -> BTreeMap<u64, bool> {
    let (mut runs, mut last) = (BTreeMap::new(), 0);
    for line in ledger.lines() {
        let (word, token) = line.split_once(' ').expect(line);
        let token: u64 = token.parse().expect(line);
        if word == "start" {
            assert!(token > last, "two runs overlap, or one begins twice: {ledger}");
            last = token;
        }
        assert_eq!(token, last, "it runs although the next one has begun: {ledger}");
        runs.insert(token, word == "end");
    }
    runs
}

/// All that must be true of a key whose success has this token.
pub fn check(room: &Room, success: u64, runners: &[Runner]) -> usize {
    let runs = check_ledger(&room.read("ledger"));
    assert_eq!(runs.get(&success), Some(&true), "the command of the success did not succeed: {runs:?}");
    assert_eq!(runs.keys().last(), Some(&success), "it was run after it was recorded: {runs:?}");
    for result in runners.iter().filter_map(|runner| runner.result(room)) {
        let (code, outcome) = (&result["exit_code"], &result["outcome"]);
        let says_done = *code == 0;
        assert!(!says_done || outcome == "completed" || outcome == "done-before", "{result}");
        assert!(!says_done || result["token"] == success, "a second success: {result}");
    }
    runs.len()
}

mod tests {
    use std::panic::catch_unwind;

    use super::check_ledger;

    #[test]
    fn overlapping_runs_are_found() {
        let runs = check_ledger("start 1\nstart 3\nfail 3\nstart 4\nend 4\n");
        assert_eq!(runs.into_iter().collect::<Vec<_>>(), [(1, false), (3, false), (4, true)]);
        for bad in ["start 1\nstart 2\nend 1\n", "start 2\nend 2\nstart 1\n", "start 1\nend 1\nstart 1\n"] {
            assert!(catch_unwind(|| check_ledger(bad)).is_err(), "{bad}");
        }
    }
}
