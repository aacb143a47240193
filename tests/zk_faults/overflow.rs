//! The end of the numbers by which a queue is in order: a server of ZooKeeper counts up to 2^31 - 1, and then refuses nothing.

use std::{sync::Arc, time::Duration};

use tenure_conformance::server::zookeeper::{Setup, Zookeeper};
use tenure_core::{Coordinator, ErrorKind, Result};
use tenure_tests::{
    ledger::Ledger,
    on_zk::{coordinator, entries, until_queued},
};
use tokio::{
    process::Command,
    task::JoinSet,
    time::{sleep, timeout},
};

/// Has the server give this number next, in the queue at this path; as if so many had been there before.
async fn preset(zookeeper: &mut Zookeeper, path: &str, next: i32) {
    let (folder, process) = (zookeeper.folder().join("n0"), &mut zookeeper.nodes[0].process);
    process.kill();
    let mut command = Command::new("java");
    command.args(["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Dzookeeper.digest.enabled=false", "-cp"]);
    command.arg("/usr/share/java/zookeeper.jar:/usr/share/java/slf4j-simple.jar");
    command.arg("-Dorg.slf4j.simpleLogger.defaultLogLevel=error");
    command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/interop/PresetCounter.java"));
    let running = command.arg(folder).args([path, &next.to_string()]).kill_on_drop(true).output();
    let output = timeout(Duration::from_secs(60), running).await.expect("in time").expect("java is there");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}; if there is no compiler: apt-get install default-jdk-headless");
    zookeeper.nodes[0].process.restart().expect("it starts");
    assert!(zookeeper.serves(Duration::from_secs(20)).await);
}

/// What all that is about; if a server does otherwise one day, it is to be looked at again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_gives_its_last_number_again_and_again() {
    let mut zookeeper = Setup::single().start().await;
    zookeeper.operator().await.create("/q", b"").await;
    preset(&mut zookeeper, "/q", i32::MAX - 2).await;
    let mut operator = zookeeper.operator().await;
    let mut made = Vec::new();
    for name in ["d", "c", "b", "a", "A"] {
        made.extend(operator.append_all(&[&format!("/q/{name}")]).await);
    }
    println!("in a row: {made:?}");
    assert_eq!(made, ["/q/d2147483645", "/q/c2147483646", "/q/b2147483647", "/q/a2147483647", "/q/A2147483647"]);
    let made = operator.append_all(&["/q/e", "/q/f", "/q/g", "/q/h"]).await;
    println!("at once: {made:?}");
    assert!(made.iter().all(|path| path.ends_with("2147483647") || path.contains("-21474836")), "{made:?}");
}

/// Four who come one after the other, and hold what they get for a moment.
fn wave(from: &Coordinator, ledger: &Arc<Ledger>) -> JoinSet<Result<()>> {
    let mut coming = JoinSet::new();
    for place in 0..4 {
        let (coordinator, ledger) = (from.clone(), ledger.clone());
        coming.spawn(async move {
            sleep(Duration::from_millis(30) * place).await;
            let locking = timeout(Duration::from_secs(10), coordinator.lock("x"));
            let guard = ledger.granted(locking.await.expect("an answer")?);
            sleep(Duration::from_millis(200)).await;
            ledger.released(guard).release().await
        });
    }
    coming
}

async fn are_refused(coming: JoinSet<Result<()>>) {
    for answer in coming.join_all().await {
        let error = answer.expect_err("it had a place");
        let says = "the counter of the node /n/x of ZooKeeper is used up: remove the node once nobody is in it";
        assert!(error.kind() == ErrorKind::Unexpected && error.to_string().contains(says), "{error}");
    }
}

/// With the same number for everybody, one who comes later would be in front of the holder if its name is lower.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_enters_under_a_number_that_is_not_its_own_and_who_is_there_stays() {
    let (mut zookeeper, ledger) = (Setup::single().start().await, Arc::new(Ledger::default()));
    let [one, other] =
        [coordinator(&zookeeper.hosts(), "ttl=30s").await, coordinator(&zookeeper.hosts(), "ttl=30s").await];
    let mut held = ledger.granted(one.lock("x").await.expect("granted"));
    preset(&mut zookeeper, "/n/x", i32::MAX - 2).await;
    let mut waiting = Vec::new();
    for place in 2..4 {
        let other = other.clone();
        waiting.push(tokio::spawn(async move { other.lock("x").await.expect("granted") }));
        until_queued(&zookeeper, "x", place).await;
    }
    let mut late = vec![wave(&one, &ledger), wave(&other, &ledger)];
    for next in waiting {
        sleep(Duration::from_millis(300)).await;
        held.verify().await.expect("its holder is not disturbed");
        ledger.released(held).release().await.expect("released");
        held = ledger.granted(timeout(Duration::from_secs(5), next).await.expect("soon").expect("no panic"));
        late.push(wave(&one, &ledger));
    }
    sleep(Duration::from_millis(300)).await;
    held.verify().await.expect("its holder is not disturbed");
    let last = held.token();
    ledger.released(held).release().await.expect("released");
    late.push(wave(&other, &ledger));
    for coming in late {
        are_refused(coming).await;
    }
    let mut operator = zookeeper.operator().await;
    assert!(entries(&mut operator, "x").await.is_empty(), "what was refused has left something");
    operator.delete("/n/x").await; // as the error says
    let next = other.lock("x").await.expect("granted");
    assert!(next.token() > last && ledger.grants("x") == 3);
}
