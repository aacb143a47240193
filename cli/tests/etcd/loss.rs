//! The lock is lost while a command runs: it has ended before anybody else can begin.

use std::{
    thread,
    time::{Duration, Instant},
};

use tenure_conformance::proxy::{Mode, Proxy};

use super::{room, start, until_queued};
use crate::support::{Room, Running, is_alive, now_ms, text};

/// Writes down when it was told to end and when it was last there; only KILL ends it.
const STUBBORN: &str = "
    exec 2> /dev/null # the shell tells of children that TERM has ended
    stamp() { read up idle < /proc/uptime; echo $up; }
    trap 'stamp > told' TERM
    echo $$ > pid; echo $TENURE_TOKEN > token; touch ready
    while :; do stamp > last.new; mv last.new last; sleep 0.02; done";

const OPTIONS: [&str; 5] = ["--grace", "800ms", "--result-file", "result.json", "job"];
/// In milliseconds.
const TTL: u128 = 4000;
/// How long a session is good for after its last renewal was sent: the ttl less the margin.
const GOOD: u128 = 3600;

fn millis(seconds: &str) -> u128 {
    Duration::from_secs_f64(seconds.trim().parse().expect("seconds")).as_millis()
}

fn pid(room: &Room) -> i32 {
    room.read("pid").trim().parse().expect("a pid")
}

fn token(text: &str) -> u64 {
    text.trim().parse().expect("a token")
}

/// Nothing was renewed since `cut`: it has had TERM, and was gone by the deadline. Returns when it was last there.
fn ended_in_time(room: &Room, mut holder: Running, cut: u128) -> u128 {
    assert_eq!(holder.code(), 76);
    let exited = now_ms() - cut;
    assert!(!is_alive(pid(room)), "it outlives the lock");
    let (told, last) = (millis(&room.read("told")), millis(&room.read("last")));
    println!("TERM {} ms after the cut, last seen {} ms after it, exit after {exited} ms", told - cut, last - cut);
    assert!(last <= cut + GOOD + 50, "it ran {} ms without a renewal", last - cut);
    assert!((300..=900).contains(&(last - told)), "{} ms from TERM to KILL", last - told);
    assert!(exited < TTL, "tenure itself took {exited} ms");
    let result = room.result();
    assert_eq!((&result["outcome"], &result["exit_code"]), (&"lost".into(), &76.into()));
    let said = text(&holder.output().stderr);
    let lines: Vec<_> = said.lines().collect();
    assert_eq!(lines.len(), 2, "{said}");
    assert!(lines[0].contains("is about to be lost"), "{said}");
    assert!(lines[1].contains("the lock 'job' was lost: it could not be renewed before its deadline"), "{said}");
    last
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_stands_still() {
    let etcd = start().await;
    let room = room(&etcd.hosts(), "ttl=4s");
    let holder = room.start_ready(&OPTIONS, STUBBORN);
    etcd.nodes[0].process.stop();
    ended_in_time(&room, holder, now_ms());
    etcd.nodes[0].process.cont();
    let start = Instant::now();
    let next = room.run(&["lock", "job", "sh", "-c", "echo $TENURE_TOKEN"]);
    assert_eq!(next.status.code(), Some(0), "{}", text(&next.stderr));
    // What the server had not read when it was stopped renews the session once more, though nobody has it any longer.
    println!("the next one had run {:?} after the server went on", start.elapsed());
    assert!(start.elapsed().as_millis() < TTL + 2000, "{:?}", start.elapsed());
    assert!(token(&text(&next.stdout)) > token(&room.read("token")));
}

/// What the next one, on a way of its own, sees when it begins: the time, its token, and the first one if it still acts.
const LOOK: &str = "
    read up idle < /proc/uptime; echo $up $TENURE_TOKEN
    grep '^State:.[^ZX]' /proc/$(cat pid)/status 2> /dev/null; true";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_cut() {
    let etcd = start().await;
    let proxy = Proxy::start(etcd.nodes[0].client).await.expect("a proxy");
    let room = room(&proxy.address().to_string(), "ttl=4s");
    let holder = room.start_ready(&OPTIONS, STUBBORN);
    let direct = format!("etcd://{}/n?ttl=4s", etcd.hosts());
    let next = room.start(&["lock", "--url", &direct, "job", "sh", "-c", LOOK]);
    until_queued(&etcd, 2);
    proxy.set(Mode::Blackhole);
    let cut = now_ms();
    let last = ended_in_time(&room, holder, cut);
    let next = next.output();
    let seen = text(&next.stdout);
    assert_eq!((next.status.code(), seen.lines().count()), (Some(0), 1), "{seen}{}", text(&next.stderr));
    let (began, granted) = seen.split_once(' ').expect("a time and a token");
    let began = millis(began);
    println!("the next one began {} ms after the cut", began - cut);
    assert!(began > last && began < cut + TTL + 2000, "{last} {began}");
    assert!(token(granted) > token(&room.read("token")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operator_ends_the_lease_or_removes_the_key() {
    let etcd = start().await;
    for (by, reason) in [("lease revoke", "its session has ended"), ("del", "its entry was removed by somebody else")] {
        let room = room(&etcd.hosts(), "ttl=30s");
        let mut holder = room.start_ready(&["--result-file", "result.json", "job"], STUBBORN);
        thread::sleep(Duration::from_millis(800)); // the own entry is watched from half a second on
        let key = etcd.keys("n/job/").pop().expect("the holder's");
        let session = etcd.keys("n/.tenure/session-").pop().expect("the holder's");
        let what = if by == "del" { &key } else { session.trim_start_matches("n/.tenure/session-") };
        let done = now_ms();
        let start = Instant::now();
        etcd.control(&by.split(' ').chain([what]).collect::<Vec<_>>());
        assert_eq!(holder.code(), 76);
        let last = millis(&room.read("last")).saturating_sub(done);
        println!("{by}: last seen {last} ms after the command was sent, exit after {:?}", start.elapsed());
        assert!(last <= 1000, "{by}: it ran on for {last} ms");
        assert!(start.elapsed() < Duration::from_millis(1500), "{by}: {:?}", start.elapsed());
        assert!(!is_alive(pid(&room)), "{by}");
        let said = text(&holder.output().stderr);
        assert!(said.lines().count() == 1 && said.contains("the lock 'job' was lost: "), "{said}");
        assert!(said.contains(reason) || (by != "del" && said.contains("removed by somebody else")), "{by}: {said}");
        assert_eq!(room.result()["outcome"], "lost");
    }
}
