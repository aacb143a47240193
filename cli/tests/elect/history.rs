//! The history of an election.

use rustix::process::Signal;
use serde_json::Value;

use crate::support::{Room, Running, text, until};

fn history(room: &Room, options: &[&str]) -> (Option<i32>, String) {
    let output = room.run(&[&["observe", "--history"], options, &["job"]].concat());
    assert_eq!(text(&output.stderr), "");
    (output.status.code(), text(&output.stdout))
}

/// The columns of each term.
fn terms(room: &Room) -> Vec<Vec<String>> {
    let (_, lines) = history(room, &[]);
    lines.lines().map(|line| line.split('\t').map(str::to_owned).collect()).collect()
}

/// Leads, and has noted that.
fn leads(room: &Room, value: &str, options: &[&str], command: &[&str]) -> Running {
    let before = terms(room).len();
    let words = [&["elect", "--history", "--value", value], options, &["job", "--"], command].concat();
    let leader = room.start(&words);
    until("the term to be noted", || terms(room).len() > before);
    leader
}

#[test]
fn it_tells_who_led_with_which_token_and_why_that_ended() {
    let room = Room::with_ttl("2s");
    assert_eq!(history(&room, &[]), (Some(1), String::new()));
    assert_eq!(room.run(&["elect", "--once", "job", "true"]).status.code(), Some(0));
    assert_eq!(history(&room, &[]), (Some(1), String::new()), "who does not keep it is not in it");
    let script = ["sh", "-c", "until [ -e go ]; do sleep 0.01; done; exit 3"];
    let mut leader = leads(&room, "a\tb", &[], &script);
    assert_eq!(terms(&room)[0][2..], ["-", "-", "a\\tb"]);
    room.write("go", "");
    assert_eq!(leader.code(), 3);
    let mut leader = leads(&room, "told", &[], &["sleep", "60"]);
    leader.signal(Signal::TERM);
    assert_eq!(leader.code(), 143);
    let mut leader = leads(&room, "killed", &[], &["sleep", "60"]);
    leader.signal(Signal::KILL);
    leader.status();
    assert_eq!(terms(&room)[2][2..4], ["-", "-"], "nobody knows yet");
    let mut leader = leads(&room, "asked", &["--once"], &["sleep", "60"]);
    assert_eq!(room.run(&["resign", "-w", "20", "job"]).status.code(), Some(0));
    leader.status();
    let terms = terms(&room);
    let tokens: Vec<u64> = terms.iter().map(|term| term[0].parse().expect("a token")).collect();
    assert!(tokens.windows(2).all(|pair| pair[0] < pair[1]), "{tokens:?}");
    let ends: Vec<_> = terms.iter().map(|term| (term[4].as_str(), term[3].as_str())).collect();
    let unseen = format!("unseen, before {}", tokens[3]);
    let expected = [
        ("a\\tb", "the command has exited with 3"),
        ("told", "it was told to stop"),
        ("killed", &unseen),
        ("asked", "it was asked to resign"),
    ];
    assert_eq!(ends, expected);
    assert_eq!(terms[2][2], "?");
}

#[test]
fn it_is_told_as_json_too() {
    let room = Room::new();
    let leader = leads(&room, "a", &[], &["sleep", "60"]);
    let (code, lines) = history(&room, &["--json"]);
    let json: Value = serde_json::from_str(lines.trim()).expect("one line of JSON");
    let term = &json["term"];
    assert_eq!((code, &term["value"], &term["end"]), (Some(0), &"a".into(), &Value::Null));
    assert_eq!(terms(&room)[0][0], term["token"].to_string());
    assert!(term["pid"].is_u64() && term["host"].is_string() && term["began"].is_string(), "{term}");
    drop(leader);
    assert_eq!(room.run(&["observe", "--history", "--once", "job"]).status.code(), Some(64));
}
