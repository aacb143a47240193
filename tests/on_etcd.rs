//! Coordinators on etcd servers that a test has started, and what an operator does to them.

use std::time::Duration;

use tenure_conformance::server::{
    etcd::{Etcd, Release},
    until,
};
use tenure_core::{Backend, Clock, Config, Coordinator, Opened, Result};
use tenure_etcd::EtcdBackend;

pub use crate::rounds;

/// The configuration for these hosts, in the namespace `n`.
pub fn config(hosts: &str, settings: &str) -> Config {
    format!("etcd://{hosts}/n?{settings}").parse().expect("a URL")
}

/// As a user connects.
///
/// # Errors
/// As the backend says.
pub async fn connect(hosts: &str, settings: &str) -> Result<Coordinator> {
    tenure::drivers().connect(&config(hosts, settings)).await
}

/// A coordinator that is connected.
pub async fn coordinator(hosts: &str, settings: &str) -> Coordinator {
    connect(hosts, settings).await.unwrap_or_else(|error| panic!("{}", error.report()))
}

/// A session without a coordinator.
pub async fn session(hosts: &str, ttl: Duration) -> Opened {
    session_by(hosts, "", ttl).await
}

/// As [`session`], with settings.
pub async fn session_by(hosts: &str, settings: &str, ttl: Duration) -> Opened {
    let backend = EtcdBackend::connect(&config(hosts, settings), &Clock::system(), false).await.expect("good settings");
    backend.open(ttl).await.unwrap_or_else(|error| panic!("{}", error.report()))
}

/// The keys in the queue of this name, in the namespace `n`.
pub fn entries(etcd: &Etcd, name: &str) -> Vec<String> {
    etcd.keys(&format!("n/{name}/"))
}

/// Until so many entries stand in the queue.
///
/// # Panics
/// If they do not soon.
pub async fn until_queued(etcd: &Etcd, name: &str, count: usize) {
    let queued = until(Duration::from_secs(15), || std::future::ready(entries(etcd, name).len() == count)).await;
    assert!(queued, "there are never {count} in {name}: {:?}", entries(etcd, name));
}

/// Replaces the data of the one server, of release 3.5, by that of the file.
///
/// # Panics
/// If it does not work.
pub fn restore(etcd: &mut Etcd, file: &str) {
    let data = etcd.folder().join("n0");
    etcd.nodes[0].process.kill();
    std::fs::remove_dir_all(&data).expect("removed");
    let restored = std::process::Command::new(Release::V3_5.program("etcdutl"))
        .args(["snapshot", "restore", file, "--name=n0", "--data-dir"])
        .arg(&data)
        .args([
            format!("--initial-cluster=n0={}", etcd.nodes[0].peer),
            format!("--initial-advertise-peer-urls={}", etcd.nodes[0].peer),
        ])
        .output()
        .expect("it runs");
    assert!(restored.status.success(), "{}", String::from_utf8_lossy(&restored.stderr));
    etcd.nodes[0].process.restart().expect("it starts");
}
