//! Marks that survive a restart: one SQLite file.

use std::{fmt, path::Path, thread, time::Duration};

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior, params};
use tenure_core::{Error, ErrorKind, FencingToken};
use tokio::sync::{mpsc, oneshot};

use super::marks::Marks;
use crate::{Fenced, Refusal};

/// The marks in a file: a mark is on the disk when it has been raised, and outlives a loss of power. Several processes of one host may share
/// it. A token that is no higher than the mark costs no write; those that are raised at the same time are written together.
///
/// There is one row for each resource that was ever seen, and none is forgotten: let nobody name resources who may not use them.
pub struct SqliteMarks {
    asked: mpsc::UnboundedSender<Ask>,
}

struct Ask {
    resource: String,
    token: FencingToken,
    answer: oneshot::Sender<Answer>,
}

type Answer = Result<(), Refusal<Error>>;

impl SqliteMarks {
    /// Opens a file, and makes it if it is not there.
    ///
    /// # Errors
    /// `Unavailable` with what SQLite says.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        let connection = connect(path.as_ref()).map_err(failed)?;
        let (asked, asks) = mpsc::unbounded_channel();
        // A thread of its own, which ends with us: each write waits for the disk.
        let spawned = thread::Builder::new().name("fence-marks".to_owned()).spawn(move || serve(connection, asks));
        spawned.map_err(|error| Error::new(ErrorKind::Unavailable, "no thread for the marks").with_source(error))?;
        Ok(Self { asked })
    }
}

impl fmt::Debug for SqliteMarks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteMarks").finish_non_exhaustive()
    }
}

#[async_trait]
impl Marks for SqliteMarks {
    async fn raise(&self, resource: &str, token: FencingToken) -> Answer {
        let (answer, answered) = oneshot::channel();
        let gone = || Error::new(ErrorKind::Unavailable, "the thread of the marks has ended");
        self.asked.send(Ask { resource: resource.to_owned(), token, answer }).map_err(|_| gone())?;
        answered.await.map_err(|_| gone())?
    }
}

fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let connection = Connection::open(path)?;
    connection.busy_timeout(Duration::from_secs(5))?;
    connection.pragma_update(None, "journal_mode", "wal")?;
    // With less, a loss of power may take back what was said to be stored.
    connection.pragma_update(None, "synchronous", "full")?;
    // Text, for a token does not fit into an integer of SQLite.
    connection.execute_batch(
        "CREATE TABLE IF NOT EXISTS fence_marks (resource TEXT PRIMARY KEY, token TEXT NOT NULL) WITHOUT ROWID",
    )?;
    Ok(connection)
}

fn serve(mut connection: Connection, mut asks: mpsc::UnboundedReceiver<Ask>) {
    const TOGETHER: usize = 256;
    let mut batch = Vec::new();
    while asks.blocking_recv_many(&mut batch, TOGETHER) > 0 {
        let answers = raise_all(&mut connection, &batch);
        for (at, ask) in batch.drain(..).enumerate() {
            // Said only now, when all of them are on the disk. Who has gone away needs no answer.
            let _ = ask.answer.send(match &answers {
                Ok(highest) if highest[at] > ask.token => {
                    Err(Refusal::Fenced(Fenced { resource: ask.resource, token: ask.token, winner: highest[at] }))
                }
                Ok(_) => Ok(()),
                Err(error) => Err(failed(error.to_string()).into()),
            });
        }
    }
}

/// The highest token of each, after it was raised.
fn raise_all(connection: &mut Connection, batch: &[Ask]) -> rusqlite::Result<Vec<FencingToken>> {
    // Immediate: between the look and the write no other process may raise it.
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let highest = batch.iter().map(|ask| raise(&transaction, ask)).collect::<rusqlite::Result<_>>()?;
    transaction.commit()?;
    Ok(highest)
}

fn raise(transaction: &Transaction<'_>, Ask { resource, token, .. }: &Ask) -> rusqlite::Result<FencingToken> {
    let mut look = transaction.prepare_cached("SELECT token FROM fence_marks WHERE resource = ?1")?;
    let mark: Option<String> = look.query_row([resource], |row| row.get(0)).optional()?;
    let mark = mark.map(|text| text.parse::<FencingToken>()).transpose();
    let mark = mark.map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))?;
    if let Some(mark) = mark.filter(|mark| mark >= token) {
        return Ok(mark);
    }
    let mut write =
        transaction.prepare_cached("INSERT OR REPLACE INTO fence_marks (resource, token) VALUES (?1, ?2)")?;
    write.execute(params![resource, token.to_string()])?;
    Ok(*token)
}

fn failed(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::new(ErrorKind::Unavailable, "cannot store the mark of the fence").with_source(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn marks_outlive_the_process_and_are_shared() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("marks.db");
        let (old, new) = (FencingToken::new(7), FencingToken::new(u64::MAX));
        let first = SqliteMarks::open(&path).expect("opens");
        first.raise("a", old).await.expect("the first");
        first.raise("a", old).await.expect("the same holder");
        let second = SqliteMarks::open(&path).expect("opens");
        second.raise("a", new).await.expect("a newer one");
        drop(second);
        assert_eq!(first.raise("a", old).await.expect_err("too old").fenced().expect("by the fence").winner, new);
        drop(first);
        let third = SqliteMarks::open(&path).expect("opens");
        assert_eq!(third.raise("a", old).await.expect_err("too old").fenced().expect("by the fence").winner, new);
        third.raise("b", old).await.expect("another resource");
    }

    #[tokio::test]
    async fn a_mark_that_cannot_be_stored_lets_nobody_pass() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("marks.db");
        let marks = SqliteMarks::open(&path).expect("opens");
        Connection::open(&path).and_then(|other| other.execute("DROP TABLE fence_marks", [])).expect("spoilt");
        assert!(matches!(marks.raise("a", FencingToken::new(1)).await, Err(Refusal::Failed(_))));
    }
}
