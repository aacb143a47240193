//! `tenure resign`: what it exits with.

use rustix::process::Signal;

use crate::support::{Room, Running, assert_one_line, text, until};

fn candidate(room: &Room, value: &str, before: usize) -> Running {
    let candidate = room.start(&["elect", "--value", value, "job", "sleep", "60"]);
    until("it to stand in line", || {
        text(&room.run(&["observe", "--candidates", "job"]).stdout).lines().count() == before + 1
    });
    candidate
}

fn leader(room: &Room) -> String {
    text(&room.run(&["observe", "--once", "job"]).stdout)
}

#[test]
fn nobody_leads() {
    let room = Room::new();
    for words in [&["resign", "job"][..], &["resign", "--to", "x", "job"]] {
        let output = room.run(words);
        assert_eq!((output.status.code(), text(&output.stdout)), (Some(1), "-\n".to_owned()));
    }
}

#[test]
fn to_a_candidate_by_its_value_if_no_other_one_has_the_same() {
    let room = Room::new();
    let _all = [candidate(&room, "a", 0), candidate(&room, "b", 1), candidate(&room, "b", 2), candidate(&room, "c", 3)];
    until("one to lead", || leader(&room).ends_with(" a\n"));
    let output = room.run(&["resign", "-w", "20", "--to", "c", "--json", "job"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(json["leader"]["value"], "c");
    assert!(leader(&room).ends_with(" c\n"));
    for (to, says) in [("b", "2 candidates have the value 'b'"), ("d", "there is no candidate 'd'")] {
        let output = room.run(&["resign", "--to", to, "job"]);
        assert_eq!(output.status.code(), Some(64));
        assert_one_line(&output, says);
    }
    assert!(leader(&room).ends_with(" c\n"), "nothing has moved");
}

#[test]
fn to_a_candidate_that_vanishes() {
    let room = Room::new();
    let script = "trap 'touch told; until [ -e go ]; do sleep 0.02; done; exit 0' TERM; touch ready; while :; do sleep 0.02; done";
    let _old = room.start(&["elect", "--value", "a", "job", "--", "sh", "-c", script]);
    until("it to lead", || room.path("ready").exists());
    let (mut chosen, _next) = (candidate(&room, "b", 1), candidate(&room, "c", 2));
    let resign = room.start(&["resign", "-w", "20", "--to", "b", "job"]);
    until("the leader to be told", || room.path("told").exists());
    chosen.signal(Signal::TERM);
    assert_eq!(chosen.code(), 143);
    room.write("go", "");
    let output = resign.output();
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stdout).ends_with(" c\n"), "{}", text(&output.stdout));
    assert!(text(&output.stderr).contains("'b' has vanished"), "{}", text(&output.stderr));
}

/// A lock does not look at requests; the request does not outlive whoever has made it.
#[test]
fn who_does_not_obey_is_waited_for_no_longer_than_was_said() {
    let room = Room::new();
    let mut holder = room.start_ready(&["job"], "touch ready; until [ -e go ]; do sleep 0.01; done");
    let output = room.run(&["resign", "-w", "0.5", "job"]);
    assert_eq!(output.status.code(), Some(75));
    assert_one_line(&output, "has not resigned within 500ms");
    room.until_entries(1);
    room.write("go", "");
    assert_eq!(holder.code(), 0);
}
