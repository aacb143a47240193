//! Many runners at once, of which any process may be killed at any time, some of them with clocks that are days apart.

use std::{
    collections::hash_map::RandomState,
    env,
    hash::{BuildHasher, Hasher},
    thread,
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};

use super::runs::{Runner, by_clock, check, check_ledger, remembered, runner};
use crate::support::{Room, until};

fn rounds() -> u32 {
    env::var("TENURE_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(3)
}

fn random(below: u64) -> u64 {
    RandomState::new().build_hasher().finish() % below
}

/// One of the processes of a run that goes on: the runner, the watchdog or the command. It may have ended before.
fn kill_one(room: &Room, runners: &mut [Runner]) {
    let choice = random(4);
    if choice == 0 {
        let one = usize::try_from(random(runners.len() as u64)).expect("few");
        if runners[one].process.is_running() {
            runners[one].process.signal(Signal::KILL);
        }
        return;
    }
    let ledger = room.read("ledger");
    let Some(token) = ledger.lines().filter_map(|line| line.strip_prefix("start ")).next_back() else { return };
    let pids = room.read(&format!("pids-{token}"));
    let Some((watchdog, command)) = pids.trim().split_once(' ') else { return };
    let parent = |pid: &str| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        status.lines().find_map(|line| line.strip_prefix("PPid:")).map(|pid| pid.trim().to_owned())
    };
    let victim = match choice {
        1 => parent(watchdog),
        2 => Some(watchdog.to_owned()),
        _ => Some(command.to_owned()),
    };
    let here = room.inhabitants(); // a number may belong to somebody else by now
    let victim = victim.and_then(|pid| pid.parse().ok()).filter(|pid| here.contains(pid));
    if let Some(pid) = victim.and_then(Pid::from_raw) {
        let _ = kill_process(pid, Signal::KILL);
    }
}

fn round(room: &Room) -> usize {
    let options = ["--expire", "1h", "--grace", "100ms"];
    let mut runners: Vec<_> = (0..10)
        .map(|number| runner(room, number, &options, |command| by_clock(command, ["+0d", "+1d", "-1d"][number % 3])))
        .collect();
    for _ in 0..6 {
        thread::sleep(Duration::from_millis(random(300)));
        kill_one(room, &mut runners);
    }
    for runner in &mut runners {
        runner.process.status();
    }
    until("the end of what was killed", || room.inhabitants().is_empty());
    // Left alone, it is done: by those before, or now.
    let before = remembered(room);
    for number in 10.. {
        let mut alone = runner(room, number, &options, |command| by_clock(command, "+2d"));
        let code = alone.process.code();
        runners.push(alone);
        match code {
            0 => break,
            9 => assert_eq!(before, None, "it was run again"),
            code => panic!("{code}: {:?}", runners.last().and_then(|runner| runner.result(room))),
        }
    }
    let success = remembered(room).expect("it has succeeded");
    assert!(before.is_none_or(|before| before == success), "a second success");
    check(room, success, &runners)
}

#[test]
fn at_most_one_success_whoever_is_killed_and_one_in_the_end() {
    let mut runs = 0;
    for _ in 0..rounds() {
        let room = Room::with_ttl("2s");
        runs += round(&room);
        check_ledger(&room.read("ledger"));
    }
    println!("{} rounds of 10 runners: {runs} runs, 1 recorded success each", rounds());
}
