//! A write whose answer is lost.

use std::time::Duration;

use tenure_conformance::{
    proxy::{Mode, Proxy},
    server::zookeeper::Setup,
};
use tenure_core::ErrorKind;
use tenure_tests::on_zk::coordinator;
use tokio::time::{sleep, timeout};

/// By the number of the node's changes, which the server counts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_put_without_an_answer_is_told_as_unknown_and_arrives_once() {
    let zookeeper = Setup::single().start().await;
    let proxy = Proxy::start(zookeeper.nodes[0].client).await.expect("a proxy");
    let coordinator = coordinator(&proxy.address().to_string(), "ttl=6s").await;
    let guard = coordinator.lock("x").await.expect("granted");
    let data = guard.fenced().expect("it keeps data");
    data.put("k", b"old").await.expect("written");
    let mut operator = zookeeper.operator().await;
    let (_, before) = operator.get("/n/.tenure/data/x/k").await.expect("it is there");
    proxy.set(Mode::DropReplies);
    let answer = timeout(Duration::from_secs(6), data.put("k", b"new")).await.expect("within the ttl");
    assert_eq!(answer.expect_err("nobody answers").kind(), ErrorKind::Unknown);
    proxy.set(Mode::Pass);
    sleep(Duration::from_secs(1)).await; // for whoever would try again
    let (bytes, after) = operator.get("/n/.tenure/data/x/k").await.expect("it is there");
    assert_eq!((after.version - before.version, bytes.ends_with(b"new")), (1, true), "it arrived, and once");
}
