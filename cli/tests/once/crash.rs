//! What comes between the command's success and its record.

use std::{thread, time::Duration};

use rusqlite::TransactionBehavior;
use rustix::process::Signal;

use super::runs::remembered;
use crate::support::{Room, text, until};

/// Its command is done, but has not ended.
const DONE: &str = "echo ran >> log; touch ready; until [ -e go ]; do sleep 0.01; done";

const WORDS: [&str; 7] = ["once", "--result-file", "result.json", "job", "--", "sh", "-c"];

#[test]
fn killed_before_the_record_it_runs_again_and_killed_after_it_does_not() {
    let room = Room::with_ttl("2s");
    let mut runner = room.start(&[&WORDS[..], &[DONE]].concat());
    until("the command", || room.path("ready").exists());
    runner.signal(Signal::KILL);
    assert_eq!(runner.status().code(), None);
    assert_eq!(remembered(&room), None);
    assert_eq!(room.run(&[&WORDS[..], &["echo again >> log"]].concat()).status.code(), Some(0));
    assert_eq!(room.run(&[&WORDS[..], &["echo never >> log"]].concat()).status.code(), Some(0));
    assert_eq!(room.read("log"), "ran\nagain\n");
}

/// Around the one moment that counts: whatever was recorded by then stands, and nothing else.
#[test]
fn killed_at_any_moment_around_the_record() {
    let room = Room::with_ttl("1s");
    let (mut recorded, mut not) = (0, 0);
    for moment in 0..60 {
        let key = format!("job{moment}");
        let log = format!("{key}.log");
        let script = format!("echo ran >> {log}; sleep 0.02");
        let mut runner = room.start(&["once", &key, "sh", "-c", &script]);
        until("the command", || room.path(&log).exists());
        thread::sleep(Duration::from_millis(2 * moment));
        runner.signal(Signal::KILL);
        runner.status();
        let status = || room.run(&["once", "--status", &key]).status.code();
        let is_recorded = status() == Some(0);
        (recorded, not) = (recorded + u32::from(is_recorded), not + u32::from(!is_recorded));
        if moment % 10 == 0 || (is_recorded && recorded < 3) {
            assert_eq!(room.run(&["once", &key, "sh", "-c", &script]).status.code(), Some(0));
            assert_eq!(room.read(&log).lines().count(), if is_recorded { 1 } else { 2 }, "{moment} ms");
            assert_eq!(status(), Some(0));
        }
        if recorded > 10 && not > 0 {
            break;
        }
    }
    println!("killed around the record: {recorded} times it was made, {not} times not");
    assert!(recorded > 0 && not > 0, "{recorded} {not}");
}

#[test]
fn a_lock_that_is_lost_before_the_record_is_76_and_it_runs_again() {
    let room = Room::new();
    let mut runner = room.start(&[&WORDS[..], &[DONE]].concat());
    until("the command", || room.path("ready").exists());
    room.database().execute("DELETE FROM entries", []).expect("removed"); // by hand
    room.write("go", "");
    assert_eq!(runner.code(), 76);
    assert_eq!(room.result()["outcome"], "lost");
    assert_eq!(remembered(&room), None);
    assert_eq!(room.run(&[&WORDS[..], &["echo again >> log"]].concat()).status.code(), Some(0));
    assert_eq!(room.read("log"), "ran\nagain\n");
}

/// While nobody can write, nothing is recorded, and 0 is not told.
#[test]
fn a_service_that_is_away_at_the_end() {
    let room = Room::with_ttl("2s");
    let mut runner = room.start(&[&WORDS[..], &[DONE]].concat());
    until("the command", || room.path("ready").exists());
    let mut database = room.database();
    database.busy_timeout(Duration::from_secs(5)).expect("set");
    let blocking = database.transaction_with_behavior(TransactionBehavior::Immediate).expect("it is free soon");
    room.write("go", "");
    let code = runner.code();
    drop(blocking);
    let said = text(&runner.output().stderr);
    assert!([69, 76].contains(&code), "{code} {said}");
    assert!(said.contains("it will be run again") || said.contains("lost"), "{said}");
    assert_eq!(remembered(&room), None);
    assert_eq!(room.run(&[&WORDS[..], &["echo again >> log"]].concat()).status.code(), Some(0));
    assert_eq!(room.read("log"), "ran\nagain\n");
}

/// It takes longer than a keep-alive: the lock is held up to the record.
#[test]
fn a_command_that_is_longer_than_the_ttl() {
    let room = Room::with_ttl("1s");
    let first = room.start(&[&WORDS[..], &["touch ready; sleep 3; echo ran >> log"]].concat());
    until("the command", || room.path("ready").exists());
    let second = room.start(&[&WORDS[..], &["echo never >> log"]].concat());
    for mut runner in [first, second] {
        assert_eq!(runner.code(), 0);
    }
    assert_eq!(room.read("log"), "ran\n");
}
