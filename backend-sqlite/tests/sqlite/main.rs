//! The backend on real files, with real processes. Every wait has a limit.
#![cfg(target_os = "linux")]

use std::{future::Future, path::Path, time::Duration};

use tenure_core::{Backend, Clock, Config, ContenderId, Coordinator, Mode, Opened, Options, QueueName, Result};
use tenure_sqlite::SqliteBackend;
use tokio::time::timeout;

mod contract;
mod file;
mod handover;
mod time;
mod tokens;

/// Longer than anything here takes on a slow machine.
const LIMIT: Duration = Duration::from_secs(60);

async fn within<T>(work: impl Future<Output = T>) -> T {
    timeout(LIMIT, work).await.expect("it ends in time")
}

fn config(path: &Path) -> Config {
    let mut config = Config::new("sqlite");
    config.path = Some(path.to_owned());
    config
}

async fn connect(path: &Path) -> Result<SqliteBackend> {
    within(SqliteBackend::connect(&config(path), &Clock::system())).await
}

async fn backend(path: &Path) -> SqliteBackend {
    connect(path).await.expect("it opens")
}

async fn coordinator(path: &Path) -> Coordinator {
    Coordinator::new(backend(path).await, Options::default()).expect("good options")
}

async fn opened(backend: &SqliteBackend) -> Opened {
    within(backend.open(Duration::from_secs(10))).await.expect("a session")
}

/// Returns once nobody has the file open any more: a backend's thread closes it a moment after the last session was dropped.
async fn closed(path: &Path) {
    let log = path.with_extension("db-wal");
    within(async {
        while log.exists() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
}

fn name(text: &str) -> QueueName {
    QueueName::new(text).expect("a name")
}

fn id() -> ContenderId {
    ContenderId::random(Mode::Write)
}
