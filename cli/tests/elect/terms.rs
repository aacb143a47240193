//! A term and its command: what it gets, how it is ended, and what tenure exits with.

use std::{
    fs,
    process::{Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

use rustix::process::Signal;
use serde_json::Value;

use crate::support::{Room, Running, assert_one_line, text, until};

/// Starts `tenure elect`, and waits until the script has made a file called `ready`.
fn start_ready(room: &Room, words: &[&str], script: &str) -> Running {
    let running = room.start(&[&["elect"], words, &["job", "--", "sh", "-c", script]].concat());
    until("the command to be ready", || room.path("ready").exists());
    running
}

fn resign(room: &Room) -> Output {
    room.run(&["resign", "-w", "20", "job"])
}

/// All that `tenure` says, without its name.
fn said(output: &Output) -> Vec<String> {
    text(&output.stderr).lines().map(|line| line.trim_start_matches("tenure: ").to_owned()).collect()
}

#[test]
fn the_command_gets_name_and_token_and_its_code_is_ours() {
    let room = Room::new();
    let output = room.run(&[
        "elect",
        "--value",
        "v",
        "--result-file",
        "result.json",
        "job",
        "--",
        "sh",
        "-c",
        "echo $TENURE_NAME $TENURE_TOKEN; exit 7",
    ]);
    assert_eq!(output.status.code(), Some(7));
    let result = room.result();
    assert_eq!(text(&output.stdout), format!("job {}\n", result["token"]));
    let facts = [&result["outcome"], &result["terms"], &result["child"]["code"]];
    assert_eq!(facts, [&Value::from("completed"), &1.into(), &7.into()]);
    assert_eq!(said(&output), [format!("leads 'job' with token {}", result["token"])]);
    assert_eq!(room.entries(), 0, "it has resigned");
}

#[test]
fn a_command_that_does_not_exist_ends_it() {
    let room = Room::new();
    for words in [&["elect", "job", "/does/not/exist"][..], &["elect", "--restart", "job", "/does/not/exist"]] {
        assert_eq!(room.run(words).status.code(), Some(127));
    }
}

#[test]
fn it_excludes_a_lock_on_the_same_name_both_ways() {
    let room = Room::with_ttl("60s");
    let mut leader = start_ready(&room, &[], "touch ready; until [ -e go ]; do sleep 0.01; done");
    assert_eq!(room.run(&["lock", "-n", "job", "true"]).status.code(), Some(75));
    room.write("go", "");
    assert_eq!(leader.code(), 0);
    fs::remove_file(room.path("ready")).expect("there");
    let mut lock = room.start_ready(&["job"], "touch ready; until [ -e off ]; do sleep 0.01; done");
    let mut candidate = room.start(&["elect", "job", "true"]);
    room.until_entries(2);
    thread::sleep(Duration::from_millis(200));
    assert!(candidate.is_running());
    room.write("off", "");
    assert_eq!((lock.code(), candidate.code()), (0, 0));
}

#[test]
fn term_gives_the_command_the_drain_time_and_no_longer() {
    for (drain, code, file) in [("10s", 9, true), ("300ms", 137, false)] {
        let room = Room::with_ttl("60s");
        let script = "trap 'sleep 1; touch drained; exit 9' TERM; touch ready; while :; do sleep 0.02; done";
        let mut leader = start_ready(&room, &["--drain", drain], script);
        let start = Instant::now();
        leader.signal(Signal::TERM);
        assert_eq!(leader.code(), code);
        assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
        assert_eq!(room.path("drained").exists(), file);
        assert_eq!(room.entries(), 0, "it has resigned");
    }
}

#[test]
fn hup_is_only_passed_on() {
    let room = Room::new();
    let script = "trap 'touch reloaded' HUP; touch ready; until [ -e go ]; do sleep 0.02; done; exit 4";
    let mut leader = start_ready(&room, &["--drain", "100ms"], script);
    leader.signal(Signal::HUP);
    until("the command to reload", || room.path("reloaded").exists());
    thread::sleep(Duration::from_millis(300));
    room.write("go", "");
    assert_eq!(leader.code(), 4);
}

#[test]
fn a_signal_ends_the_candidacy() {
    let room = Room::new();
    let _leader = start_ready(&room, &[], "touch ready; sleep 60");
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143), (Signal::QUIT, 131)] {
        let mut candidate = room.start(&["elect", "job", "touch", "ran"]);
        room.until_entries(2);
        candidate.signal(signal);
        assert_eq!(candidate.code(), code);
        assert_eq!(room.entries(), 1, "{signal:?}");
    }
    assert!(!room.path("ran").exists());
}

/// As sent to all replicas of a service, so that they reload. Without a terminal, which might have hung up.
#[test]
fn hup_does_not_end_the_candidacy() {
    let room = Room::new();
    let mut leader = start_ready(&room, &[], "touch ready; until [ -e go ]; do sleep 0.02; done");
    let elect = room.tenure(&["elect", "job", "touch", "ran"]);
    let mut candidate = Command::new("setsid");
    candidate.arg(elect.get_program()).args(elect.get_args()).current_dir(room.path(".")).env("TENURE_URL", room.url());
    candidate.stderr(Stdio::null());
    let mut candidate = Running::start(&mut candidate);
    room.until_entries(2);
    candidate.signal(Signal::HUP);
    thread::sleep(Duration::from_millis(300));
    assert_eq!((candidate.is_running(), room.entries()), (true, 2));
    room.write("go", "");
    assert_eq!((leader.code(), candidate.code()), (0, 0));
    assert!(room.path("ran").exists());
}

#[test]
fn once_is_one_term() {
    let script = "trap 'exit 3' TERM; touch ready; while :; do sleep 0.02; done";
    let room = Room::with_ttl("60s");
    let mut leader = start_ready(&room, &["--once"], script);
    assert_eq!(resign(&room).status.code(), Some(0));
    assert_eq!(leader.code(), 3, "asked to resign, it ends with the code of the command");

    fs::remove_file(room.path("ready")).expect("there");
    let mut leader = start_ready(&room, &["--once", "--result-file", "result.json"], script);
    thread::sleep(Duration::from_millis(700)); // from then on the own entry is watched
    room.database().execute("DELETE FROM entries", []).expect("removed");
    assert_eq!(leader.code(), 76);
    assert_eq!(room.result()["outcome"], "lost");
    let said = said(&leader.output());
    assert!(said[1].contains("the leadership of 'job' was lost: its entry was removed by somebody else"), "{said:?}");
}

#[test]
fn restart_is_a_new_term_after_a_pause() {
    let room = Room::new();
    let start = Instant::now();
    let script = "echo $TENURE_TOKEN >> tokens; [ $(wc -l < tokens) -ge 3 ] && kill -INT $$; exit 7";
    let output = room.run(&["elect", "--restart", "job", "--", "sh", "-c", script]);
    assert_eq!(output.status.code(), Some(130), "what a terminal has ended is not started again");
    assert!(start.elapsed() > Duration::from_secs(3), "a second, then two: {:?}", start.elapsed());
    let tokens: Vec<u64> = room.read("tokens").lines().map(|line| line.parse().expect("a token")).collect();
    assert!(tokens.len() == 3 && tokens.windows(2).all(|pair| pair[0] < pair[1]), "{tokens:?}");
    let said = said(&output);
    assert_eq!(said.iter().filter(|line| line.contains("the command has exited with 7")).count(), 2, "{said:?}");
}

#[test]
fn the_command_of_every_term_starts_with_the_same_signals() {
    let room = Room::new();
    let script =
        "grep -E '^Sig(Blk|Ign):' /proc/self/status >> signals; [ $(wc -l < signals) -lt 4 ] || kill -INT $$; exit 1";
    assert_eq!(room.run(&["elect", "--restart", "job", "--", "sh", "-c", script]).status.code(), Some(130));
    let signals = room.read("signals");
    let lines: Vec<_> = signals.lines().collect();
    assert_eq!(lines[..2], lines[2..], "{signals}");
}

#[test]
fn a_term_by_preference() {
    let room = Room::new();
    let script = "touch ready; while :; do sleep 0.02; done";
    let _leader = start_ready(&room, &["--priority", "1", "--hysteresis", "1s", "--value", "far"], script);
    let _near =
        room.start(&["elect", "--priority", "2", "--hysteresis", "1s", "--value", "near", "job", "sleep", "60"]);
    let start = Instant::now();
    until("the preferred one to lead", || text(&room.run(&["observe", "--once", "job"]).stdout).ends_with(" near\n"));
    assert!(start.elapsed() > Duration::from_millis(900), "not before it has waited: {:?}", start.elapsed());
}

#[test]
fn what_is_wrong_is_said_in_a_line() {
    let room = Room::new();
    for (words, code, says) in [
        (&["elect", "job"][..], 64, "see tenure elect --help"),
        (&["elect", "--once", "--restart", "job", "true"], 64, "cannot be used with"),
        (&["elect", "--grace", "60s", "job", "true"], 78, "--grace 1m does not fit"),
        (&["elect", "--url", "oracle:", "job", "true"], 78, "oracle"),
        (&["observe"], 64, "see tenure observe --help"),
        (&["resign", "-w", "soon", "job"], 64, "is no duration"),
    ] {
        let output = room.run(words);
        assert_eq!(output.status.code(), Some(code), "{words:?} {}", text(&output.stderr));
        assert_one_line(&output, says);
    }
}
