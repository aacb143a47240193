//! Ten runners with clocks that are days apart on a server, of which any may be killed, and the server stopped at any time.

use std::{
    collections::hash_map::RandomState,
    env,
    hash::{BuildHasher, Hasher},
    thread,
    time::Duration,
};

use rustix::process::Signal;
use tenure_conformance::server::Process;

use crate::{
    runs::{Runner, by_clock, check, remembered, runner},
    support::{Room, found, until},
};

const OPTIONS: [&str; 2] = ["--expire", "1h"];

fn random(below: u64) -> u64 {
    RandomState::new().build_hasher().finish() % below
}

fn start(room: &Room, number: usize) -> Runner {
    runner(room, number, &OPTIONS, |command| by_clock(command, ["+0d", "+1d", "-1d"][number % 3]))
}

fn round(room: &Room, server: Option<&Process>) -> usize {
    let mut runners: Vec<_> = (0..10).map(|number| start(room, number)).collect();
    for step in 0..4 {
        thread::sleep(Duration::from_millis(random(300)));
        if let Some(server) = server.filter(|_| step == 2) {
            server.stop(); // perhaps between a success and its record
            thread::sleep(Duration::from_millis(random(3000)));
            server.cont();
            continue;
        }
        let one = usize::try_from(random(10)).expect("few");
        if runners[one].process.is_running() {
            runners[one].process.signal(Signal::KILL);
        }
    }
    for runner in &mut runners {
        runner.process.status();
    }
    until("the end of what was killed", || room.inhabitants().is_empty());
    found("a success", || {
        let mut alone = start(room, runners.len());
        let code = alone.process.code();
        runners.push(alone);
        assert!([0, 9].contains(&code), "{code}");
        (code == 0).then_some(())
    });
    check(room, remembered(room).expect("it has succeeded"), &runners)
}

/// Each round in a room of its own; in every other one the server is stopped.
pub(crate) fn at_most_one_success(server: &Process, room: impl Fn(u32) -> Room) {
    let rounds = env::var("TENURE_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(2);
    let runs: usize = (0..rounds).map(|number| round(&room(number), (number % 2 == 0).then_some(server))).sum();
    println!("{rounds} rounds of 10 runners: {runs} runs, 1 recorded success each");
}
