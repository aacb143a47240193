//! A process that uses a SQLite file, as tests tell it: `attempt`, `attempt-default`, `once`, `hold` or `churn`, and the path.

use std::{path::Path, time::Duration};

use tenure_core::{Backend, ContenderId, Coordinator, Drivers, Mode, QueueName, Result};
use tenure_sqlite::SqliteDriver;
use tenure_tests::on_sqlite::{TTL, coordinator, sqlite};

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let words: Vec<_> = std::env::args().skip(1).collect();
    let [what, path] = &words[..] else { panic!("sqlite_process WHAT PATH") };
    let path = Path::new(path);
    match what.as_str() {
        "attempt" => say(attempt(path).await),
        "attempt-default" => say(attempt_default().await),
        "once" => once(&coordinator(path, Duration::from_secs(10)).await).await,
        "hold" => hold(&coordinator(path, TTL).await).await,
        "churn" => churn(path).await,
        other => panic!("what is {other}?"),
    }
}

/// Opens the file and takes the lock; says how that went.
fn say(outcome: Result<String>) {
    match outcome {
        Ok(token) => println!("outcome token {token}"),
        Err(error) => println!("outcome {:?}: {error}", error.kind()),
    }
}

async fn attempt(path: &Path) -> Result<String> {
    sqlite(path).await?;
    Ok(coordinator(path, Duration::from_secs(10)).await.lock("q").await?.token().to_string())
}

async fn attempt_default() -> Result<String> {
    let coordinator = Drivers::new().with(SqliteDriver).connect(&"sqlite:".parse()?).await?;
    Ok(coordinator.lock("q").await?.token().to_string())
}

/// One whole run of a program.
async fn once(coordinator: &Coordinator) {
    let guard = coordinator.lock("q").await.expect("granted");
    println!("token {}", guard.token());
    guard.release().await.expect("released");
    coordinator.close().await.expect("closed");
}

/// Holds until it is killed.
async fn hold(coordinator: &Coordinator) {
    let guard = coordinator.lock("q").await.expect("granted");
    println!("token {}", guard.token());
    tokio::time::sleep(Duration::from_secs(600)).await;
}

/// Enters and leaves as fast as it can, and says each token, until it is killed.
async fn churn(path: &Path) {
    let session = sqlite(path).await.expect("it opens").open(TTL).await.expect("a session").session;
    let queue = QueueName::new("q").expect("a good name");
    loop {
        let id = ContenderId::random(Mode::Write);
        println!("token {}", session.enter(&queue, &id, b"").await.expect("entered").token);
        session.leave(&queue, &id).await.expect("left");
    }
}
