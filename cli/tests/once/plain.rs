//! One after the other, with nothing in the way.

use std::{fs, process::Stdio};

use rustix::process::Signal;
use serde_json::Value;

use super::runs::remembered;
use crate::support::{Room, assert_one_line, text, until};

fn once(room: &Room, options: &[&str], script: &str) -> (Option<i32>, Value) {
    let words = [&["once", "--result-file", "result.json"], options, &["job", "sh", "-c", script]].concat();
    let output = room.run(&words);
    assert_eq!((text(&output.stdout), text(&output.stderr)), (String::new(), String::new()), "silent in scripts");
    (output.status.code(), room.result())
}

#[test]
fn a_failure_is_tried_again_and_a_success_is_not() {
    let room = Room::new();
    let (code, result) = once(&room, &[], "echo $TENURE_NAME $TENURE_TOKEN >> log; exit 7");
    assert_eq!((code, &result["outcome"]), (Some(7), &"completed".into()));
    assert_eq!(once(&room, &[], "kill -9 $$").0, Some(137));
    assert_eq!(room.run(&["once", "-n", "job", "no-such-command"]).status.code(), Some(127));
    assert_eq!(remembered(&room), None);
    let (code, done) = once(&room, &[], "echo $TENURE_NAME $TENURE_TOKEN >> log");
    assert_eq!((code, &done["outcome"]), (Some(0), &"completed".into()));
    for options in [&[][..], &["-n"], &["-w", "1"], &["--expire", "1h"]] {
        let (code, result) = once(&room, options, "echo never >> log");
        assert_eq!((code, &result["outcome"], &result["exit_code"]), (Some(0), &"done-before".into(), &0.into()));
        assert_eq!(result["token"], done["token"], "it is that of the success");
        assert!(result["reason"].as_str().expect("one").contains("was done before, with token"), "{result}");
    }
    assert_eq!(remembered(&room), done["token"].as_u64());
    let log = room.read("log");
    assert!(log.lines().count() == 2 && log.ends_with(&format!("job {}\n", done["token"])), "{log}");
    assert_eq!(room.entries(), 0);
}

#[test]
fn its_status_is_told_and_it_can_be_forgotten() {
    let room = Room::new();
    let status = |options: &[&str]| {
        let output = room.run(&[&["once", "--status"], options, &["job"]].concat());
        (output.status.code(), text(&output.stdout))
    };
    assert_eq!(status(&[]), (Some(1), "-\n".to_owned()));
    assert_eq!(status(&["--json"]), (Some(1), "{\"success\":null}\n".to_owned()));
    assert_eq!(room.run(&["once", "--forget", "job"]).status.code(), Some(1));
    let (_, done) = once(&room, &[], "echo ran >> log");
    let (code, line) = status(&[]);
    assert!(code == Some(0) && line.starts_with(&format!("{} ", done["token"])) && line.ends_with(" sh\n"), "{line}");
    let (code, json) = status(&["--json"]);
    let json: Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(
        (code, &json["success"]["token"], &json["success"]["by"]["program"]),
        (Some(0), &done["token"], &"sh".into())
    );
    assert_eq!(room.run(&["once", "--forget", "job"]).status.code(), Some(0));
    assert_eq!(status(&[]).0, Some(1));
    once(&room, &[], "echo ran >> log");
    assert_eq!(room.read("log"), "ran\nran\n");
}

#[test]
fn keys_are_strangers_and_a_lock_of_the_same_name_is_not() {
    let room = Room::new();
    once(&room, &[], "true");
    for (key, ran) in [("job/a", true), ("jo", true), ("job", false)] {
        assert_eq!(room.run(&["once", key, "touch", "ran"]).status.code(), Some(0));
        assert_eq!(fs::remove_file(room.path("ran")).is_ok(), ran, "{key}");
    }
    let _holder = room.start_ready(&["other"], "touch ready; exec sleep 60");
    for words in [&["-n"][..], &["-w", "0.2"], &["-nE", "3"]] {
        let output = room.run(&[&["once"], words, &["other", "true"]].concat());
        assert_eq!(output.status.code(), Some(if words == ["-nE", "3"] { 3 } else { 75 }), "{words:?}");
    }
    assert_eq!(room.run(&["once", "--forget", "-w", "0.2", "other"]).status.code(), Some(75));
}

#[test]
fn a_terminal_is_told_that_it_was_done_before() {
    let room = Room::new();
    once(&room, &[], "true");
    let mut script = std::process::Command::new("script");
    let command = format!("{} once job true", env!("CARGO_BIN_EXE_tenure"));
    script.args(["-qec", &command, "/dev/null"]).env("TENURE_URL", room.url()).stdin(Stdio::null());
    let output = crate::support::Running::start(script.stdout(Stdio::piped())).output();
    let said = text(&output.stdout);
    assert!(output.status.success() && said.contains("'job' was done before, with token "), "{said}");
}

#[test]
fn term_while_it_runs_is_a_failure_and_while_it_waits_ends_the_waiting() {
    let room = Room::new();
    let mut runner = room.start(&["once", "job", "sh", "-c", "touch ready; exec sleep 60"]);
    until("the command", || room.path("ready").exists());
    let mut waiter = room.start(&["once", "job", "touch", "ran"]);
    room.until_entries(2);
    waiter.signal(Signal::TERM);
    assert_eq!(waiter.code(), 143);
    runner.signal(Signal::TERM);
    assert_eq!(runner.code(), 143);
    assert_eq!((remembered(&room), room.path("ran").exists()), (None, false));
}

#[test]
fn what_is_wrong_is_said_in_a_line() {
    let room = Room::new();
    for (words, code, says) in [
        (&["once", "job"][..], 64, "COMMAND"),
        (&["once", "--expire", "x", "job", "true"], 64, "duration"),
        (&["once", "", "true"], 78, "name"),
        (&["once", "--url", "oracle:", "job", "true"], 78, "oracle"),
    ] {
        let output = room.run(words);
        assert_eq!(output.status.code(), Some(code), "{words:?} {}", text(&output.stderr));
        assert_one_line(&output, says);
    }
}
