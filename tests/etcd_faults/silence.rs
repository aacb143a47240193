//! A write whose answer is lost.

use std::time::Duration;

use tenure_conformance::{
    proxy::{Mode, Proxy},
    server::etcd::{Release, Setup},
};
use tenure_core::ErrorKind;
use tenure_tests::on_etcd::coordinator;
use tokio::time::{sleep, timeout};

/// By the server's own counter: all that is put there is this.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_put_without_an_answer_is_told_as_unknown_and_arrives_once() {
    let etcd = Setup::single(Release::Packaged).start().await;
    let proxy = Proxy::start(etcd.nodes[0].client).await.expect("a proxy");
    let coordinator = coordinator(&proxy.address().to_string(), "ttl=6s").await;
    let guard = coordinator.lock("x").await.expect("granted");
    let data = guard.fenced().expect("it keeps data");
    data.put("k", b"old").await.expect("written");
    let puts = async || etcd.nodes[0].metric("etcd_mvcc_put_total").await.expect("it counts");
    let before = puts().await;
    proxy.set(Mode::DropReplies);
    let answer = timeout(Duration::from_secs(6), data.put("k", b"new")).await.expect("within the ttl");
    assert_eq!(answer.expect_err("nobody answers").kind(), ErrorKind::Unknown);
    proxy.set(Mode::Pass);
    sleep(Duration::from_secs(1)).await; // for whoever would try again
    assert_eq!(puts().await - before, 1.0, "it arrived, and once");
}
