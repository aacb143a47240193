//! Holding for longer than the command runs.

mod support;

use std::{
    thread,
    time::{Duration, Instant},
};

use rustix::process::Signal;
use support::{Room, assert_one_line, until};

#[test]
fn a_runner_whose_clock_is_late_does_not_run_the_job_again() {
    let room = Room::new();
    let words = [
        "lock",
        "-n",
        "--hold-at-least",
        "1500ms",
        "--result-file",
        "result.json",
        "job",
        "sh",
        "-c",
        "echo ran >> log; exit 4",
    ];
    let start = Instant::now();
    let mut first = room.start(&words);
    until("the first to run", || room.read("log") == "ran\n");
    thread::sleep(Duration::from_millis(500));
    assert!(first.is_running());
    assert_eq!(room.run(&["lock", "-n", "job", "sh", "-c", "echo ran >> log"]).status.code(), Some(75));
    assert_eq!(first.code(), 4);
    assert!(start.elapsed() >= Duration::from_millis(1500));
    assert_eq!(room.read("log"), "ran\n");
    assert!(room.result()["held_ms"].as_u64().expect("a number") >= 1500);
    assert_eq!(room.entries(), 0);
}

#[test]
fn a_longer_command_is_not_held_longer() {
    let room = Room::new();
    let start = Instant::now();
    assert_eq!(room.run(&["lock", "-n", "--hold-at-least", "0.2", "job", "sleep", "0.4"]).status.code(), Some(0));
    assert!(start.elapsed() < Duration::from_secs(3), "{:?}", start.elapsed());
}

#[test]
fn a_command_that_did_not_run_is_left_to_others_at_once() {
    let room = Room::new();
    let start = Instant::now();
    assert_eq!(room.run(&["lock", "-n", "--hold-at-least", "60s", "job", "no-such-command"]).status.code(), Some(127));
    assert!(start.elapsed() < Duration::from_secs(5));
    assert_eq!(room.entries(), 0);
}

#[test]
fn waiting_as_long_as_it_is_held_is_refused() {
    let room = Room::new();
    for words in
        [&["--hold-at-least", "5s"][..], &["-w", "5", "--hold-at-least", "5s"], &["-w", "9", "--hold-at-least", "5s"]]
    {
        let output = room.run(&[&["lock"], words, &["job", "touch", "ran"]].concat());
        assert_eq!(output.status.code(), Some(64), "{words:?}");
        assert_one_line(&output, "would run it again: write -n, or -w with less than 5s");
    }
    assert!(!room.path("ran").exists());
    assert_eq!(room.run(&["lock", "-w", "0.1", "--hold-at-least", "0.2", "job", "true"]).status.code(), Some(0));
}

#[test]
fn term_and_int_during_the_hold_release_at_once() {
    let room = Room::new();
    for signal in [Signal::TERM, Signal::INT] {
        let mut holder =
            room.start(&["lock", "-n", "--hold-at-least", "60s", "job", "sh", "-c", "touch ready; exit 3"]);
        until("the command", || room.path("ready").exists());
        let watchdog_gone = || support::children(holder.pid()).is_empty();
        until("the end of the command", watchdog_gone);
        thread::sleep(Duration::from_millis(100));
        assert!(holder.is_running());
        assert_eq!(room.entries(), 1);
        let start = Instant::now();
        holder.signal(signal);
        assert_eq!(holder.code(), 3);
        assert!(start.elapsed() < Duration::from_secs(2));
        assert_eq!(room.entries(), 0);
        std::fs::remove_file(room.path("ready")).expect("removed");
    }
}

#[test]
fn a_command_that_was_told_to_end_is_not_held_for() {
    let room = Room::new();
    let mut holder = room.start_ready(&["-n", "--hold-at-least", "60s", "job"], "touch ready; exec sleep 60");
    let start = Instant::now();
    holder.signal(Signal::TERM);
    assert_eq!(holder.code(), 143);
    assert!(start.elapsed() < Duration::from_secs(2));
}

#[test]
fn a_hold_that_is_lost_says_so_and_keeps_the_code() {
    let room = Room::new();
    let mut holder = room.start(&["lock", "-n", "--hold-at-least", "60s", "job", "sh", "-c", "touch ready; exit 3"]);
    until("the command", || room.path("ready").exists());
    thread::sleep(Duration::from_millis(800));
    room.database().execute("DELETE FROM entries", []).expect("removed");
    assert_eq!(holder.code(), 3);
    assert_one_line(&holder.output(), "was lost after the command had ended");
}
