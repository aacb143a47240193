//! Who gets the lock, and when.

mod support;

use std::{
    fs,
    io::Write,
    process::Stdio,
    time::{Duration, Instant},
};

use support::{Room, Running, text, until};

#[test]
fn the_second_waits_and_runs_when_the_first_ends() {
    let room = Room::new();
    let mut first = room.start_ready(&["job"], "touch ready; until [ -e go ]; do sleep 0.01; done; echo first >> log");
    let mut second = room.start(&["lock", "job", "sh", "-c", "echo second >> log"]);
    room.until_entries(2);
    assert!(second.is_running() && first.is_running());
    assert_eq!(room.read("log"), "");
    room.write("go", "");
    assert_eq!((first.code(), second.code()), (0, 0));
    assert_eq!(room.read("log"), "first\nsecond\n");
    assert_eq!(room.entries(), 0);
}

#[test]
fn nonblock_and_limits_and_the_code_for_a_conflict() {
    let room = Room::new();
    let mut holder = room.start_ready(&["job"], "touch ready; until [ -e go ]; do sleep 0.01; done");
    for (words, code, at_least, at_most) in [
        (&["-n"][..], 75, 0, 2000),
        (&["-w", "0"], 75, 0, 2000),
        (&["-n", "-E", "0"], 0, 0, 2000),
        (&["-w", "0.4"], 75, 400, 2500),
        (&["--timeout", "400ms", "-E", "1"], 1, 400, 2500),
        (&["-s", "-n"], 75, 0, 2000),
        (&["--permits", "9", "-n"], 75, 0, 2000),
    ] {
        let start = Instant::now();
        let output = room.run(&[&["lock"], words, &["job", "touch", "ran"]].concat());
        let took = start.elapsed().as_millis();
        assert_eq!(output.status.code(), Some(code), "{words:?}");
        assert!((at_least..at_most).contains(&took), "{words:?} took {took} ms");
        assert_eq!((text(&output.stdout), text(&output.stderr)), (String::new(), String::new()), "quiet, as flock is");
        assert_eq!(room.entries(), 1, "{words:?} left an entry");
    }
    assert!(!room.path("ran").exists());
    room.write("go", "");
    assert_eq!(holder.code(), 0);
    assert_eq!(room.run(&["lock", "-w", "10", "job", "touch", "ran"]).status.code(), Some(0));
    assert!(room.path("ran").exists());
}

#[test]
fn other_names_are_strangers() {
    let room = Room::new();
    let _holder = room.start_ready(&["a"], "touch ready; sleep 60");
    for name in ["a/b", "A", "a ", "..", "%", "ä"] {
        assert_eq!(room.run(&["lock", "-n", name, "true"]).status.code(), Some(0), "{name}");
    }
    for name in ["", &"x".repeat(513)] {
        let output = room.run(&["lock", "-n", name, "true"]);
        assert_eq!(output.status.code(), Some(78));
        support::assert_one_line(&output, "");
    }
}

#[test]
fn a_hundred_processes_add_one_each_and_none_is_lost() {
    let room = Room::with_ttl("20s");
    room.write("count", "0");
    let add = "n=$(cat count); echo $((n + 1)) > count; echo $TENURE_TOKEN >> tokens";
    let mut all: Vec<Running> = (0..100).map(|_| room.start(&["lock", "count", "sh", "-c", add])).collect();
    for one in &mut all {
        assert_eq!(one.code(), 0);
    }
    assert_eq!(room.read("count").trim(), "100");
    let tokens: Vec<u64> = room.read("tokens").lines().map(|token| token.parse().expect("decimal")).collect();
    assert!(tokens.len() == 100 && tokens.is_sorted_by(|one, next| one < next), "{tokens:?}");
    assert_eq!(room.entries(), 0);
}

#[test]
fn tokens_rise_over_runs_and_over_an_emptied_queue() {
    let room = Room::new();
    let mut last = 0;
    for run in 0..5 {
        if run == 3 {
            room.database().execute("DELETE FROM entries", []).expect("removed");
        }
        let output = room.run(&["lock", "job", "sh", "-c", "echo $TENURE_NAME $TENURE_TOKEN"]);
        let stdout = text(&output.stdout);
        let token: u64 = stdout.strip_prefix("job ").expect("the name first").trim().parse().expect("decimal");
        assert!(token > last, "{token} after {last}");
        last = token;
    }
}

#[test]
fn only_the_exclusive_lock_has_a_token_and_an_inherited_one_is_removed() {
    let room = Room::new();
    let show = ["sh", "-c", "echo $TENURE_NAME ${TENURE_TOKEN-none}"];
    for how in [&["-s"][..], &["--permits", "2"]] {
        let mut command = room.tenure(&[&["lock"], how, &["inner"], &show[..]].concat());
        let output = Running::start(command.env("TENURE_TOKEN", "999").env("TENURE_NAME", "outer")).output();
        assert_eq!(text(&output.stdout), "inner none\n", "{how:?}");
    }
}

#[test]
fn never_more_than_three_with_three_permits() {
    let room = Room::new();
    fs::create_dir(room.path("in")).expect("a folder");
    let script = "touch in/$$; ls in | wc -l >> seen; sleep 0.2; rm in/$$";
    let mut all: Vec<Running> =
        (0..10).map(|_| room.start(&["lock", "--permits", "3", "pool", "sh", "-c", script])).collect();
    for one in &mut all {
        assert_eq!(one.code(), 0);
    }
    let seen: Vec<u32> = room.read("seen").lines().map(|line| line.trim().parse().expect("a number")).collect();
    assert_eq!((seen.len(), seen.iter().max()), (10, Some(&3)), "{seen:?}");
}

#[test]
fn readers_share_and_a_writer_excludes_them() {
    let room = Room::new();
    let wait = "touch ready$N; until [ -e go ]; do sleep 0.01; done; rm ready$N";
    let reader = |number: &str| Running::start(room.tenure(&["lock", "-s", "job", "sh", "-c", wait]).env("N", number));
    let mut readers = [reader("1"), reader("2")];
    until("both readers", || room.path("ready1").exists() && room.path("ready2").exists());
    let mut writer = room.start(&["lock", "-x", "job", "sh", "-c", "ls ready1 ready2 2>/dev/null; echo alone"]);
    room.until_entries(3);
    assert!(writer.is_running());
    room.write("go", "");
    assert!(readers.iter_mut().all(|reader| reader.code() == 0));
    writer.status();
    assert_eq!(text(&writer.output().stdout), "alone\n");
}

#[test]
fn stdin_stdout_and_stderr_are_the_commands() {
    let room = Room::new();
    let mut command = room.tenure(&["lock", "job", "sh", "-c", "cat; echo to stderr >&2"]);
    let mut child = command.stdin(Stdio::piped()).spawn().expect("it starts");
    child.stdin.take().expect("a pipe").write_all(b"\x00through\xff").expect("written");
    let output = Running::from(child).output();
    assert_eq!(output.stdout, b"\x00through\xff");
    assert_eq!(text(&output.stderr), "to stderr\n");
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn what_is_left_in_the_background_ends_before_the_lock_does() {
    let room = Room::new();
    let script = "
        sleep 300 & echo $! >> pids
        setsid sh -c 'trap \"\" TERM; echo $$ >> pids; while :; do sleep 1; done' &
        (setsid sh -c 'trap \"touch told\" TERM; echo $$ >> pids; while :; do sleep 0.01; done' &)
        until [ $(wc -l < pids) = 3 ]; do sleep 0.01; done; touch ready; sleep 0.2; exit 5";
    let mut first = room.start_ready(&["--grace", "500ms", "job"], script);
    let pids: Vec<i32> = room.read("pids").lines().map(|pid| pid.parse().expect("a pid")).collect();
    let check = "for pid in $(cat pids); do grep '^State:.[^ZX]' /proc/$pid/status; done 2>/dev/null; echo checked";
    let second = room.start(&["lock", "job", "sh", "-c", check]);
    assert_eq!(first.code(), 5);
    assert_eq!(text(&second.output().stdout), "checked\n");
    assert_eq!((pids.len(), pids.iter().filter(|pid| support::is_alive(**pid)).count()), (3, 0));
    assert!(room.path("told").exists(), "TERM comes before KILL");
}

#[test]
fn a_short_command_costs_little() {
    let room = Room::new();
    room.run(&["lock", "job", "true"]);
    let start = Instant::now();
    for _ in 0..10 {
        assert_eq!(room.run(&["lock", "job", "true"]).status.code(), Some(0));
    }
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
}
