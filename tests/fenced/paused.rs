//! The case that fencing is for: a worker reads, is stopped for longer than its lease lasts, and then writes.

use std::{
    io::{BufRead, BufReader, Read, Write},
    process::{Child, Command, Stdio},
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};
use tenure_core::FencingToken;
use tenure_tests::{on_sqlite::Killed, raw};
use tokio::time::timeout;

use crate::{AT_ONCE, etcd, on_etcd, on_sqlite, on_zk, zookeeper};

/// What the stopped worker said in the end, what is stored then, and the token of the one who took over.
struct Ending {
    said: String,
    value: u64,
    winner: FencingToken,
}

fn signal(worker: &Child, signal: Signal) {
    kill_process(Pid::from_child(worker), signal).expect("it runs");
}

/// The worker adds one to 0; while it is stopped, somebody else takes over and adds one twice.
async fn pause(url: &str, mode: &str) -> Ending {
    let mut command = Command::new(env!("CARGO_BIN_EXE_paused-worker"));
    command.args([url, mode]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut started = command.spawn().expect("it starts");
    let mut says = BufReader::new(started.stdout.take().expect("piped"));
    let mut worker = Killed(started);
    let mut line = String::new();
    says.read_line(&mut line).expect("a line");
    assert_eq!(line, "read 0\n");
    signal(&worker.0, Signal::STOP);
    let other = tenure::connect(url).await.expect("connected");
    let guard = timeout(Duration::from_secs(15), other.lock(mode)).await.expect("taken over").expect("granted");
    let data = guard.fenced().expect("it keeps data");
    for seen in 0..2 {
        assert_eq!(raw::number(data.get("k").await.expect("read").as_ref()), seen);
        data.put("k", raw::text(seen + 1).as_bytes()).await.expect("accepted");
    }
    signal(&worker.0, Signal::CONT);
    worker.0.stdin.take().expect("piped").write_all(b"go\n").expect("told");
    let mut said = String::new();
    says.read_to_string(&mut said).expect("it ends");
    let stored = other.data(mode).expect("a name").get("k").await.expect("read");
    guard.verify().await.expect("nobody else was granted it");
    Ending { said: said.trim().to_owned(), value: raw::number(stored.as_ref()), winner: guard.token() }
}

async fn the_fence_saves_what_is_lost_without_it(url: &str) {
    let Ending { said, value, .. } = pause(url, "guard").await;
    println!("{url}: a guard: {said}");
    assert_eq!((said.as_str(), value), ("refused SessionLost 0", 2), "it knows by its own clock");
    let Ending { said, value, winner } = pause(url, "service").await;
    println!("{url}: the service: {said}");
    assert_eq!((said, value), (format!("refused Fenced {winner}"), 2));
    let Ending { said, value, .. } = pause(url, "raw").await;
    println!("{url}: no fence: {said}, and the number is {value} after 3 additions");
    assert_eq!(
        (said.as_str(), value),
        ("accepted", 1),
        "without a fence two updates are lost: the test sees what it is to see"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_paused_past_its_lease_writes_nothing_into_sqlite() {
    let _room = AT_ONCE.acquire().await.expect("it is open");
    let folder = tempfile::tempdir().expect("a folder");
    the_fence_saves_what_is_lost_without_it(&on_sqlite(folder.path())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_paused_past_its_lease_writes_nothing_into_etcd() {
    let _room = AT_ONCE.acquire().await.expect("it is open");
    let etcd = etcd().await;
    the_fence_saves_what_is_lost_without_it(&on_etcd(&etcd.hosts())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_paused_past_its_lease_writes_nothing_into_zookeeper() {
    let _room = AT_ONCE.acquire().await.expect("it is open");
    let zookeeper = zookeeper().await;
    the_fence_saves_what_is_lost_without_it(&on_zk(&zookeeper.hosts())).await;
}
