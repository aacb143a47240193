//! Where data stands in etcd, and what stands around it.

use std::time::Duration;

use tenure_core::{ErrorKind, FencingToken};
use tenure_tests::on_etcd::coordinator;
use tokio::time::timeout;

use crate::etcd;

/// Another namespace below a name has older keys under the prefix of its queue: they are no entries of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_of_a_namespace_below_the_name_are_not_ahead_of_it() {
    let etcd = etcd().await;
    let below = tenure::connect(&format!("etcd://{}/n/x?ttl=10s", etcd.hosts())).await.expect("connected");
    let _older = below.lock("y").await.expect("granted");
    let coordinator = coordinator(&etcd.hosts(), "ttl=10s").await;
    let guard = coordinator.lock("x").await.expect("granted");
    let data = guard.fenced().expect("it keeps data");
    data.put("k", b"1").await.expect("nobody is ahead");
    let version = data.put_if("k", None, b"2").await.expect("an answer");
    assert_eq!(version, None, "a conflict is seen there too");
    assert!(!etcd.keys("n/x/").is_empty() && etcd.keys("n/.tenure/data/x/") == ["n/.tenure/data/x/k"]);
}

/// A stranger that made its key by hand, or by Go, has a token too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stranger_that_holds_is_named_as_the_winner() {
    let etcd = etcd().await;
    let coordinator = coordinator(&etcd.hosts(), "ttl=10s&token_base=1000").await;
    let guard = coordinator.lock("x").await.expect("granted");
    let data = guard.fenced().expect("it keeps data");
    data.put("k", b"1").await.expect("written");
    let mine = etcd.keys("n/x/");
    etcd.control(&["put", "n/x/stranger", ""]);
    etcd.control(&["del", &mine[0]]);
    let error = data.put("k", b"2").await.expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::Fenced, "{}", error.report());
    let stranger = etcd.control(&["get", "n/x/stranger", "-w=json"]);
    let created = stranger.split("\"create_revision\":").nth(1).and_then(|rest| rest.split(',').next());
    let created: u64 = created.and_then(|text| text.parse().ok()).expect("a revision");
    assert_eq!(error.winner(), Some(FencingToken::new(1000 + created)));
    timeout(Duration::from_secs(1), guard.lost()).await.expect("told");
}

/// What somebody else has written there is told, and can be replaced.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_written_by_hand_is_told_and_can_be_replaced() {
    let etcd = etcd().await;
    let coordinator = coordinator(&etcd.hosts(), "ttl=10s").await;
    let guard = coordinator.lock("x").await.expect("granted");
    etcd.control(&["put", "n/.tenure/data/x/k", "by hand"]);
    let data = guard.fenced().expect("it keeps data");
    let error = data.get("k").await.expect_err("it is not ours");
    assert!(error.kind() == ErrorKind::Unexpected && error.to_string().contains("write it anew"), "{error}");
    assert_eq!(data.put_if("k", None, b"1").await.expect("an answer"), None, "something is there");
    data.put("k", b"1").await.expect("written");
    assert_eq!(data.get("k").await.expect("read").expect("there").value, b"1");
    assert!(etcd.control(&["get", "n/.tenure/data/x/k"]).ends_with("\n1\n"), "people can read it");
}
