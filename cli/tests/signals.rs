//! Signals reach the command, or end the waiting.

mod support;

use std::{
    process::Command,
    time::{Duration, Instant},
};

use rustix::process::Signal;
use support::{Room, Running, text, until};

#[test]
fn a_signal_ends_the_waiting_within_a_second_and_leaves_no_entry() {
    let room = Room::new();
    let _holder = room.start_ready(&["job"], "touch ready; sleep 60");
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143), (Signal::HUP, 129), (Signal::QUIT, 131)] {
        let mut waiter = room.start(&["lock", "job", "touch", "ran"]);
        room.until_entries(2);
        let start = Instant::now();
        waiter.signal(signal);
        assert_eq!(waiter.code(), code);
        assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
        assert_eq!(room.entries(), 1, "{signal:?}");
    }
    assert!(!room.path("ran").exists());
}

#[test]
fn signals_are_forwarded_to_the_whole_group_and_waited_for() {
    let room = Room::new();
    for (signal, name) in [
        (Signal::INT, "INT"),
        (Signal::TERM, "TERM"),
        (Signal::HUP, "HUP"),
        (Signal::QUIT, "QUIT"),
        (Signal::USR1, "USR1"),
        (Signal::USR2, "USR2"),
        (Signal::WINCH, "WINCH"),
    ] {
        let script = format!(
            "trap 'touch outer' {name}
            sh -c 'trap \"touch inner\" {name}; touch ready; until [ -e inner ]; do sleep 0.01; done'
            until [ -e outer ]; do sleep 0.01; done; sleep 0.3; exit 9"
        );
        let mut holder = room.start_ready(&["job"], &script);
        holder.signal(signal);
        until("the command to hear of it", || room.path("outer").exists());
        assert_eq!(room.entries(), 1, "still held while the command takes its time");
        assert_eq!(holder.code(), 9, "{name}");
        for file in ["inner", "outer", "ready"] {
            std::fs::remove_file(room.path(file)).expect(file);
        }
    }
}

#[test]
fn a_command_that_a_forwarded_signal_ends() {
    let room = Room::new();
    for (signal, code) in
        [(Signal::INT, 130), (Signal::TERM, 143), (Signal::HUP, 129), (Signal::QUIT, 131), (Signal::USR1, 138)]
    {
        let mut holder = room.start_ready(&["job"], "touch ready; exec sleep 60");
        holder.signal(signal);
        assert_eq!(holder.code(), code);
        assert_eq!(text(&holder.output().stderr), "");
        assert_eq!(room.entries(), 0);
        std::fs::remove_file(room.path("ready")).expect("removed");
    }
}

#[test]
fn the_command_starts_with_the_dispositions_that_tenure_was_given() {
    let room = Room::new();
    let show = ["grep", "-E", "Sig(Blk|Ign)", "/proc/self/status"];
    let mask = |text: &str, which: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(which)).expect("a line").trim().to_owned();
        u64::from_str_radix(&line, 16).expect("a mask") & 0x7fff_ffff
    };
    let plain = text(&room.run(&[&["lock", "job"], &show[..]].concat()).stdout);
    assert_eq!((mask(&plain, "SigBlk:"), mask(&plain, "SigIgn:")), (0, 0), "{plain}");
    let mut nohup = Command::new("nohup");
    nohup.arg(env!("CARGO_BIN_EXE_tenure")).args(["lock", "--url", &room.url(), "job"]).args(show);
    nohup.stdin(std::process::Stdio::null()).stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::null());
    let ignoring = text(&Running::start(&mut nohup).output().stdout);
    assert_eq!((mask(&ignoring, "SigBlk:"), mask(&ignoring, "SigIgn:")), (0, 1), "HUP stays ignored: {ignoring}");
}

#[test]
fn a_locked_command_may_lock_something_else() {
    let room = Room::new();
    let tenure = env!("CARGO_BIN_EXE_tenure");
    let script = format!("{tenure} lock inner sh -c 'trap \"exit 6\" TERM; touch ready; while :; do sleep 0.01; done'");
    let mut outer = room.start(&["lock", "outer", "sh", "-c", &format!("trap : TERM; {script}; exit $?")]);
    until("the inner command", || room.path("ready").exists());
    assert_eq!(room.entries(), 2);
    outer.signal(Signal::TERM);
    assert_eq!(outer.code(), 6);
    assert_eq!(room.entries(), 0);
}
