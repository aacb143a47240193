//! `etcdctl lock` and ours on one name.

use std::{
    process::{Child, Stdio},
    time::Duration,
};

use tenure_conformance::server::{
    etcd::{Etcd, Release, Setup},
    until,
};
use tenure_tests::on_etcd::{coordinator, rounds, until_queued};
use tokio::time::timeout;

/// A lock held by `etcdctl`, until a file is removed.
struct Foreign {
    child: Child,
    started: std::path::PathBuf,
    holds: std::path::PathBuf,
}

impl Foreign {
    fn start(etcd: &Etcd, round: usize) -> Self {
        let [started, holds] = ["started", "holds"].map(|what| etcd.folder().join(format!("{what}-{round}")));
        std::fs::write(&holds, "").expect("written");
        let script = format!("touch {}; while [ -e {} ]; do sleep 0.02; done", started.display(), holds.display());
        let child = etcd.etcdctl(&["lock", "--ttl=10", "n/x", "--", "sh", "-c", &script]).stdout(Stdio::null()).spawn();
        Self { child: child.expect("it runs"), started, holds }
    }

    async fn is_granted(&self, limit: Duration) -> bool {
        until(limit, || std::future::ready(self.started.exists())).await
    }

    fn end(mut self) {
        let _ = std::fs::remove_file(&self.holds);
        let _ = self.child.wait();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn etcdctl_and_ours_exclude_each_other_both_ways() {
    for release in [Release::Packaged, Release::V3_5] {
        let etcd = Setup::single(release).start().await;
        let coordinator = coordinator(&etcd.hosts(), "ttl=10s").await;
        for round in 0..rounds(10) {
            let guard = coordinator.lock("x").await.expect("granted");
            let foreign = Foreign::start(&etcd, round);
            until_queued(&etcd, "x", 2).await;
            assert!(!foreign.is_granted(Duration::from_millis(150)).await, "both hold");
            guard.release().await.expect("released");
            assert!(foreign.is_granted(Duration::from_secs(3)).await, "it waits for ever");
            assert!(coordinator.try_lock("x").await.expect("an answer").is_none(), "both hold");
            assert!(coordinator.try_read("x").await.expect("an answer").is_none(), "a stranger is exclusive");
            let waits = tokio::spawn({
                let coordinator = coordinator.clone();
                async move { coordinator.lock("x").await }
            });
            until_queued(&etcd, "x", 2).await;
            tokio::time::sleep(Duration::from_millis(100)).await;
            assert!(!waits.is_finished(), "both hold");
            foreign.end();
            let next =
                timeout(Duration::from_secs(3), waits).await.expect("woken").expect("no panic").expect("granted");
            next.release().await.expect("released");
        }
    }
}

/// Whatever bytes a stranger's key is made of, it is in the way, and waiting for it is quiet.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_strangers_key_of_odd_bytes_is_waited_for_without_a_loop() {
    let etcd = Setup::single(Release::Packaged).start().await;
    let coordinator = coordinator(&etcd.hosts(), "ttl=10s").await;
    for (name, id) in [("a", &b"\xff\xfe"[..]), ("b", b"%2F@%"), ("c", "ä \n".as_bytes())] {
        let key = [format!("n/{name}/").as_bytes(), id].concat();
        let mut client = etcd_client::Client::connect([etcd.hosts()], None).await.expect("connects");
        client.put(&*key, "", None).await.expect("written");
        let before = etcd.nodes[0].requests("Txn").await + etcd.nodes[0].requests("Watch").await;
        let waits = tokio::spawn({
            let (coordinator, name) = (coordinator.clone(), name.to_owned());
            async move { coordinator.lock(&name).await }
        });
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(!waits.is_finished(), "the stranger is overlooked");
        let asked = etcd.nodes[0].requests("Txn").await + etcd.nodes[0].requests("Watch").await - before;
        assert!(asked <= 10, "{asked} requests for one who waits for {id:?}");
        client.delete(&*key, None).await.expect("removed");
        timeout(Duration::from_secs(3), waits)
            .await
            .expect("woken")
            .expect("no panic")
            .expect("granted")
            .release()
            .await
            .expect("released");
    }
}
