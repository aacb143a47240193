//! One server of ZooKeeper.

use std::{net::SocketAddr, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

use super::Operator;
use crate::{
    netns::Host,
    server::{Process, until},
};

const LIMIT: Duration = Duration::from_secs(1);

/// One server.
#[derive(Debug)]
pub struct Node {
    /// Its process, to stop and to kill.
    pub process: Process,
    /// Where clients connect to.
    pub client: SocketAddr,
    /// Where it runs, if not on this machine itself.
    pub(super) host: Option<Host>,
}

impl Node {
    /// Waits until a session can be opened at it, which takes a majority.
    pub async fn serves(&mut self, limit: Duration) -> bool {
        let (client, host, process) = (self.client, self.host.as_ref(), &mut self.process);
        let healthy = || async {
            let state = ask(host, client, "mntr").await.is_some_and(|said| value(&said, "server_state").is_some());
            state
                && match operator(host, client).await {
                    Some(operator) => operator.close().await,
                    None => false,
                }
        };
        tokio::select! {
            serves = until(limit, healthy) => serves,
            _ = until(limit, || std::future::ready(process.has_ended())) => false,
        }
    }

    /// Its answer to one of the commands of four letters, such as `stat`, `dump`, `wchc`; `None` if there is none soon.
    pub async fn ask(&self, command: &'static str) -> Option<String> {
        ask(self.host.as_ref(), self.client, command).await
    }

    /// One of its own counters, as `mntr` calls them, without `zk_`: `packets_received`, `watch_count`, `cnt_updatelatency` (the writes) ..
    pub async fn metric(&self, name: &str) -> Option<f64> {
        value(&self.ask("mntr").await?, name)?.parse().ok()
    }

    /// `leader`, `follower` or `standalone`; `None` if it is none of them.
    pub async fn state(&self) -> Option<String> {
        value(&self.ask("mntr").await?, "server_state").map(str::to_owned)
    }

    /// The number of the last change that it knows.
    pub async fn zxid(&self) -> Option<i64> {
        let said = self.ask("srvr").await?;
        let zxid = said.lines().find_map(|line| line.strip_prefix("Zxid: 0x"))?;
        i64::from_str_radix(zxid, 16).ok()
    }

    /// Connects to it; `None` if it does not let us in soon.
    pub async fn operator(&self) -> Option<Operator> {
        operator(self.host.as_ref(), self.client).await
    }
}

fn value<'a>(said: &'a str, name: &str) -> Option<&'a str> {
    said.lines().find_map(|line| line.strip_prefix("zk_")?.strip_prefix(name)?.strip_prefix('\t'))
}

async fn operator(host: Option<&Host>, client: SocketAddr) -> Option<Operator> {
    Operator::connect(connect(host, client).await?).await
}

/// From its own host, so that it is reached while it is cut off.
async fn connect(host: Option<&Host>, client: SocketAddr) -> Option<TcpStream> {
    let connecting = async move { timeout(LIMIT, TcpStream::connect(client)).await.ok()?.ok() };
    match host {
        Some(host) => host.run(connecting).await,
        None => connecting.await,
    }
}

async fn ask(host: Option<&Host>, client: SocketAddr, command: &'static str) -> Option<String> {
    let mut stream = connect(host, client).await?;
    let exchange = async {
        stream.write_all(command.as_bytes()).await.ok()?;
        let mut said = Vec::new();
        while stream.read_buf(&mut said).await.ok()? > 0 {
            // One that is about to start says this, and then forgets to hang up.
            if said.starts_with(b"This ZooKeeper instance is not currently serving requests") {
                return None;
            }
        }
        String::from_utf8(said).ok()
    };
    timeout(LIMIT, exchange).await.ok().flatten()
}
