//! `tenure verify`.

mod support;

use rusqlite::TransactionBehavior;
use support::{Room, assert_one_line, text};

fn code(room: &Room, token: u64) -> Option<i32> {
    room.run(&["verify", "job", "--token", &token.to_string()]).status.code()
}

#[test]
fn only_the_token_of_the_present_holder_passes() {
    let room = Room::new();
    assert_eq!(code(&room, 1), Some(1), "nobody holds it");
    let script = "echo $TENURE_TOKEN > token; touch ready; exec sleep 60";
    let mut first = room.start_ready(&["job"], script);
    let before: u64 = room.read("token").trim().parse().expect("a token");
    assert_eq!(code(&room, before), Some(0));
    let second = room.start(&["lock", "job", "sh", "-c", "echo $TENURE_TOKEN > next; exec sleep 60"]);
    room.until_entries(2);
    assert_eq!(code(&room, before), Some(0), "whoever waits holds nothing");
    let waiting: u64 = room
        .database()
        .query_row("SELECT max(token) FROM entries", [], |row| row.get::<_, i64>(0))
        .map(|token| token.try_into().expect("not negative"))
        .expect("two entries");
    assert!(waiting > before);
    assert_eq!(
        (code(&room, before - 1), code(&room, waiting)),
        (Some(1), Some(1)),
        "a waiter's number is no token yet"
    );
    first.signal(rustix::process::Signal::TERM);
    first.status();
    support::until("the next one", || room.read("next").ends_with('\n'));
    let next = room.read("next").trim().parse().expect("a token");
    assert_eq!(next, waiting, "it is the token from the grant on");
    assert_eq!((code(&room, before), code(&room, next)), (Some(1), Some(0)));
    drop(second);
}

#[test]
fn a_leader_is_a_holder_and_a_reader_has_no_token() {
    let room = Room::new();
    let words = ["--value", "here\n", "job", "sh", "-c", "echo $TENURE_TOKEN > token; touch ready; exec sleep 60"];
    let leader = room.start(&[&["elect"], &words[..]].concat());
    support::until("the leader", || room.path("ready").exists());
    let token = room.read("token").trim().parse().expect("a token");
    assert_eq!(code(&room, token), Some(0));
    let output = room.run(&["verify", "-v", "job", "--token", "0"]);
    assert_eq!(output.status.code(), Some(1));
    assert_one_line(&output, &format!("'job' is not held with token 0: token {token} is, by 'here\\n'"));
    drop(leader);
    let room = Room::new();
    let _reader = room.start_ready(&["-s", "job"], "touch ready; exec sleep 60");
    let first: i64 = room.database().query_row("SELECT token FROM entries", [], |row| row.get(0)).expect("one");
    let first = u64::try_from(first).expect("not negative");
    assert_eq!(code(&room, first), Some(1));
}

/// With the `token_base`: it is the number that the holder was given.
#[test]
fn the_token_is_as_the_holder_knows_it() {
    let room = Room::new();
    let url = format!("{}&token_base=1000", room.url());
    let script = "echo $TENURE_TOKEN > token; touch ready; exec sleep 60";
    let _holder = room.start_ready(&["--url", &url, "job"], script);
    let token: u64 = room.read("token").trim().parse().expect("a token");
    let asked = |token: u64| room.run(&["verify", "--url", &url, "job", "--token", &token.to_string()]).status.code();
    assert!(token > 1000);
    assert_eq!((asked(token), asked(token - 1000)), (Some(0), Some(1)));
}

#[test]
fn it_is_silent_in_scripts_and_says_who_holds_it_when_asked() {
    let room = Room::new();
    let _holder = room.start_ready(&["job"], "touch ready; exec sleep 60");
    let output = room.run(&["verify", "job", "--token", "0"]);
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(1), String::new()));
    let output = room.run(&["verify", "-v", "job", "--token", "0"]);
    assert_one_line(&output, "is, by sh (pid ");
    let output = room.run(&["verify", "-v", "other", "--token", "7"]);
    assert_one_line(&output, "'other' is not held with token 7: nobody holds it alone");
}

#[test]
fn what_cannot_be_answered_is_neither_yes_nor_no() {
    let room = Room::new();
    assert_eq!(code(&room, 1), Some(1));
    for (words, code) in [
        (&["verify", "job"][..], 64),
        (&["verify", "job", "--token", "x"], 64),
        (&["verify", "", "--token", "1"], 78),
        (&["verify", "--url", "oracle:", "job", "--token", "1"], 78),
    ] {
        assert_eq!(room.run(words).status.code(), Some(code), "{words:?}");
    }
    let mut database = room.database();
    let _blocking = database.transaction_with_behavior(TransactionBehavior::Immediate).expect("free");
    let url = format!("{}&connect_timeout=1s", room.url());
    assert_eq!(room.run(&["verify", "--url", &url, "job", "--token", "1"]).status.code(), Some(69));
}
