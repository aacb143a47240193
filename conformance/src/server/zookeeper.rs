//! ZooKeeper, one server or an ensemble of them.

use std::{
    fs,
    net::Ipv4Addr,
    path::{Path, PathBuf},
    time::Duration,
};

use tempfile::TempDir;

pub use self::{
    node::Node,
    operator::{Operator, Stat},
};
use super::{Process, free_port};
use crate::netns::{Host, Net};

mod node;
mod operator;
mod wire;

/// How long a server is waited for that an operator asks something.
const SOON: Duration = Duration::from_secs(20);

/// The first one names what it needs itself, but for the codecs of Netty, without which there is no TLS.
const CLASS_PATH: [&str; 3] =
    ["/usr/share/java/zookeeper.jar", "/usr/share/java/slf4j-simple.jar", "/usr/share/java/netty-codec.jar"];

/// A small virtual machine that starts fast: in half a second, and as much processor time.
const JAVA: [&str; 8] = [
    "-Xms16m",
    "-Xmx128m",
    "-Xss256k",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:-UsePerfData",
    "-Djava.net.preferIPv4Stack=true",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
];

/// How the servers are started.
#[derive(Clone, Debug)]
pub struct Setup {
    servers: usize,
    tick: Duration,
    more: Vec<String>,
    properties: Vec<String>,
    hosts: Vec<Host>,
}

impl Setup {
    /// One server.
    pub fn single() -> Self {
        Self {
            servers: 1,
            tick: Duration::from_millis(200),
            more: Vec::new(),
            properties: Vec::new(),
            hosts: Vec::new(),
        }
    }

    /// Three servers.
    pub fn cluster() -> Self {
        Self { servers: 3, ..Self::single() }
    }

    /// The unit of their time limits. A session lasts two of them at least, a minute at most unless [`Setup::with`] says otherwise.
    #[must_use]
    pub fn tick(mut self, tick: Duration) -> Self {
        self.tick = tick;
        self
    }

    /// Adds lines to the configuration of all of them. The last line about a thing counts.
    #[must_use]
    pub fn with(mut self, lines: &[&str]) -> Self {
        self.more.extend(lines.iter().map(ToString::to_string));
        self
    }

    /// Adds settings that no configuration can have: properties of the virtual machine, `name=value`.
    #[must_use]
    pub fn with_properties(mut self, properties: &[&str]) -> Self {
        self.properties.extend(properties.iter().map(ToString::to_string));
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
    pub async fn start(self) -> Zookeeper {
        for path in CLASS_PATH {
            assert!(Path::new(path).exists(), "{path} is missing: run `apt-get install zookeeper`");
        }
        for _ in 0..3 {
            let mut zookeeper = self.spawn();
            if zookeeper.serves(Duration::from_secs(30)).await {
                return zookeeper;
            }
            // Somebody else may have taken a port meanwhile.
            let taken = zookeeper.nodes.iter().any(|node| node.process.last_words().contains("Address already in use"));
            assert!(taken, "ZooKeeper does not start: {}", zookeeper.nodes[0].process.last_words());
        }
        panic!("no free ports for ZooKeeper");
    }

    fn spawn(&self) -> Zookeeper {
        let folder = tempfile::tempdir().expect("a directory");
        let ports: Vec<_> = (0..self.servers).map(|_| [free_port(), free_port(), free_port()]).collect();
        let members = ports.iter().enumerate().map(|(at, [client, peer, election])| {
            let ip = self.ip(at);
            format!("server.{}={ip}:{peer}:{election};{ip}:{client}", at + 1)
        });
        let members: Vec<_> = members.collect();
        let nodes = ports.iter().enumerate().map(|(at, [client, ..])| self.node(folder.path(), at, *client, &members));
        Zookeeper { nodes: nodes.collect(), folder }
    }

    fn ip(&self, at: usize) -> Ipv4Addr {
        self.hosts.get(at).map_or(Ipv4Addr::LOCALHOST, Host::address)
    }

    /// The configuration of a server whose data goes to `folder`. `docker-compose.yml` is held to it by a test.
    pub fn lines(&self, folder: &Path, members: &[String]) -> Vec<String> {
        let mut lines = vec![
            format!("dataDir={}", folder.display()),
            format!("tickTime={}", self.tick.as_millis()),
            "maxSessionTimeout=60000".to_owned(),
            // In ticks: how long a follower may take to start, and how long it or the leader may be silent.
            "initLimit=25".to_owned(),
            "syncLimit=10".to_owned(),
            "cnxTimeout=500".to_owned(),
            "maxClientCnxns=0".to_owned(),
            "admin.enableServer=false".to_owned(),
            "4lw.commands.whitelist=*".to_owned(),
            "forceSync=no".to_owned(),
            "preAllocSize=64".to_owned(),
        ];
        lines.extend(members.iter().cloned());
        lines.extend(self.more.iter().cloned());
        lines
    }

    fn node(&self, folder: &Path, at: usize, client: u16, members: &[String]) -> Node {
        let data = folder.join(format!("n{at}"));
        let file = folder.join(format!("n{at}.cfg"));
        fs::create_dir(&data).expect("it is new");
        fs::write(data.join("myid"), (at + 1).to_string()).expect("it is ours");
        fs::write(&file, self.lines(&data, members).join("\n")).expect("it is ours");
        let mut arguments: Vec<_> = JAVA.map(str::to_owned).into();
        arguments.extend(self.properties.iter().map(|property| format!("-D{property}")));
        let main = "org.apache.zookeeper.server.quorum.QuorumPeerMain";
        arguments.extend(["-cp".to_owned(), CLASS_PATH.join(":"), main.to_owned(), file.display().to_string()]);
        let (ip, host) = (self.ip(at), self.hosts.get(at).cloned());
        let (program, log) = (PathBuf::from("java"), folder.join(format!("n{at}.log")));
        let started = match &host {
            Some(host) => host.start_process(&program, arguments, log),
            None => Process::start(program, arguments, log),
        };
        Node { process: started.expect("it starts: is setpriv there?"), client: (ip, client).into(), host }
    }
}

/// What is done with a copy of a server's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Copied {
    /// It is made.
    Kept,
    /// It takes the place of the data.
    Restored,
}

/// Running servers.
#[derive(Debug)]
pub struct Zookeeper {
    /// The servers.
    pub nodes: Vec<Node>,
    folder: TempDir,
}

impl Zookeeper {
    /// Their addresses, as a URL lists them.
    pub fn hosts(&self) -> String {
        self.nodes.iter().map(|node| node.client.to_string()).collect::<Vec<_>>().join(",")
    }

    /// Where their data is.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Kills the first one, and keeps a copy of its data as it is then, or puts that back in its place; then starts it again.
    ///
    /// # Panics
    /// If that does not work.
    pub async fn restart_with(&mut self, data: Copied) {
        let (original, copy) = (self.folder().join("n0"), self.folder().join("backup"));
        self.nodes[0].process.kill();
        let (from, to) = if data == Copied::Kept { (original, copy) } else { (copy, original) };
        if to.exists() {
            fs::remove_dir_all(&to).expect("removed");
        }
        let copied = std::process::Command::new("cp").args(["-a", "--"]).args([from, to]).status();
        assert!(copied.expect("it runs").success());
        self.nodes[0].process.restart().expect("it starts");
        assert!(self.serves(SOON).await);
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

    /// Which one leads, if it is known. One server alone leads.
    pub async fn leader(&self) -> Option<usize> {
        for (at, node) in self.nodes.iter().enumerate() {
            if matches!(node.state().await.as_deref(), Some("leader" | "standalone")) {
                return Some(at);
            }
        }
        None
    }

    /// Connects to the first one that serves.
    ///
    /// # Panics
    /// If none does soon.
    pub async fn operator(&self) -> Operator {
        let end = tokio::time::Instant::now() + SOON;
        while tokio::time::Instant::now() < end {
            for node in &self.nodes {
                if let Some(operator) = node.operator().await {
                    return operator;
                }
            }
        }
        panic!("no server lets an operator in");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn one_server_does_what_an_operator_says() {
        let zookeeper = Setup::single().start().await;
        let mut operator = zookeeper.operator().await;
        operator.create("/a", b"1").await;
        operator.create("/a/b", b"").await;
        assert_eq!(operator.list("/a").await, ["b"]);
        operator.set("/a", b"2").await;
        let (value, stat) = operator.get("/a").await.expect("it is there");
        assert_eq!((value.as_slice(), stat.version, stat.owner), (&b"2"[..], 1, 0));
        operator.delete("/a/b").await;
        assert!(operator.list("/a").await.is_empty() && operator.list("/c").await.is_empty());
        assert!(operator.get("/a/b").await.is_none());
        let node = &zookeeper.nodes[0];
        assert_eq!(node.metric("znode_count").await, Some(6.0), "its own five, and ours");
        assert!(node.zxid().await.is_some_and(|zxid| zxid >= stat.created));
        assert_eq!(zookeeper.leader().await, Some(0));
        let other = zookeeper.operator().await;
        assert_eq!(node.metric("global_sessions").await, Some(2.0));
        operator.end_session(other.session()).await;
        assert!(other.is_over().await, "its session has been ended");
    }

    #[tokio::test]
    async fn three_servers_lose_one() {
        let mut zookeeper = Setup::cluster().start().await;
        let leader = zookeeper.leader().await.expect("somebody leads");
        zookeeper.operator().await.create("/a", b"1").await;
        zookeeper.nodes[leader].process.kill();
        let mut operator = zookeeper.operator().await;
        assert!(operator.get("/a").await.is_some());
        zookeeper.nodes[leader].process.restart().expect("it starts");
        assert!(zookeeper.serves(SOON).await, "{}", zookeeper.nodes[leader].process.last_words());
        assert!(zookeeper.leader().await.is_some_and(|now| now != leader));
    }

    #[tokio::test]
    async fn three_servers_on_hosts_of_their_own() {
        let net = Net::start(3);
        let mut zookeeper = Setup::cluster().on(&net).start().await;
        let leader = zookeeper.leader().await.expect("somebody leads");
        net.hosts[leader].cut(crate::netns::Cut::Off, &[]);
        let led = || async { zookeeper.leader().await.is_some_and(|now| now != leader) };
        assert!(crate::server::until(SOON, led).await, "the others do not elect");
        net.hosts[leader].heal();
        assert!(zookeeper.serves(SOON).await);
    }
}
