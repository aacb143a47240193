//! `tenure once` on etcd: many runners, of which any may be killed, and the server stopped at any time.

use std::{
    collections::hash_map::RandomState,
    hash::{BuildHasher, Hasher},
    thread,
    time::Duration,
};

use rustix::process::Signal;

use super::{room, start};
use crate::{
    replicas::rounds,
    runs::{check, remembered, runner},
    support::{Room, found, until},
};

fn random(below: u64) -> u64 {
    RandomState::new().build_hasher().finish() % below
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn at_most_one_success_whoever_is_killed_or_cut_off() {
    let etcd = start().await;
    let mut runs = 0;
    for round in 0..rounds() {
        let room = Room::on(format!("etcd://{}/n{round}?ttl=2s", etcd.hosts()));
        let mut runners: Vec<_> = (0..10).map(|number| runner(&room, number, &["--expire", "1h"], |_| {})).collect();
        for step in 0..4 {
            thread::sleep(Duration::from_millis(random(300)));
            if step == 2 && round % 2 == 0 {
                etcd.nodes[0].process.stop(); // perhaps between a success and its record
                thread::sleep(Duration::from_millis(random(3000)));
                etcd.nodes[0].process.cont();
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
        let mut number = 10;
        found("a success", || {
            let mut alone = runner(&room, number, &["--expire", "1h"], |_| {});
            let code = alone.process.code();
            runners.push(alone);
            number += 1;
            assert!([0, 9].contains(&code), "{code}");
            (code == 0).then_some(())
        });
        let success = remembered(&room).expect("it has succeeded");
        runs += check(&room, success, &runners);
    }
    println!("{} rounds of 10 runners: {runs} runs, 1 recorded success each", rounds());
}

/// The entry, and with it the right to record, goes while the command runs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_lost_its_key_records_nothing() {
    let etcd = start().await;
    let room = room(&etcd.hosts(), "ttl=30s");
    let script = "touch ready; until [ -e go ]; do sleep 0.01; done";
    let mut late = room.start(&["once", "job", "sh", "-c", script]);
    until("the command", || room.path("ready").exists());
    etcd.control(&["del", "--prefix", "n/job/"]);
    room.write("go", "");
    assert_eq!(late.code(), 76);
    assert_eq!(remembered(&room), None);
    assert_eq!(room.run(&["once", "job", "sh", "-c", "echo $TENURE_TOKEN > token"]).status.code(), Some(0));
    assert_eq!(remembered(&room), room.read("token").trim().parse().ok());
    assert_eq!(etcd.keys("n/job/").len(), 0, "nothing of it stands in the queue");
}
