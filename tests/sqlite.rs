//! The suite on SQLite: each client opens the file for itself, as another process would.

use std::{path::PathBuf, sync::Arc};

use tempfile::TempDir;
use tenure_conformance::Harness;
use tenure_core::{Backend, Clock, Config, ContenderId, QueueName, async_trait};
use tenure_sqlite::SqliteBackend;

struct Sqlite {
    folder: TempDir,
}

impl Sqlite {
    async fn new() -> Self {
        Self { folder: tempfile::tempdir().expect("a folder") }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("tenure.db")
    }
}

#[async_trait]
impl Harness for Sqlite {
    async fn client(&self) -> Arc<dyn Backend> {
        let config: Config = format!("sqlite:{}?namespace=suite", self.path().display()).parse().expect("a good URL");
        Arc::new(SqliteBackend::connect(&config, &Clock::system()).await.expect("it opens"))
    }

    async fn remove(&self, queue: &QueueName, id: &ContenderId) {
        let database = rusqlite::Connection::open(self.path()).expect("it opens");
        database.busy_timeout(std::time::Duration::from_secs(5)).expect("it waits");
        let sql = "DELETE FROM entries WHERE namespace = 'suite' AND queue = ? AND id = ?";
        assert_eq!(database.execute(sql, [queue.as_str(), id.as_str()]).expect("it deletes"), 1);
    }
}

tenure_conformance::conformance! {
    harness: Sqlite::new(),
    excused: [],
}
