//! Hosts in network namespaces of their own, joined by a bridge that stands in one more: real TCP between them, and packet filters that cut
//! it. The network of the machine is not touched. A namespace has no name, and lives as long as the process that holds it, which the kernel
//! kills with the test: nothing is left behind, however that ends.

use std::{
    future::Future,
    io,
    net::Ipv4Addr,
    panic::resume_unwind,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::Arc,
};

use tempfile::TempDir;
use tokio::{runtime::Runtime, task::JoinSet};

use self::namespace::Namespace;
use crate::server::Process;

mod namespace;

/// Some hosts that reach each other.
#[derive(Debug)]
pub struct Net {
    /// The hosts.
    pub hosts: Vec<Host>,
    _hub: Namespace,
    _logs: TempDir,
}

impl Net {
    /// Makes so many hosts. Their namespaces end with the thread that calls this, if not before.
    ///
    /// # Panics
    /// If that is not possible, with what is missing.
    pub fn start(hosts: u8) -> Self {
        assert!(rustix::process::geteuid().is_root(), "network namespaces need root: run this test as root");
        for (program, package) in [("ip", "iproute2"), ("nft", "nftables"), ("nsenter", "util-linux")] {
            let there = Command::new(program).arg("-V").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok();
            assert!(there, "{program} is missing: run `apt-get install {package}`");
        }
        let logs = tempfile::tempdir().expect("a directory");
        let hub = Namespace::start(logs.path(), "hub");
        hub.ip("link add br0 type bridge");
        hub.ip("link set br0 up");
        let hosts = (1..=hosts).map(|number| Host::start(&hub, logs.path(), number)).collect();
        Self { hosts, _hub: hub, _logs: logs }
    }
}

/// Which packets of a host are thrown away, without a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// All.
    Off,
    /// Those that it sends: it hears, and is not heard.
    Mute,
    /// Those that it is sent: it is heard, and does not hear.
    Deaf,
}

/// A namespace with an address, and a runtime whose sockets are in it.
#[derive(Clone, Debug)]
pub struct Host(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    address: Ipv4Addr,
    namespace: Namespace,
    runtime: Option<Runtime>,
}

impl Host {
    fn start(hub: &Namespace, logs: &Path, number: u8) -> Self {
        let namespace = Namespace::start(logs, &format!("host-{number}"));
        let address = Ipv4Addr::new(10, 231, 0, number);
        hub.ip(&format!("link add v{number} type veth peer name eth0 netns {}", namespace.id()));
        hub.ip(&format!("link set v{number} master br0 up"));
        namespace.ip("link set lo up");
        namespace.ip(&format!("address add {address}/24 dev eth0"));
        namespace.ip("link set eth0 up");
        let runtime = Some(namespace.runtime());
        Self(Arc::new(Inner { address, namespace, runtime }))
    }

    /// Where the others reach it.
    pub fn address(&self) -> Ipv4Addr {
        self.0.address
    }

    /// Does something as this host. What is connected or spawned by it belongs to this host too. Dropped, it is aborted.
    ///
    /// # Panics
    /// If it panics.
    pub async fn run<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> T {
        let runtime = self.0.runtime.as_ref().expect("it is there until the drop");
        let mut task = JoinSet::new();
        task.spawn_on(work, runtime.handle());
        let done = task.join_next().await.expect("it was spawned");
        done.unwrap_or_else(|error| resume_unwind(error.into_panic()))
    }

    /// Starts a program on this host; what it says goes to the file `log`.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn start_process(&self, program: &Path, arguments: Vec<String>, log: PathBuf) -> io::Result<Process> {
        let mut line = vec![self.0.namespace.argument(), program.display().to_string()];
        line.extend(arguments);
        Process::start("nsenter", line, log)
    }

    /// Throws packets away from now on: those to and from these hosts, or all if none is named. Replaces what was cut before.
    pub fn cut(&self, cut: Cut, hosts: &[&Self]) {
        let list = hosts.iter().map(|host| host.address().to_string()).collect::<Vec<_>>().join(", ");
        let chain = |hook: &str, field: &str, drops: bool| {
            let rule = match (drops, list.is_empty()) {
                (false, _) => String::new(),
                (true, true) => format!("{field} 10.231.0.0/24 drop\n"),
                (true, false) => format!("{field} {{ {list} }} drop\n"),
            };
            format!("chain {hook} {{\ntype filter hook {hook} priority 0; policy accept;\n{rule}}}\n")
        };
        let (input, output) =
            (chain("input", "ip saddr", cut != Cut::Mute), chain("output", "ip daddr", cut != Cut::Deaf));
        self.0.namespace.nft(&format!("table ip cut\ndelete table ip cut\ntable ip cut {{\n{input}{output}}}\n"));
    }

    /// Nothing is thrown away any more.
    pub fn heal(&self) {
        self.0.namespace.nft("table ip cut\ndelete table ip cut\n");
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background(); // to wait is not allowed where other tasks run
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::{
        net::{TcpListener, TcpStream, UdpSocket},
        time::timeout,
    };

    use super::*;

    const SHORT: Duration = Duration::from_millis(200);

    /// Whether a connection from one to the other is made soon.
    async fn reaches(from: &Host, to: &Host) -> bool {
        let target = (to.address(), 4000);
        let connecting = async move { timeout(SHORT, TcpStream::connect(target)).await };
        from.run(connecting).await.is_ok_and(|connected| connected.is_ok())
    }

    /// Whether a packet from one arrives at the other.
    async fn is_heard(from: &Host, to: &Host) -> bool {
        let target = (to.address(), 4001);
        let hear = async {
            let socket = UdpSocket::bind("0.0.0.0:4001").await.expect("the port is free: nobody else is here");
            timeout(SHORT, socket.recv_from(&mut [0])).await.is_ok()
        };
        let say = async move {
            tokio::time::sleep(SHORT / 4).await;
            let socket = UdpSocket::bind("0.0.0.0:0").await.expect("a port");
            let _ = socket.send_to(b"x", target).await; // refused if it is mute
        };
        tokio::join!(to.run(hear), from.run(say)).0
    }

    #[tokio::test]
    async fn hosts_reach_each_other_unless_they_are_cut() {
        let net = Net::start(3);
        let [a, b, c] = &net.hosts[..] else { panic!("three hosts") };
        let mut listeners = Vec::new();
        for host in [a, b, c] {
            listeners.push(host.run(TcpListener::bind("0.0.0.0:4000")).await.expect("the port is free"));
        }
        assert!(reaches(a, b).await && reaches(b, c).await && reaches(c, a).await);
        for (cut, heard, hears) in [(Cut::Off, false, false), (Cut::Mute, false, true), (Cut::Deaf, true, false)] {
            a.cut(cut, &[]);
            assert!(!reaches(a, b).await && !reaches(b, a).await && reaches(b, c).await, "{cut:?}");
            assert_eq!((is_heard(a, b).await, is_heard(b, a).await), (heard, hears), "{cut:?}");
            a.cut(cut, &[b]);
            assert!(!reaches(a, b).await && !reaches(b, a).await && reaches(a, c).await, "{cut:?} of one");
            a.heal();
            assert!(reaches(a, b).await && reaches(b, a).await, "healed");
        }
    }

    #[tokio::test]
    async fn nets_beside_each_other_do_not_meet_and_leave_nothing() {
        let (one, other) = (Net::start(2), Net::start(1));
        let _listens = one.hosts[1].run(TcpListener::bind("0.0.0.0:4000")).await.expect("the port is free");
        assert!(reaches(&one.hosts[0], &one.hosts[1]).await);
        let (only, target) = (&other.hosts[0], &one.hosts[1]);
        assert!(!reaches(only, target).await, "the same addresses, another network");
        let holders: Vec<_> = one.hosts.iter().map(|host| host.0.namespace.path()).collect();
        drop(one);
        assert!(holders.iter().all(|path| !path.exists()), "{holders:?} are left behind");
    }
}
