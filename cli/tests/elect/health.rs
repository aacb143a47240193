//! Who is not well does not lead.

use std::{
    fs,
    time::{Duration, Instant},
};

use rustix::process::Signal;

use crate::{
    ledger::{self, BODY},
    support::{Room, Running, children, found, is_alive, send, until},
};

const PROBE: &str = "echo \"$0 $TENURE_NAME $TENURE_TOKEN\" >> probes; setsid sleep 60 & [ ! -e sick ] || exit 1";

fn start(room: &Room, name: &str, health: &[&str]) -> Running {
    let words = [&["elect", "--value", name, "--drain", "1s"], health, &["job", "--", "sh", "-c", BODY, name]].concat();
    room.start(&words)
}

fn until_leads(room: &Room, name: &str) {
    until("it to lead", || ledger::terms(&room.read("ledger")).last().is_some_and(|term| term.name == name));
}

/// Two failures, a second apart at most, each after as long at most; then the drain time, and what a busy machine needs.
const OUT: Duration = Duration::from_secs(4 + 1 + 2);

#[test]
fn who_is_not_well_hands_over_and_comes_back() {
    let room = Room::with_ttl("60s");
    let _fickle = start(&room, "fickle", &["--health-cmd", PROBE, "--health-period", "1s"]);
    until_leads(&room, "fickle");
    let _steady = start(&room, "steady", &[]);
    room.until_entries(2);
    let token = ledger::terms(&room.read("ledger"))[0].token;
    found("a probe that knows the token", || {
        room.read("probes").lines().find(|line| line.ends_with(&format!(" job {token}"))).map(drop)
    });
    room.write("sick", "");
    let start = Instant::now();
    until_leads(&room, "steady");
    assert!(start.elapsed() < OUT, "{:?}", start.elapsed());
    let terms = ledger::terms(&room.read("ledger"));
    assert!(terms[0].stopped, "in good order");
    assert_eq!(room.entries(), 1, "it does not stand in line");
    fs::remove_file(room.path("sick")).expect("there");
    room.until_entries(2);
    assert!(room.read("probes").lines().last().is_some_and(|line| line.ends_with(" job ")), "it leads no more");
}

#[test]
fn a_probe_that_hangs_is_a_failure_and_leaves_nothing_behind() {
    let room = Room::with_ttl("60s");
    let hang = "[ ! -e sick ] || exec sleep 61";
    let mut leader = start(&room, "r", &["--once", "--health-cmd", hang, "--health-period", "300ms"]);
    until_leads(&room, "r");
    room.write("sick", "");
    assert_eq!(leader.code(), 76);
    until("nothing to be left", || room.inhabitants().is_empty());
}

/// What it has started is ended by `tenure` then; the command goes on.
#[test]
fn a_probe_whose_watchdog_is_killed_leaves_nothing_behind() {
    let room = Room::with_ttl("60s");
    let probe = "[ -e probe ] || { echo $$ > probe; exec sleep 61; }";
    let mut leader = start(&room, "r", &["--health-cmd", probe, "--health-period", "10s"]);
    let pid: i32 = found("the probe", || room.read("probe").trim().parse().ok());
    let watchdog = || children(leader.pid()).into_iter().find(|watchdog| children(*watchdog).contains(&pid));
    send(found("its watchdog", watchdog), Signal::KILL);
    let start = Instant::now();
    until("its end", || !is_alive(pid));
    assert!(start.elapsed() < Duration::from_secs(5), "not by the end of the period");
    until_leads(&room, "r");
    assert!(leader.is_running());
}

#[test]
fn a_probe_has_neither_our_stdin_nor_our_stdout() {
    let room = Room::new();
    let probe = "read line && exit 1; echo noise";
    let output = room.run(&["elect", "--health-cmd", probe, "--health-period", "300ms", "job", "--", "sleep", "1.5"]);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(0), 0));
}
