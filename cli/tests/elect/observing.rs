//! `tenure observe`.

use std::{
    io::{BufRead, BufReader},
    sync::mpsc::{Receiver, channel},
    thread,
    time::Duration,
};

use rusqlite::TransactionBehavior;
use rustix::process::Signal;
use serde_json::Value;

use crate::support::{LONG, Room, Running, assert_one_line, text, until};

fn codes(room: &Room, words: &[&str]) -> (Option<i32>, String) {
    let output = room.run(&[&["observe"], words, &["job"]].concat());
    (output.status.code(), text(&output.stdout))
}

/// Leads with this value until it is dropped.
fn leads(room: &Room, value: &str) -> Running {
    let leader = room.start(&["elect", "--value", value, "job", "sleep", "60"]);
    until("it to lead", || codes(room, &["--once"]).0 == Some(0));
    leader
}

#[test]
fn once_tells_who_leads_or_that_nobody_does() {
    let room = Room::new();
    assert_eq!(codes(&room, &["--once"]), (Some(1), "-\n".to_owned()));
    assert_eq!(codes(&room, &["--once", "--json"]), (Some(1), "{\"leader\":null}\n".to_owned()));
    assert_eq!(codes(&room, &["--candidates"]), (Some(1), String::new()));
    let _leader = leads(&room, "a\nb\u{1b}");
    let (code, line) = codes(&room, &["--once"]);
    assert!(code == Some(0) && line.ends_with(" a\\nb\\u{1b}\n") && line.lines().count() == 1, "{line}");
    let json: Value = serde_json::from_str(&codes(&room, &["--once", "--json"]).1).expect("JSON");
    assert_eq!(json["leader"]["value"], "a\nb\u{1b}");
    assert!(line.starts_with(&format!("{} ", json["leader"]["token"])), "{line}");
    let id = json["leader"]["id"].as_str().expect("an id");
    assert!(codes(&room, &["--candidates"]).1.contains(&format!(" {id} ")));
}

#[test]
fn a_lock_leads_under_who_holds_it() {
    let room = Room::new();
    let _holder = room.start_ready(&["job"], "touch ready; sleep 60");
    let json: Value = serde_json::from_str(&codes(&room, &["--once", "--json"]).1).expect("JSON");
    let holder: Value = serde_json::from_str(json["leader"]["value"].as_str().expect("a value")).expect("JSON");
    assert_eq!(holder["program"], "sh");
}

/// An observer, and what it says: so many lines are read.
fn observe(room: &Room, options: &[&str], count: usize) -> (Running, Receiver<String>) {
    let words = [&["observe"], options, &["job"]].concat();
    let mut observer = room.tenure(&words).spawn().expect("it starts");
    let stdout = BufReader::new(observer.stdout.take().expect("piped"));
    let (tell, lines) = channel();
    thread::spawn(move || {
        for line in stdout.lines().take(count).map_while(Result::ok) {
            let _ = tell.send(line);
        }
    });
    (observer.into(), lines)
}

#[test]
fn each_change_is_a_line_at_once() {
    let room = Room::new();
    let (mut observer, lines) = observe(&room, &[], usize::MAX);
    let (mut machine, objects) = observe(&room, &["--json"], usize::MAX);
    let next = || lines.recv_timeout(LONG).expect("a line");
    let next_leader = || {
        let line = objects.recv_timeout(LONG).expect("a line");
        let object: Value = serde_json::from_str(&line).expect("an object of its own in each line");
        assert_eq!(object.as_object().map(|members| members.len()), Some(1), "{line}");
        object["leader"].clone()
    };
    assert_eq!((next(), next_leader()), ("-".to_owned(), Value::Null));
    let mut leader = leads(&room, "a");
    let (line, object) = (next(), next_leader());
    assert_eq!((line, &object["value"]), (format!("{} a", object["token"]), &"a".into()), "{object}");
    assert!(object["token"].is_u64() && object["id"].is_string(), "{object}");
    leader.signal(Signal::TERM);
    assert_eq!((next(), next_leader()), ("-".to_owned(), Value::Null));
    for observer in [&mut observer, &mut machine] {
        observer.signal(Signal::TERM);
        assert_eq!(observer.code(), 143);
    }
    assert!(lines.recv_timeout(LONG).is_err() && objects.recv_timeout(LONG).is_err(), "that was all");
}

#[test]
fn it_ends_quietly_when_nobody_reads_any_more() {
    let room = Room::new();
    let (observer, lines) = observe(&room, &[], 1);
    assert_eq!(lines.recv_timeout(LONG).expect("a line"), "-");
    let output = observer.output(); // though nothing changes
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(141), String::new()));
}

/// Whoever reads slowly holds nothing up: it can be ended, and its session is kept.
#[test]
fn a_reader_that_does_not_read() {
    let room = Room::with_ttl("2s");
    let mut observer = room.start(&["observe", "job"]);
    let value = "x".repeat(60_000);
    for _ in 0..3 {
        let _leader = leads(&room, &value); // more than fits into the pipe
        thread::sleep(Duration::from_millis(100));
    }
    assert!(observer.is_running());
    observer.signal(Signal::TERM);
    assert_eq!(observer.status().code(), Some(143));
}

#[test]
fn what_is_wrong_is_said_in_a_line() {
    let room = Room::new();
    for (words, code, says) in
        [(&["observe", "--url", "oracle:", "job"][..], 78, "oracle"), (&["observe", "--once", ""], 78, "name")]
    {
        let output = room.run(words);
        assert_eq!(output.status.code(), Some(code), "{words:?} {}", text(&output.stderr));
        assert_one_line(&output, says);
    }
}

#[test]
fn a_backend_that_nobody_can_reach() {
    let room = Room::new();
    assert_eq!(codes(&room, &["--once"]).0, Some(1));
    let mut database = room.database();
    let _blocking = database.transaction_with_behavior(TransactionBehavior::Immediate).expect("free");
    let url = format!("{}&connect_timeout=1s", room.url());
    for (command, does) in [("observe", &[][..]), ("resign", &[]), ("elect", &["touch", "ran"])] {
        let words = [&[command, "--url", &url, "job"], does].concat();
        assert_eq!(room.run(&words).status.code(), Some(69), "{command}");
    }
    assert!(!room.path("ran").exists());
}
