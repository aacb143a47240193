//! Opening the database: whose it is, how it is to be written, and its tables.

use std::{
    path::Path,
    thread,
    time::{Duration, Instant},
};

use rusqlite::{Connection, OpenFlags, TransactionBehavior};
use tenure_core::{Error, ErrorKind, Result};

use crate::{
    error::{Failure, config},
    file::DatabaseFile,
};

/// `TNRE`: tells our databases from those of other programs.
const APPLICATION_ID: i64 = 0x544e_5245;
/// What each layout adds to the one before. A layout that was released is never changed: a file of any of them is brought up to date when it
/// is opened.
const LAYOUTS: [&str; 2] = [include_str!("../schema.sql"), include_str!("../schema-2.sql")];

/// Opens the database at a path, and makes it if there is none. Ends within `limit`, or soon after.
///
/// When many processes start at once, SQLite answers "busy" without waiting while one of them turns the log on, and a file may be
/// replaced between the look at it and the opening: both are tried again.
pub(crate) fn open(path: &Path, private: bool, limit: Duration) -> Result<(Connection, DatabaseFile)> {
    let started = Instant::now();
    loop {
        let file = DatabaseFile::prepare(path, private)?;
        let failure = match connect(path) {
            Ok(connection) if file.is_in_place() => return Ok((connection, file)),
            Ok(_) => Failure::Told(Error::new(
                ErrorKind::Unavailable,
                format!("{} was replaced while opening it", path.display()),
            )),
            Err(failure) if failure.is_busy() || !file.is_in_place() => failure,
            Err(failure) => return Err(failure.on(path)),
        };
        if started.elapsed() >= limit {
            return Err(failure.on(path));
        }
        thread::sleep(Duration::from_millis(10));
    }
}

fn connect(path: &Path) -> Result<Connection, Failure> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_EXRESCODE;
    let mut connection = Connection::open_with_flags(path, flags)?;
    connection.busy_handler(Some(is_worth_waiting))?;
    // Asked before anything is changed, as it may be somebody else's; and in one snapshot, as another process may be creating it.
    let found = layout(&*connection.transaction()?, path)?;
    let mode: String = connection.pragma_update_and_check(None, "journal_mode", "wal", |row| row.get(0))?;
    if mode != "wal" {
        let message = format!(
            "the file system of {} cannot share memory, which SQLite's log needs: write a path on a local disk",
            path.display()
        );
        return Err(config(message).into());
    }
    // Anything less may forget the last commits in a power loss, and give their tokens again.
    connection.pragma_update(None, "synchronous", "full")?;
    connection.pragma_update(None, "foreign_keys", true)?;
    if found < LAYOUTS.len() {
        bring_up_to_date(&mut connection, path)?;
    }
    Ok(connection)
}

/// Waits a little for the writes of other processes, about a second in all; core tries again after that. SQLite's own pauses grow to a
/// tenth of a second, in which others come and go: with fifty writers one of them gets nothing done for seconds.
fn is_worth_waiting(pauses: i32) -> bool {
    thread::sleep(Duration::from_millis(u64::try_from(pauses).unwrap_or(0).clamp(1, 5)));
    pauses < 200
}

/// Those who have the file open with an older program go on: nothing that they know changes.
fn bring_up_to_date(connection: &mut Connection, path: &Path) -> Result<(), Failure> {
    let change = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let found = layout(&change, path)?; // another process may have done it meanwhile
    if found < LAYOUTS.len() {
        LAYOUTS[found..].iter().try_for_each(|layout| change.execute_batch(layout))?;
        change.pragma_update(None, "application_id", APPLICATION_ID)?;
        change.pragma_update(None, "user_version", i64::try_from(LAYOUTS.len()).unwrap_or(i64::MAX))?;
    }
    Ok(change.commit()?)
}

/// Which layout the database has; 0 if there is nothing in it yet.
fn layout(connection: &Connection, path: &Path) -> Result<usize, Failure> {
    let number = |sql| connection.query_row(sql, [], |row| row.get::<_, i64>(0));
    let application = number("PRAGMA application_id")?;
    let version = number("PRAGMA user_version")?;
    let (path, known) = (path.display(), LAYOUTS.len());
    match (application, usize::try_from(version)) {
        (APPLICATION_ID, Ok(version)) if (1..=known).contains(&version) => Ok(version),
        (APPLICATION_ID, Ok(newer)) if newer > known => Err(config(format!(
            "{path} was made by a newer version of tenure (layout {newer}, this one knows {known}): upgrade, or write another path"
        ))
        .into()),
        (0, Ok(0)) if number("SELECT count(*) FROM sqlite_schema")? == 0 => Ok(0),
        _ => Err(config(format!("{path} is the database of another program: write the path of a new file")).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_power_loss_may_forget_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        for _ in ["new", "there already"] {
            let (connection, _) = open(&folder.path().join("x.db"), false, Duration::from_secs(5)).expect("it opens");
            let number = |sql| connection.query_row(sql, [], |row| row.get::<_, i64>(0)).expect("a number");
            assert_eq!((number("PRAGMA synchronous"), number("PRAGMA foreign_keys")), (2, 1));
            let mode: String = connection.query_row("PRAGMA journal_mode", [], |row| row.get(0)).expect("a mode");
            assert_eq!(mode, "wal");
        }
    }
}
