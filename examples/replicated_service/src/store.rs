//! The protected resource: it refuses a token lower than the highest it has seen, whoever brings it and however late.

use std::{path::Path, sync::Mutex, sync::PoisonError, time::Duration};

use rusqlite::{Connection, Result, Transaction, TransactionBehavior, params};
use tenure::FencingToken;

/// Notes in a file that all replicas share.
#[derive(Debug)]
pub(crate) struct Store(Mutex<Connection>);

/// A later leader has been here.
#[derive(Debug)]
pub(crate) struct Stale;

impl Store {
    pub(crate) fn open(file: impl AsRef<Path>) -> Result<Self> {
        let connection = Connection::open(file)?;
        connection.busy_timeout(Duration::from_secs(5))?;
        connection.execute_batch(
            "CREATE TABLE IF NOT EXISTS notes (number INTEGER PRIMARY KEY, token INTEGER NOT NULL, note TEXT NOT NULL) STRICT;
             CREATE TABLE IF NOT EXISTS fence (one INTEGER PRIMARY KEY CHECK (one = 1), token INTEGER NOT NULL) STRICT;
             INSERT OR IGNORE INTO fence VALUES (1, 0);",
        )?;
        Ok(Self(Mutex::new(connection)))
    }

    pub(crate) fn add(&self, token: FencingToken, note: &str) -> Result<Result<(), Stale>> {
        self.fenced(token, |transaction, token| {
            transaction.execute("INSERT INTO notes (token, note) VALUES (?1, ?2)", params![token, note]).map(drop)
        })
    }

    /// All notes, each with the token of the leader that took it.
    pub(crate) fn all(&self, token: FencingToken) -> Result<Result<Vec<(i64, String)>, Stale>> {
        self.fenced(token, |transaction, _| {
            let mut notes = transaction.prepare("SELECT token, note FROM notes ORDER BY number")?;
            notes.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
        })
    }

    /// Reads raise the fence as well: else an older leader could still write what a newer one has not read.
    fn fenced<T>(
        &self,
        token: FencingToken,
        work: impl FnOnce(&Transaction<'_>, i64) -> Result<T>,
    ) -> Result<Result<T, Stale>> {
        let token = i64::try_from(token.get()).unwrap_or(i64::MAX);
        let mut connection = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        if transaction.execute("UPDATE fence SET token = ?1 WHERE token <= ?1", [token])? == 0 {
            return Ok(Err(Stale));
        }
        let done = work(&transaction, token)?;
        transaction.commit()?;
        Ok(Ok(done))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_leader_is_refused_once_a_newer_one_has_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = Store::open(folder.path().join("notes.db")).expect("opened");
        let (old, new) = (FencingToken::new(3), FencingToken::new(4));
        assert!(store.add(old, "a").expect("written").is_ok());
        assert_eq!(store.all(new).expect("read").expect("admitted"), [(3, "a".to_owned())]);
        assert!(store.add(old, "late").expect("asked").is_err());
        assert!(store.add(new, "b").expect("written").is_ok());
        assert_eq!(store.all(new).expect("read").expect("admitted").len(), 2);
    }
}
