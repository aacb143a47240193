//! Data behind the fence: where it stands, and what becomes of edits that were given up or cross each other.

use std::time::Duration;

use tenure_conformance::{
    proxy::{Mode as Proxied, Proxy},
    server::zookeeper::{Operator, Setup},
};
use tenure_core::{ErrorKind, FencingToken, Version};
use tenure_tests::on_zk::{coordinator, entries};
use tokio::{
    join,
    time::{Instant, sleep, timeout},
};

const DATA: &str = "/n/.tenure/data";

/// The node that stands for the only session in the namespace `n`.
async fn marker(operator: &mut Operator) -> String {
    let sessions = operator.list("/n/.tenure/sessions").await;
    assert_eq!(sessions.len(), 1, "{sessions:?}");
    format!("/n/.tenure/sessions/{}", sessions[0])
}

/// Clause 5 of `FencedStore`: what is given up belongs to an epoch that the next call ends; in another one nothing is written.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_edit_is_of_one_epoch_of_its_session() {
    let zookeeper = Setup::single().start().await;
    let proxy = Proxy::start(zookeeper.nodes[0].client).await.expect("a proxy");
    let coordinator = coordinator(&proxy.address().to_string(), "ttl=15s").await;
    let guard = coordinator.lock("x").await.expect("granted");
    let data = guard.fenced().expect("it keeps data");
    let mut operator = zookeeper.operator().await;
    let marker = marker(&mut operator).await;
    for round in 1..=6 {
        proxy.set(Proxied::DropReplies);
        if round % 2 == 0 {
            assert_eq!(data.put("k", b"0").await.expect_err("no answer").kind(), ErrorKind::Unknown);
        } else {
            timeout(Duration::from_millis(100), data.put("k", b"0")).await.expect_err("dropped");
        }
        proxy.set(Proxied::Pass);
        let written = if round % 3 == 0 { data.get("k").await.map(drop) } else { data.put("k", b"1").await.map(drop) };
        written.expect("an answer");
        data.put("k", b"2").await.expect("written");
        let (_, stat) = operator.get(&marker).await.expect("it stands");
        assert_eq!(stat.version, round, "one epoch for each doubt");
    }
    operator.set(&marker, b"").await;
    let delay = Duration::from_millis(100);
    proxy.set(Proxied::Delay(delay));
    let start = Instant::now();
    let (written, ()) = join!(data.put("k", b"3"), async {
        sleep(delay / 2).await; // the put is under way
        operator.set(&marker, b"").await;
    });
    written.expect("it is sent again in the new epoch");
    assert!(start.elapsed() >= 3 * 2 * delay, "it took effect although its epoch had ended before it came");
    proxy.set(Proxied::Pass);
    operator.delete(&marker).await;
    let error = data.put("k", b"4").await.expect_err("no epoch");
    // The session is over, and gives itself back: what is told is the one or the other, by what the servers have done of it.
    assert!(matches!(error.kind(), ErrorKind::SessionLost | ErrorKind::Fenced), "{}", error.report());
    let (value, _) = operator.get(&format!("{DATA}/x/k")).await.expect("it stays");
    assert!(value.ends_with(b"\n3"), "it was written past the epoch: {}", String::from_utf8_lossy(&value));
}

/// Clause 2 of `FencedStore`: the count by which ZooKeeper compares begins anew with the node.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_datum_made_anew_is_not_taken_for_the_old_one() {
    let zookeeper = Setup::single().start().await;
    let proxy = Proxy::start(zookeeper.nodes[0].client).await.expect("a proxy");
    let coordinator = coordinator(&proxy.address().to_string(), "ttl=20s").await;
    let guard = coordinator.lock("x").await.expect("granted");
    let data = guard.fenced().expect("it keeps data");
    let first = data.put("k", b"0").await.expect("written");
    proxy.set(Proxied::DelayReplies(Duration::from_millis(300)));
    let later = |millis| sleep(Duration::from_millis(millis));
    let (replaced, deleted, made) = join!(
        data.put_if("k", Some(first), b"old"),
        async {
            later(100).await;
            data.delete("k").await
        },
        async {
            later(200).await;
            data.put_if("k", None, b"new").await
        },
    );
    proxy.set(Proxied::Pass);
    deleted.expect("deleted");
    let (replaced, made): (Option<Version>, Option<Version>) = (replaced.expect("an answer"), made.expect("an answer"));
    let found = data.get("k").await.expect("read").map(|found| found.value);
    println!("replaced {replaced:?}, made anew {made:?}: {found:?}");
    assert_ne!(found.as_deref(), Some(&b"old"[..]), "replaced {replaced:?}, made anew {made:?}");
}

/// Below nobody's queue, readable for people, and gone once it is deleted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_written_by_hand_is_told_and_can_be_replaced() {
    let zookeeper = Setup::single().start().await;
    let coordinator = coordinator(&zookeeper.hosts(), "ttl=10s").await;
    let guard = coordinator.lock("x").await.expect("granted");
    let data = guard.fenced().expect("it keeps data");
    data.put("a", b"1").await.expect("written");
    let mut operator = zookeeper.operator().await;
    operator.create(&format!("{DATA}/x/k"), b"by hand").await;
    let error = data.get("k").await.expect_err("it is not ours");
    assert!(error.kind() == ErrorKind::Unexpected && error.to_string().contains("write it anew"), "{error}");
    assert_eq!(data.put_if("k", None, b"1").await.expect("an answer"), None, "something is there");
    data.put("k", b"1").await.expect("written");
    assert_eq!(data.get("k").await.expect("read").expect("there").value, b"1");
    let (value, stat) = operator.get(&format!("{DATA}/x/k")).await.expect("there");
    assert!(value.ends_with(b"\n1") && stat.owner == 0, "people can read it");
    assert_eq!(operator.list(&format!("{DATA}/x")).await, ["a", "k"]);
    data.delete("k").await.expect("deleted");
    data.delete("a").await.expect("deleted");
    assert!(operator.list(&format!("{DATA}/x")).await.is_empty());
    assert_eq!(entries(&mut operator, "x").await.len(), 1, "none of it is in the queue");
}

/// A stranger that made its node by hand, or by Curator, has a token too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stranger_that_holds_is_named_as_the_winner() {
    let zookeeper = Setup::single().start().await;
    let coordinator = coordinator(&zookeeper.hosts(), "ttl=10s&token_base=1000").await;
    let guard = coordinator.lock("x").await.expect("granted");
    let data = guard.fenced().expect("it keeps data");
    data.put("k", b"1").await.expect("written");
    let mut operator = zookeeper.operator().await;
    let mine = entries(&mut operator, "x").await;
    operator.create("/n/x/stranger-lock-0000000009", b"").await;
    operator.delete(&format!("/n/x/{}", mine[0])).await;
    let error = data.put("k", b"2").await.expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::Fenced, "{}", error.report());
    let (_, stat) = operator.get("/n/x/stranger-lock-0000000009").await.expect("it is there");
    assert_eq!(error.winner(), Some(FencingToken::new(1000 + stat.created.cast_unsigned())));
    timeout(Duration::from_secs(1), guard.lost()).await.expect("told");
}
