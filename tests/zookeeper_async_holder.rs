//! A lock on the client `zookeeper-async`, by the recipe that everybody writes down: an ephemeral sequential node, and a watch on the one
//! before it. It does what `interop/kazoo_lock.py` does in Python.
//!
//!     zookeeper-async-holder HOSTS PATH TTL
//!     zookeeper-async-holder HOSTS PATH TTL COUNT FILE

#![expect(clippy::print_stdout, reason = "its output is its report")]

use std::{fs, time::Duration};

use tokio::{
    io::{AsyncBufReadExt, BufReader, Lines, Stdin},
    sync::oneshot,
};
use zookeeper_async::{Acl, CreateMode, WatchedEvent, ZkError, ZkResult, ZooKeeper};

struct Lock {
    client: ZooKeeper,
    path: String,
    node: String,
}

impl Lock {
    async fn connect(hosts: &str, path: &str, ttl: Duration) -> ZkResult<Self> {
        let client = ZooKeeper::connect(hosts, ttl, |_: WatchedEvent| {}).await?;
        let mut parent = String::new();
        for part in path.split('/').skip(1) {
            parent = format!("{parent}/{part}");
            match client.create(&parent, Vec::new(), Acl::open_unsafe().clone(), CreateMode::Persistent).await {
                Ok(_) | Err(ZkError::NodeExists) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Self { client, path: path.to_owned(), node: String::new() })
    }

    /// Says the number of the node's creation.
    async fn acquire(&mut self) -> ZkResult<i64> {
        let (prefix, acl) = (format!("{}/async-lock-", self.path), Acl::open_unsafe().clone());
        let (node, stat) = self.client.create2(&prefix, Vec::new(), acl, CreateMode::EphemeralSequential).await?;
        self.node = node;
        while let Some(before) = self.before().await? {
            let (gone, wait) = oneshot::channel();
            let watch = |_: WatchedEvent| _ = gone.send(());
            if self.client.exists_w(&format!("{}/{before}", self.path), watch).await?.is_some() {
                let _ = wait.await;
            }
        }
        Ok(stat.czxid)
    }

    async fn before(&self) -> ZkResult<Option<String>> {
        let number = |name: &String| name[name.len().saturating_sub(10)..].to_owned();
        let (own, mut names) = (number(&self.node), self.client.get_children(&self.path, false).await?);
        names.retain(|name| number(name) < own);
        Ok(names.into_iter().max_by_key(number))
    }

    async fn release(&self) -> ZkResult<()> {
        self.client.delete(&self.node, None).await
    }
}

type Input = Lines<BufReader<Stdin>>;

async fn obey(lock: &mut Lock, mut lines: Input) {
    while let Some(line) = lines.next_line().await.expect("it can be read") {
        if line == "lock" {
            println!("locked {}", lock.acquire().await.expect("granted"));
        } else {
            lock.release().await.expect("released");
            println!("released");
        }
    }
}

async fn cycle(lock: &mut Lock, count: u32, file: &str) {
    for _ in 0..count {
        lock.acquire().await.expect("granted");
        fs::File::options().write(true).create_new(true).open(file).expect("nobody else holds");
        fs::remove_file(file).expect("it is there");
        lock.release().await.expect("released");
    }
    println!("done");
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let [hosts, path, ttl, rest @ ..] = &arguments[..] else { panic!("write the hosts, the path, the ttl") };
    let ttl = Duration::from_secs(ttl.parse().expect("seconds"));
    let mut lock = Lock::connect(hosts, path, ttl).await.expect("connected");
    println!("ready");
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    match rest {
        [count, file] => {
            lines.next_line().await.expect("it can be read");
            cycle(&mut lock, count.parse().expect("a number"), file).await;
        }
        _ => obey(&mut lock, lines).await,
    }
    lock.client.close().await.expect("closed");
}
