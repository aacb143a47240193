//! Our lock on ZooKeeper as a program: does what `interop/kazoo_lock.py` does in Python.
//!
//!     zk-holder HOSTS PATH TTL
//!     zk-holder HOSTS PATH TTL COUNT FILE

#![expect(clippy::print_stdout, reason = "its output is its report")]

use std::fs;

use tenure_core::{Config, Coordinator};
use tokio::io::{AsyncBufReadExt, BufReader, Lines, Stdin};

type Input = Lines<BufReader<Stdin>>;

async fn obey(coordinator: &Coordinator, name: &str, mut lines: Input) {
    let mut held = None;
    while let Some(line) = lines.next_line().await.expect("it can be read") {
        if line == "lock" {
            let guard = coordinator.lock(name).await.expect("granted");
            println!("locked {}", guard.token());
            held = Some(guard);
        } else if let Some(guard) = held.take() {
            guard.release().await.expect("released");
            println!("released");
        }
    }
}

async fn cycle(coordinator: &Coordinator, name: &str, count: u32, file: &str) {
    for _ in 0..count {
        let guard = coordinator.lock(name).await.expect("granted");
        fs::File::options().write(true).create_new(true).open(file).expect("nobody else holds");
        fs::remove_file(file).expect("it is there");
        guard.release().await.expect("released");
    }
    println!("done");
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let [hosts, path, ttl, rest @ ..] = &arguments[..] else { panic!("write the hosts, the path, the ttl") };
    let (namespace, name) = path.rsplit_once('/').expect("a path");
    let config: Config = format!("zk://{hosts}{namespace}?ttl={ttl}s").parse().expect("a URL");
    let coordinator = tenure::drivers().connect(&config).await.unwrap_or_else(|error| panic!("{}", error.report()));
    println!("ready");
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    match rest {
        [count, file] => {
            lines.next_line().await.expect("it can be read");
            cycle(&coordinator, name, count.parse().expect("a number"), file).await;
        }
        _ => obey(&coordinator, name, lines).await,
    }
    coordinator.close().await.expect("closed");
}
