//! etcd, one server or a cluster of them.

use std::{
    env,
    net::Ipv4Addr,
    path::{Path, PathBuf},
    process::{Command, Output},
    time::Duration,
};

use tempfile::TempDir;

pub use self::node::Node;
use super::{Process, free_port};
use crate::netns::{Host, Net};

mod node;

/// Which etcd.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Release {
    /// The one of the distribution.
    Packaged,
    /// 3.5.1.
    V3_5,
}

impl Release {
    /// Where a program of it is.
    ///
    /// # Panics
    /// If it is not installed, with the command that installs it.
    pub fn program(self, name: &str) -> PathBuf {
        let (folders, install) = match self {
            Self::Packaged => {
                let path = env::var_os("PATH").unwrap_or_default();
                (env::split_paths(&path).collect(), "apt-get install etcd-server etcd-client")
            }
            Self::V3_5 => (vec![super::cache().join("etcd-3.5.1")], "ci/etcd-3.5"),
        };
        let found = folders.iter().map(|folder: &PathBuf| folder.join(name)).find(|path| path.exists());
        found.unwrap_or_else(|| panic!("{name} of {self:?} is missing: run `{install}`"))
    }
}

/// How the servers are started.
#[derive(Clone, Debug)]
pub struct Setup {
    release: Release,
    servers: usize,
    client_scheme: &'static str,
    more: Vec<String>,
    hosts: Vec<Host>,
}

impl Setup {
    /// One server.
    pub fn single(release: Release) -> Self {
        Self { release, servers: 1, client_scheme: "http", more: Vec::new(), hosts: Vec::new() }
    }

    /// Three servers.
    pub fn cluster(release: Release) -> Self {
        Self { servers: 3, ..Self::single(release) }
    }

    /// Adds arguments for all of them.
    #[must_use]
    pub fn with(mut self, arguments: &[&str]) -> Self {
        self.more.extend(arguments.iter().map(ToString::to_string));
        self
    }

    /// Clients have to use TLS; the certificates are told by [`Setup::with`].
    #[must_use]
    pub fn with_tls(mut self) -> Self {
        self.client_scheme = "https";
        self
    }

    /// Each runs on a host of its own, beginning with the first; who is to reach them has to be on one too.
    #[must_use]
    pub fn on(mut self, net: &Net) -> Self {
        self.hosts = net.hosts.clone();
        self
    }

    /// Starts them, and returns once all serve.
    ///
    /// # Panics
    /// If they do not within half a minute, with their last words.
    pub async fn start(self) -> Etcd {
        for _ in 0..3 {
            let mut etcd = self.spawn();
            if etcd.serves(Duration::from_secs(30)).await {
                return etcd;
            }
            // Somebody else may have taken a port meanwhile.
            let taken = etcd.nodes.iter().any(|node| node.process.last_words().contains("address already in use"));
            assert!(taken, "etcd does not start: {}", etcd.nodes[0].process.last_words());
        }
        panic!("no free ports for etcd");
    }

    fn spawn(&self) -> Etcd {
        let folder = tempfile::tempdir().expect("a directory");
        let ports: Vec<_> = (0..self.servers).map(|_| [free_port(), free_port(), free_port()]).collect();
        let members: Vec<_> =
            ports.iter().enumerate().map(|(at, [_, peer, _])| format!("n{at}=http://{}:{peer}", self.ip(at))).collect();
        let nodes =
            ports.iter().enumerate().map(|(at, ports)| self.node(folder.path(), at, *ports, &members.join(",")));
        Etcd { nodes: nodes.collect(), release: self.release, folder }
    }

    fn ip(&self, at: usize) -> Ipv4Addr {
        self.hosts.get(at).map_or(Ipv4Addr::LOCALHOST, Host::address)
    }

    /// The flags of server number `at`: the ports are those for clients, for peers and for `/metrics`, `members` is the initial cluster.
    /// `docker-compose.yml` is held to them by a test.
    pub fn flags(&self, folder: &Path, at: usize, [client, peer, metrics]: [u16; 3], members: &str) -> Vec<String> {
        let (scheme, ip) = (self.client_scheme, self.ip(at));
        // What a lease lasts at least is one and a half of the election timeout.
        let (heartbeat, election) = if self.servers == 1 { (20, 100) } else { (50, 500) };
        let mut flags: Vec<_> = [
            format!("--name=n{at}"),
            format!("--data-dir={}", folder.join(format!("n{at}")).display()),
            format!("--listen-client-urls={scheme}://{ip}:{client}"),
            format!("--advertise-client-urls={scheme}://{ip}:{client}"),
            format!("--listen-peer-urls=http://{ip}:{peer}"),
            format!("--initial-advertise-peer-urls=http://{ip}:{peer}"),
            format!("--listen-metrics-urls=http://127.0.0.1:{metrics}"),
            format!("--initial-cluster={members}"),
            format!("--heartbeat-interval={heartbeat}"),
            format!("--election-timeout={election}"),
            "--unsafe-no-fsync".to_owned(),
            "--logger=zap".to_owned(),
            "--log-level=warn".to_owned(),
        ]
        .into();
        flags.extend(self.more.iter().cloned());
        flags
    }

    fn node(&self, folder: &Path, at: usize, ports: [u16; 3], members: &str) -> Node {
        let arguments = self.flags(folder, at, ports, members);
        let [client, peer, metrics] = ports;
        let (ip, host) = (self.ip(at), self.hosts.get(at).cloned());
        let log = folder.join(format!("n{at}.log"));
        let program = self.release.program("etcd");
        let started = match &host {
            Some(host) => host.start_process(&program, arguments, log),
            None => Process::start(program, arguments, log),
        };
        let process = started.expect("it starts: is setpriv there?");
        Node { process, client: (ip, client).into(), peer: format!("http://{ip}:{peer}"), metrics, host }
    }
}

/// Running servers.
#[derive(Debug)]
pub struct Etcd {
    /// The servers.
    pub nodes: Vec<Node>,
    release: Release,
    folder: TempDir,
}

impl Etcd {
    /// Their addresses, as a URL lists them.
    pub fn hosts(&self) -> String {
        self.nodes.iter().map(|node| node.client.to_string()).collect::<Vec<_>>().join(",")
    }

    /// Where their data is.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// `etcdctl`, for these servers.
    pub fn etcdctl(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.release.program("etcdctl"));
        command.env("ETCDCTL_API", "3").args(["--endpoints", &self.hosts(), "--command-timeout=5s"]).args(arguments);
        command
    }

    /// Runs `etcdctl` to its end.
    ///
    /// # Panics
    /// If it fails.
    pub fn control(&self, arguments: &[&str]) -> String {
        let Output { status, stdout, stderr } = self.etcdctl(arguments).output().expect("it runs");
        let said = String::from_utf8_lossy(&stdout).into_owned();
        assert!(status.success(), "etcdctl {arguments:?}: {said}{}", String::from_utf8_lossy(&stderr));
        said
    }

    /// All keys, one a line, as an operator sees them.
    pub fn keys(&self, prefix: &str) -> Vec<String> {
        let keys = self.control(&["get", "--prefix", "--keys-only", prefix]);
        keys.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
    }

    /// Waits until all serve.
    pub async fn serves(&mut self, limit: Duration) -> bool {
        for node in &mut self.nodes {
            if !node.serves(limit).await {
                return false;
            }
        }
        true
    }

    /// Which one leads, if it is known.
    pub async fn leader(&self) -> Option<usize> {
        for (at, node) in self.nodes.iter().enumerate() {
            if node.metric("etcd_server_is_leader").await == Some(1.0) {
                return Some(at);
            }
        }
        None
    }
}
