//! Data in the service behind its own fence, on real services: workers that are stopped past their lease, killed, and cut off.
//!
//! `TENURE_FENCED_SECONDS` says for how long the nemesis strikes at each service (20 unless set).

#![expect(clippy::print_stdout, reason = "what happened is to be seen beside the result of the test")]

mod history;
mod layout;
mod paused;

use std::path::Path;

use tenure_conformance::server::{
    etcd::{Etcd, Release, Setup},
    zookeeper::{self, Zookeeper},
};
use tokio::sync::Semaphore;

/// They wait more than they compute; more of them would take each other's processor time.
static AT_ONCE: Semaphore = Semaphore::const_new(3);

async fn etcd() -> Etcd {
    Setup::single(Release::Packaged).start().await
}

async fn zookeeper() -> Zookeeper {
    zookeeper::Setup::single().start().await
}

fn on_etcd(hosts: &str) -> String {
    format!("etcd://{hosts}/n?ttl=2s")
}

fn on_zk(hosts: &str) -> String {
    format!("zk://{hosts}/n?ttl=2s")
}

fn on_sqlite(folder: &Path) -> String {
    format!("sqlite:{}?ttl=2s", folder.join("t.db").display())
}
