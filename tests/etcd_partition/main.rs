//! Three etcd servers and two clients on hosts of their own, and cuts between them. `TENURE_ROUNDS` says how often what is repeated is
//! repeated. Needs root, for the namespaces.

#![cfg(target_os = "linux")]
#![expect(clippy::print_stdout, reason = "what was measured is to be seen beside the result of the test")]

mod clients_cut;
mod deposed;
mod plain;
mod servers_cut;
mod zombie;

use std::time::Duration;

use tenure_conformance::{
    netns::{Host, Net},
    server::{
        etcd::{Etcd, Release, Setup},
        until,
    },
};
use tenure_tests::client::Client;
use tokio::sync::{Mutex, MutexGuard};

/// Clusters beside each other would take each other's processor time, and lose their leaders for that.
static ONE_AT_A_TIME: Mutex<()> = Mutex::const_new(());

/// The servers are on the first three hosts, the clients on the two others.
struct World {
    etcd: Etcd,
    net: Net,
    _alone: MutexGuard<'static, ()>,
}

impl World {
    async fn start(release: Release) -> Self {
        let alone = ONE_AT_A_TIME.lock().await;
        let net = Net::start(5);
        let etcd = Setup::cluster(release).on(&net).start().await;
        Self { etcd, net, _alone: alone }
    }

    fn server(&self, at: usize) -> &Host {
        &self.net.hosts[at]
    }

    /// The hosts of the servers but one.
    fn others(&self, at: usize) -> [&Host; 2] {
        [self.server((at + 1) % 3), self.server((at + 2) % 3)]
    }

    /// The client with this number, which asks the server `first` first.
    async fn client(&self, number: usize, first: usize, settings: &str) -> Client {
        self.client_of(number, &[first % 3, (first + 1) % 3, (first + 2) % 3], settings).await
    }

    /// The client with this number, which knows these servers.
    async fn client_of(&self, number: usize, servers: &[usize], settings: &str) -> Client {
        let servers: Vec<_> = servers.iter().map(|at| self.etcd.nodes[*at].client.to_string()).collect();
        let url = format!("etcd://{}/n?{settings}", servers.join(","));
        Client::start(Some(&self.net.hosts[3 + number]), &url).await
    }

    async fn leader(&self) -> usize {
        let led = || async { self.etcd.leader().await.is_some() };
        assert!(until(Duration::from_secs(20), led).await, "nobody leads");
        self.etcd.leader().await.expect("it has just led, and nothing is cut")
    }
}
