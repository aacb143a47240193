//! Nothing of the command outlives the lock, whatever happens to `tenure`.

mod support;

use std::{
    fs, thread,
    time::{Duration, Instant},
};

use rusqlite::TransactionBehavior;
use rustix::process::Signal;
use support::{Room, Running, is_alive, now_ms, send, text, until};

/// Four processes: the command, a child that ignores TERM, one in a session of its own, and a double-forked daemon.
const TREE: &str = "
    echo $$ >> pids
    sh -c 'trap \"\" TERM; echo $$ >> pids; while :; do sleep 0.1; done' &
    setsid sh -c 'echo $$ >> pids; exec sleep 300' &
    (setsid sh -c 'sleep 300 & echo $! >> pids' &)
    until [ $(wc -l < pids) = 4 ]; do sleep 0.01; done
    touch ready
    while :; do sleep 0.1; done";

/// A successor whose first instructions look for them.
const LOOK: &str = "for pid in $(cat pids); do grep '^State:.[^ZX]' /proc/$pid/status; done 2>/dev/null; echo looked";

const TTL: Duration = Duration::from_secs(2);

fn pids(room: &Room) -> Vec<i32> {
    let pids: Vec<i32> = room.read("pids").lines().map(|pid| pid.parse().expect("a pid")).collect();
    assert_eq!(pids.len(), 4);
    pids
}

/// Does something to a `tenure` with a tree of processes; the successor must come within the ttl, and find none of them.
fn successor_finds_nothing(harm: impl FnOnce(&mut Running)) -> (Room, Running) {
    let room = Room::with_ttl("2s");
    let mut holder = room.start_ready(&["job"], TREE);
    let successor = room.start(&["lock", "job", "sh", "-c", LOOK]);
    room.until_entries(2);
    assert!(pids(&room).into_iter().all(is_alive), "or this test shows nothing");
    let start = Instant::now();
    harm(&mut holder);
    let output = successor.output();
    assert_eq!(text(&output.stdout), "looked\n");
    assert!(start.elapsed() < TTL + Duration::from_millis(1500), "it took {:?}", start.elapsed());
    assert!(!pids(&room).into_iter().any(is_alive));
    (room, holder)
}

#[test]
fn after_kill_9_of_tenure() {
    successor_finds_nothing(|holder| holder.signal(Signal::KILL));
}

#[test]
fn kill_9_of_tenure_ends_the_command_at_once() {
    let room = Room::with_ttl("60s");
    let mut holder = room.start_ready(&["job"], TREE);
    let start = Instant::now();
    holder.signal(Signal::KILL);
    until("the end of all", || !pids(&room).into_iter().any(is_alive));
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
}

#[test]
fn killed_at_any_moment_it_leaves_nothing_behind() {
    let room = Room::with_ttl("60s");
    assert_eq!(room.run(&["lock", "job", "true"]).status.code(), Some(0));
    let (mut started, mut moment) = (0, 0);
    while started < 10 {
        let name = format!("job{moment}");
        let mut holder = room.start(&["lock", &name, "sh", "-c", "touch started; exec sleep 300"]);
        thread::sleep(Duration::from_micros(500 * moment));
        assert!(moment < 2000, "the command does not start within a second");
        moment += 1;
        holder.signal(Signal::KILL);
        until("the end of all", || room.inhabitants().is_empty());
        started += usize::from(fs::remove_file(room.path("started")).is_ok());
    }
    assert!(moment > 10, "it was always killed too late");
}

#[test]
fn when_tenure_is_stopped_past_its_ttl_and_goes_on_later() {
    let (_room, mut holder) = successor_finds_nothing(|holder| holder.signal(Signal::STOP));
    assert!(holder.is_running());
    holder.signal(Signal::CONT);
    assert_eq!(holder.code(), 76);
    let output = holder.output();
    support::assert_one_line(&output, "the lock 'job' was lost: it could not be renewed before its deadline");
}

#[test]
fn when_tenure_is_stopped_for_less_than_its_ttl_nothing_happens() {
    let room = Room::with_ttl("10s");
    let mut holder = room.start_ready(&["job"], "touch ready; until [ -e go ]; do sleep 0.01; done; exit 3");
    holder.signal(Signal::STOP);
    thread::sleep(Duration::from_millis(500));
    holder.signal(Signal::CONT);
    room.write("go", "");
    assert_eq!(holder.code(), 3);
}

#[test]
fn when_the_watchdog_is_killed() {
    let (_room, mut holder) = successor_finds_nothing(|holder| send(holder.watchdog(), Signal::KILL));
    assert_eq!(holder.code(), 70);
    support::assert_one_line(&holder.output(), "the watchdog process was ended by somebody else");
}

#[test]
fn the_watchdog_does_not_mind_signals_that_are_not_meant_for_it() {
    let room = Room::new();
    let mut holder = room.start_ready(&["job"], "touch ready; until [ -e go ]; do sleep 0.01; done; exit 3");
    let watchdog = holder.watchdog();
    for signal in [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT, Signal::USR1, Signal::TSTP, Signal::ALARM] {
        send(watchdog, signal);
    }
    thread::sleep(Duration::from_millis(200));
    assert!(holder.is_running() && is_alive(watchdog));
    room.write("go", "");
    assert_eq!(holder.code(), 3);
}

/// Nobody can renew for as long as this runs.
fn without_renewals<T>(room: &Room, work: impl FnOnce() -> T) -> T {
    let mut database = room.database();
    database.busy_timeout(Duration::from_secs(5)).expect("set");
    let blocking = database.transaction_with_behavior(TransactionBehavior::Immediate).expect("it is free soon");
    let done = work();
    drop(blocking);
    done
}

#[test]
fn term_comes_before_the_deadline_and_kill_at_it() {
    let room = Room::with_ttl("4s");
    let stamp = "read up idle < /proc/uptime; echo $up";
    let script = format!(
        "trap '{stamp} > told' TERM; touch ready; while :; do {stamp} > last.new; mv last.new last; sleep 0.02; done"
    );
    let mut holder = room.start_ready(&["--grace", "800ms", "--result-file", "result.json", "job"], &script);
    let stuck = now_ms();
    without_renewals(&room, || assert_eq!(holder.code(), 76));
    let stamp = |name| Duration::from_secs_f64(room.read(name).trim().parse().expect("seconds")).as_millis();
    let (told, last) = (stamp("told"), stamp("last"));
    // The deadline: at most the ttl less the margin after the last renewal, which came at most a third of the ttl before.
    assert!(last <= stuck + 3600 + 50, "it ran {} ms without a renewal", last - stuck);
    assert!((300..=900).contains(&(last - told)), "{} ms from TERM to KILL", last - told);
    let result = room.result();
    assert_eq!((&result["outcome"], &result["exit_code"]), (&"lost".into(), &76.into()));
    // On a busy machine the watchdog may be too slow to tell, and be killed with the rest.
    assert!(result["child"].is_null() || result["child"]["signal"] == 9, "{result}");
    let said = text(&holder.output().stderr);
    assert!(said.contains("is about to be lost") && said.contains("was lost: it could not be renewed"), "{said}");
}

#[test]
fn told_to_end_it_is_lost_even_if_the_lock_is_renewed_after_all() {
    let room = Room::with_ttl("6s");
    let script = "trap 'touch told; until [ -e go ]; do sleep 0.01; done; exit 0' TERM; touch ready; while :; do sleep 0.02; done";
    let mut holder = room.start_ready(&["--grace", "1.3", "--result-file", "result.json", "job"], script);
    without_renewals(&room, || until("TERM", || room.path("told").exists()));
    thread::sleep(Duration::from_millis(500)); // it is renewed
    room.write("go", "");
    assert_eq!(holder.code(), 76);
    let result = room.result();
    assert_eq!((&result["outcome"], &result["child"]["code"]), (&"lost".into(), &0.into()));
    assert!(result["reason"].as_str().expect("a reason").contains("told to end"), "{result}");
}

#[test]
fn an_entry_removed_by_an_operator_kills_at_once() {
    let room = Room::with_ttl("60s");
    let mut holder = room.start_ready(&["--result-file", "result.json", "job"], TREE);
    thread::sleep(Duration::from_millis(700)); // from then on the own entry is watched
    let start = Instant::now();
    room.database().execute("DELETE FROM entries", []).expect("removed");
    assert_eq!(holder.code(), 76);
    assert!(start.elapsed() < Duration::from_secs(3), "{:?}", start.elapsed());
    assert!(!pids(&room).into_iter().any(is_alive));
    assert!(room.result()["reason"].as_str().expect("a reason").contains("removed by somebody else"));
}

#[test]
fn a_watchdog_that_is_stopped_is_replaced_by_tenure_itself() {
    let room = Room::with_ttl("60s");
    let mut holder = room.start_ready(&["job"], TREE);
    thread::sleep(Duration::from_millis(700));
    send(holder.watchdog(), Signal::STOP);
    room.database().execute("DELETE FROM entries", []).expect("removed");
    assert_eq!(holder.code(), 76);
    assert!(!pids(&room).into_iter().any(is_alive));
}

/// Its command may have ended, and nobody would know.
#[test]
fn a_watchdog_that_does_not_answer_ends_it() {
    let room = Room::with_ttl("2s");
    let mut holder = room.start_ready(&["job"], "touch ready; until [ -e go ]; do sleep 0.01; done");
    send(holder.watchdog(), Signal::STOP);
    room.write("go", "");
    let start = Instant::now();
    assert_eq!(holder.code(), 70);
    assert!(start.elapsed() > Duration::from_secs(5), "it might only be busy: {:?}", start.elapsed());
    support::assert_one_line(&holder.output(), "the watchdog process does not answer");
    assert_eq!(room.entries(), 0, "it was held, and is released");
}

#[test]
fn a_program_file_that_was_replaced_meanwhile() {
    let room = Room::new();
    let copy = room.path("copy");
    fs::copy(env!("CARGO_BIN_EXE_tenure"), &copy).expect("copied");
    let _holder = room.start_ready(&["job"], "touch ready; until [ -e go ]; do sleep 0.01; done");
    let mut waiter = std::process::Command::new(&copy);
    waiter.args(["lock", "job", "sh", "-c", "exit 4"]).env("TENURE_URL", room.url());
    let mut waiter = Running::start(&mut waiter);
    room.until_entries(2);
    fs::remove_file(&copy).expect("removed");
    room.write("go", "");
    assert_eq!(waiter.code(), 4);
}

#[test]
fn a_stranger_cannot_make_a_watchdog_start_anything() {
    let room = Room::new();
    for socket in ["", "tenure-nobody-listens"] {
        let output = room.run(&["__watchdog", socket, "touch", "ran"]);
        assert_eq!(output.status.code(), Some(1));
        support::assert_one_line(&output, "the watchdog failed");
    }
    assert!(!room.path("ran").exists());
}

#[test]
fn told_to_end_it_has_the_grace_and_no_longer() {
    let room = Room::with_ttl("6s");
    let script = "trap 'touch told' TERM; touch ready; while :; do sleep 0.02; done";
    let mut holder = room.start_ready(&["--grace", "1.3", "--result-file", "result.json", "job"], script);
    without_renewals(&room, || until("TERM", || room.path("told").exists()));
    let start = Instant::now();
    assert_eq!(holder.code(), 76);
    assert!(start.elapsed() < Duration::from_secs(3), "{:?}", start.elapsed());
    assert!(room.read("result.json").contains("\"lost\""), "{}", room.read("result.json"));
}
