//! Elections on etcd: the same replicas, what an operator does to them, and `etcdctl elect` beside ours.

use std::{
    fs::File,
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use rustix::process::Signal;
use tenure_conformance::server::etcd::{Etcd, Release, Setup};

use super::{room, start, until_queued};
use crate::{
    replicas::{FAULTS, Replicas, rounds, rounds_of_each},
    support::{Room, Running, found, text, until},
};

const TTL: Duration = Duration::from_secs(4);

fn replicas(etcd: &Etcd) -> Replicas {
    Replicas::start(room(&etcd.hosts(), "ttl=4s"), TTL, 3)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_replicas_under_kill_stop_resign_hand_over_and_term() {
    let etcd = start().await;
    let mut replicas = replicas(&etcd);
    for round in 0..rounds_of_each(FAULTS, 1) {
        replicas.fault(round);
    }
    replicas.end();
}

/// With a ttl that nobody could wait for in a hand-over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replacing_three_replicas_one_by_one_lacks_a_leader_only_for_the_hand_overs() {
    let etcd = start().await;
    let room = room(&etcd.hosts(), "ttl=15s");
    Replicas::start(room, Duration::from_secs(15), 3).rolls(rounds_of_each(1, 1));
}

/// Both the old leader and the next one hear of it at the same time, so the bodies may overlap: for less than a second.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_that_is_revoked_and_a_key_that_is_deleted() {
    let etcd = start().await;
    let mut replicas = replicas(&etcd);
    replicas.overlap = Duration::from_secs(1);
    for round in 0..rounds_of_each(2, 3) {
        thread::sleep(Duration::from_millis(800)); // the own entry is watched from half a second on
        let key = etcd.control(&[
            "get",
            "--prefix",
            "--sort-by=CREATE",
            "--order=ASCEND",
            "--limit=1",
            "-w",
            "fields",
            "n/job/",
        ]);
        let field = |name: &str| {
            let line = key.lines().find_map(|line| line.strip_prefix(&format!("\"{name}\" : ")));
            line.expect(name).trim_matches('"').to_owned()
        };
        let lease: u64 = field("Lease").parse().expect("a number");
        let by_lease = round % 2 == 0;
        let (_, _, took) = replicas.harm(|_, _| {
            if by_lease {
                etcd.control(&["lease", "revoke", &format!("{lease:x}")]);
            } else {
                etcd.control(&["del", &field("Key")]);
            }
        });
        println!("{}: {took:?}", if by_lease { "revoked" } else { "deleted" });
        assert!(took < Duration::from_secs(2), "it is told within a second: {took:?}");
        replicas.until_candidates(3);
    }
    replicas.end();
}

/// `etcdctl elect NAME VALUE`, which leads until INT.
fn foreign(etcd: &Etcd, room: &Room, value: &str) -> Running {
    let mut command = etcd.etcdctl(&["elect", "n/job", value]);
    let said = File::create(room.path(&format!("{value}.out"))).expect("a file");
    Running::start(command.stdin(Stdio::null()).stdout(said))
}

fn once(room: &Room) -> String {
    text(&room.run(&["observe", "--once", "job"]).stdout)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn etcdctl_elect_and_ours_take_turns() {
    for release in [Release::Packaged, Release::V3_5] {
        let etcd = Setup::single(release).start().await;
        let room = room(&etcd.hosts(), "ttl=10s");
        let mut ours = room.start(&["elect", "--value", "ours", "job", "sleep", "60"]);
        until("ours to lead", || once(&room).ends_with(" ours\n"));
        let mut theirs = foreign(&etcd, &room, "theirs");
        until_queued(&etcd, 2);
        thread::sleep(Duration::from_millis(200));
        assert_eq!(room.read("theirs.out"), "", "it waits for ours");
        ours.signal(Signal::TERM);
        assert_eq!(ours.code(), 143, "as the command");
        until("theirs to lead", || once(&room).ends_with(" theirs\n"));
        assert!(room.read("theirs.out").ends_with("theirs\n"), "{}", room.read("theirs.out"));
        let mut again = room.start(&["elect", "--value", "again", "job", "sh", "-c", "touch began; exec sleep 60"]);
        until_queued(&etcd, 2);
        thread::sleep(Duration::from_millis(200));
        assert!(!room.path("began").exists(), "it waits for theirs");
        theirs.signal(Signal::INT);
        assert!(theirs.status().success());
        until("ours to lead again", || room.path("began").exists());
        again.signal(Signal::TERM);
        assert_eq!(again.code(), 143);
        until_queued(&etcd, 0);
    }
}

/// Observers of either kind see leaders of either kind.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn etcdctl_elect_l_and_tenure_observe_see_the_same() {
    let etcd = start().await;
    let room = room(&etcd.hosts(), "ttl=10s");
    let mut listening: Command = etcd.etcdctl(&["elect", "-l", "n/job"]);
    let _listener =
        Running::start(listening.stdin(Stdio::null()).stdout(File::create(room.path("heard")).expect("a file")));
    let mut observing = room.tenure(&["observe", "job"]);
    let _observer = Running::start(observing.stdout(File::create(room.path("seen")).expect("a file")));
    until("the first line", || room.read("seen") == "-\n");
    for round in 0..rounds() {
        let value = format!("v{round}");
        let mut leader = if round % 2 == 0 {
            room.start(&["elect", "--value", &value, "job", "sleep", "60"])
        } else {
            foreign(&etcd, &room, &value)
        };
        let token = found("ours to see it", || {
            let seen = room.read("seen");
            seen.lines().last()?.strip_suffix(&format!(" {value}"))?.parse::<u64>().ok()
        });
        until("theirs to see it", || room.read("heard").lines().any(|line| line == value));
        println!("{value} with token {token}");
        leader.signal(Signal::INT);
        leader.status();
        until("ours to see that", || room.read("seen").ends_with("-\n"));
    }
}
