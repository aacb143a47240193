//! The nodes of queues: made when they are needed, removed by the servers when they are not, at any time in between.

use std::time::Duration;

use tenure_conformance::server::{until, zookeeper::Setup};
use tenure_core::LossReason;
use tenure_tests::on_zk::{coordinator, entries, until_queued};
use tokio::time::{Instant, timeout};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_empty_queue_is_removed_by_the_servers_and_made_anew_with_higher_tokens() {
    let zookeeper = Setup::single().with_properties(&["znode.container.checkIntervalMs=300"]).start().await;
    let (coordinator, mut operator) = (coordinator(&zookeeper.hosts(), "ttl=30s").await, zookeeper.operator().await);
    let mut last = None;
    for _ in 0..3 {
        let guard = coordinator.lock("x").await.expect("granted");
        assert_eq!(entries(&mut operator, "x").await.len(), 1);
        assert!(last.is_none_or(|last| guard.token() > last), "{} came after {last:?}", guard.token());
        last = Some(guard.token());
        guard.release().await.expect("released");
        let end = Instant::now() + Duration::from_secs(10);
        while operator.get("/n/x").await.is_some() {
            assert!(Instant::now() < end, "it stays");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
    let kept = operator.list("/n/.tenure").await;
    assert_eq!(kept, ["sessions", "token_base"], "what is ours stays");
}

/// As fast as an operator can, between all calls.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_that_vanishes_between_any_two_calls_disturbs_nobody() {
    let zookeeper = Setup::single().start().await;
    let coordinators =
        [coordinator(&zookeeper.hosts(), "ttl=10s").await, coordinator(&zookeeper.hosts(), "ttl=10s").await];
    let reaper = tokio::spawn({
        let mut operator = zookeeper.operator().await;
        async move {
            let (mut removed, end) = (0, Instant::now() + Duration::from_secs(4));
            while Instant::now() < end {
                for queue in ["/n/x", "/n/y"] {
                    removed += u32::from(operator.try_delete(queue).await);
                }
            }
            removed
        }
    });
    let mut workers = Vec::new();
    for (coordinator, name) in coordinators.into_iter().zip(["x", "y"]) {
        workers.push(tokio::spawn(async move {
            let (mut grants, end) = (Vec::new(), Instant::now() + Duration::from_secs(4));
            while Instant::now() < end {
                let guard = coordinator.lock(name).await.expect("granted");
                grants.push(guard.token());
                guard.release().await.expect("released");
            }
            grants
        }));
    }
    let mut grants = Vec::new();
    for worker in workers {
        let mine = worker.await.expect("no panic");
        assert!(mine.is_sorted());
        grants.extend(mine);
    }
    let (removed, all) = (reaper.await.expect("no panic"), grants.len());
    println!("{all} grants, {removed} times removed");
    assert!(removed > 20 && all > 20, "nothing was tested");
    grants.sort();
    grants.dedup();
    assert_eq!(grants.len(), all, "one token was given twice");
}

/// `deleteall`, with one who holds and three who wait: the holder is told, and the others enter anew.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_that_an_operator_removes_with_all_in_it_goes_on() {
    let zookeeper = Setup::single().start().await;
    let coordinator = coordinator(&zookeeper.hosts(), "ttl=4s").await;
    let guard = coordinator.lock("x").await.expect("granted");
    tokio::time::sleep(Duration::from_millis(700)).await; // it watches its entry from half a second on
    let waiters: Vec<_> = (0..3)
        .map(|_| {
            let coordinator = coordinator.clone();
            tokio::spawn(
                async move { coordinator.lock("x").await.expect("granted").release().await.expect("released") },
            )
        })
        .collect();
    until_queued(&zookeeper, "x", 4).await;
    let mut operator = zookeeper.operator().await;
    for entry in entries(&mut operator, "x").await {
        operator.try_delete(&format!("/n/x/{entry}")).await;
    }
    operator.try_delete("/n/x").await;
    assert_eq!(timeout(Duration::from_secs(1), guard.lost()).await.expect("told"), LossReason::Removed);
    for waiter in waiters {
        timeout(Duration::from_secs(10), waiter).await.expect("it goes on").expect("no panic");
    }
    assert!(until(Duration::from_secs(5), || async { zookeeper.operator().await.list("/n/x").await.is_empty() }).await);
}

/// Strangers' entries count if they end in ten digits, and nothing else does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_no_entry_is_in_nobodys_way() {
    let zookeeper = Setup::single().start().await;
    let coordinator = coordinator(&zookeeper.hosts(), "ttl=4s").await;
    coordinator.lock("x").await.expect("granted").release().await.expect("released");
    let mut operator = zookeeper.operator().await;
    for odd in ["config", "_c_-lock-", "foo-bar", "lock-123", "n\u{e4}me"] {
        operator.create(&format!("/n/x/{odd}"), b"").await;
    }
    coordinator.try_lock("x").await.expect("an answer").expect("free").release().await.expect("released");
    operator.create("/n/x/by-hand-0000000000", b"").await;
    assert!(coordinator.try_lock("x").await.expect("an answer").is_none(), "a stranger's entry was passed");
    operator.delete("/n/x/by-hand-0000000000").await;
    coordinator.try_lock("x").await.expect("an answer").expect("free").release().await.expect("released");
}
