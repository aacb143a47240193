//! What it costs, by the server's own counters.

use std::time::{Duration, Instant};

use tenure_conformance::{
    queue,
    server::etcd::{Etcd, Release, Setup},
};
use tenure_core::{ContenderId, Mode};
use tenure_tests::on_etcd::{coordinator, session, until_queued};
use tokio::time::timeout;

async fn count(etcd: &Etcd, name: &str) -> f64 {
    etcd.nodes[0].metric(name).await.unwrap_or(0.0)
}

async fn unary_requests(etcd: &Etcd) -> u64 {
    let mut sum = 0;
    for method in ["Txn", "Range", "Put", "DeleteRange", "LeaseGrant", "LeaseRevoke", "LeaseKeepAlive", "Watch"] {
        sum += etcd.nodes[0].requests(method).await;
    }
    sum
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_uncontended_lock_is_one_request_and_one_write_and_so_is_its_release() {
    for release in [Release::Packaged, Release::V3_5] {
        let etcd = Setup::single(release).start().await;
        let coordinator = coordinator(&etcd.hosts(), "ttl=10m").await; // so that no keep-alive is among them
        coordinator.lock("x").await.expect("granted").release().await.expect("released");
        let writes = ["etcd_server_proposals_committed_total", "etcd_mvcc_put_total", "etcd_mvcc_delete_total"];
        for rounds in [1_u32, 30] {
            let requests = unary_requests(&etcd).await;
            let mut before = Vec::new();
            for name in writes {
                before.push(count(&etcd, name).await);
            }
            for _ in 0..rounds {
                coordinator.lock("x").await.expect("granted").release().await.expect("released");
            }
            assert_eq!(unary_requests(&etcd).await - requests, u64::from(2 * rounds), "requests of {rounds} rounds");
            for ((name, before), each) in writes.into_iter().zip(before).zip([2.0, 1.0, 1.0]) {
                assert_eq!(count(&etcd, name).await - before, each * f64::from(rounds), "{name} of {rounds} rounds");
            }
        }
    }
}

/// In the else-branch of its transaction it reads, but only if it is refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fenced_write_is_one_request_and_one_commit_and_a_read_one_request() {
    for release in [Release::Packaged, Release::V3_5] {
        let etcd = Setup::single(release).start().await;
        let coordinator = coordinator(&etcd.hosts(), "ttl=10m").await; // so that no keep-alive is among them
        let guard = coordinator.lock("x").await.expect("granted");
        let data = guard.fenced().expect("it keeps data");
        data.put("k", b"0").await.expect("written");
        // From half a second on a guard watches its entry, and looks once.
        tokio::time::sleep(Duration::from_secs(1)).await;
        let seen = || async {
            let names = ["etcd_server_proposals_committed_total", "etcd_mvcc_put_total"];
            let counts = [count(&etcd, names[0]).await, count(&etcd, names[1]).await];
            (unary_requests(&etcd).await, etcd.nodes[0].requests("Txn").await, counts)
        };
        const ROUNDS: u32 = 30;
        let (requests, transactions, [commits, puts]) = seen().await;
        let mut version = data.get("k").await.expect("read").map(|stored| stored.version);
        for round in 0..ROUNDS {
            if round % 2 == 0 {
                version = Some(data.put("k", b"1").await.expect("written"));
            } else {
                version = data.put_if("k", version, b"2").await.expect("written");
            }
        }
        let (requests, transactions) = {
            let now = seen().await;
            assert_eq!(now.2, [commits + f64::from(ROUNDS), puts + f64::from(ROUNDS)], "commits and puts");
            (now.0 - requests, now.1 - transactions)
        };
        assert_eq!((requests, transactions), (u64::from(ROUNDS) + 1, u64::from(ROUNDS)), "requests, transactions");
    }
}

/// The holder is a bare session, since a guard that is held for long watches its own entry; each waiter releases at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hand_over_wakes_one_waiter_by_one_event_however_many_wait() {
    for waiting in [2_u32, 500] {
        let etcd = Setup::single(Release::Packaged).start().await;
        let holder = session(&etcd.hosts(), Duration::from_secs(600)).await.session;
        let (name, id) = (queue("x"), ContenderId::random(Mode::Write));
        holder.enter(&name, &id, b"").await.expect("entered");
        let coordinator = coordinator(&etcd.hosts(), "ttl=10m").await;
        let waiters: Vec<_> = (0..waiting)
            .map(|_| {
                let coordinator = coordinator.clone();
                tokio::spawn(
                    async move { coordinator.lock("x").await.expect("granted").release().await.expect("released") },
                )
            })
            .collect();
        until_queued(&etcd, "x", waiting as usize + 1).await;
        let watching = || async { count(&etcd, "etcd_debugging_mvcc_watcher_total").await == f64::from(waiting) };
        assert!(tenure_conformance::server::until(Duration::from_secs(20), watching).await, "one watcher for each");
        let before = count(&etcd, "etcd_debugging_mvcc_events_total").await;
        holder.leave(&name, &id).await.expect("left");
        let start = Instant::now();
        for waiter in waiters {
            let left = Duration::from_secs(30).saturating_sub(start.elapsed());
            timeout(left, waiter).await.expect("all are served within the limit").expect("no panic");
        }
        let took = start.elapsed();
        let events = count(&etcd, "etcd_debugging_mvcc_events_total").await - before;
        assert_eq!(events, f64::from(waiting), "{waiting} hand-overs");
        println!("{waiting} waiting: {events} events for {waiting} hand-overs in {took:?}");
    }
}
