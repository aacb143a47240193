//! The database as the thread that owns it works with it: reading under one snapshot, changing under the write lock.

use std::{fs, os::unix::net::UnixDatagram};

use rusqlite::{Connection, Transaction, TransactionBehavior};
use tenure_core::{Clock, Moment, Result};

use crate::{
    config::Settings,
    error::{Failure, refused, session_over},
    file::DatabaseFile,
    keys::{QueueKey, Stamp},
    rows::{self, Removed},
    schema,
    wake::{self, News, Outbox},
};

/// The open database.
#[derive(Debug)]
pub(crate) struct Ledger {
    settings: Settings,
    connection: Connection,
    file: DatabaseFile,
    clock: Clock,
    time_namespace: String,
    socket: UnixDatagram,
}

impl Ledger {
    pub(crate) fn open(settings: Settings, clock: Clock) -> Result<Self> {
        let (connection, file) = schema::open(&settings.path, settings.private, settings.connect_timeout)?;
        let socket = wake::sender().map_err(|error| refused("make the wake-up socket for", file.path(), error))?;
        Ok(Self { settings, connection, file, clock, time_namespace: time_namespace(), socket })
    }

    /// Opens the file that is in place now, if it is another one: sessions of the old one are not found in it, and are over.
    pub(crate) fn reopen_if_replaced(&mut self) -> Result<()> {
        if !self.file.is_in_place() {
            let Settings { path, private, connect_timeout, .. } = &self.settings;
            (self.connection, self.file) = schema::open(path, *private, *connect_timeout)?;
        }
        Ok(())
    }

    /// The number of the last change, if the file is still ours.
    pub(crate) fn revision(&mut self) -> Result<u64> {
        self.file.check()?;
        rows::revision(&self.connection).map_err(|error| Failure::from(error).on(self.file.path()))
    }

    /// Reads under one snapshot, for a session that is not over.
    pub(crate) fn read<T>(&mut self, session: &str, act: impl FnOnce(&Connection) -> Result<T, Failure>) -> Result<T> {
        self.file.check()?;
        let now = Stamp::present(self.clock.now());
        let read = || {
            let at = self.connection.unchecked_transaction()?;
            // Only its own keep-alive could extend it, and that runs on this thread: this is no race.
            match rows::session_end(&at, session)? {
                Some(end) if end.boot == now.boot && end.ms > now.ms => act(&at),
                _ => Err(session_over().into()),
            }
        };
        read().map_err(|failure: Failure| failure.on(self.file.path()))
    }

    /// Changes something: all of it or nothing. Sessions that are over go first, so whoever is still there is alive; those whom the
    /// change concerns are told once it is committed.
    pub(crate) fn change<T>(&mut self, act: impl FnOnce(&mut Change<'_>) -> Result<T, Failure>) -> Result<T> {
        self.file.check()?;
        let Self { connection, file, clock, time_namespace, socket, .. } = self;
        let changed = change(connection, clock, time_namespace, act);
        let (answer, outbox) = changed.map_err(|failure| failure.on(file.path()))?;
        outbox.send(socket);
        Ok(answer)
    }

    /// As [`Ledger::change`], for a session that is not over.
    pub(crate) fn change_of<T>(
        &mut self,
        session: &str,
        act: impl FnOnce(&mut Change<'_>) -> Result<T, Failure>,
    ) -> Result<T> {
        self.change(|change| match rows::session_end(&change.at, session)? {
            Some(_) => act(change),
            None => Err(session_over().into()),
        })
    }
}

fn change<T>(
    connection: &mut Connection,
    clock: &Clock,
    time_namespace: &str,
    act: impl FnOnce(&mut Change<'_>) -> Result<T, Failure>,
) -> Result<(T, Outbox), Failure> {
    let at = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Read under the write lock: what is not over by now cannot be extended behind our back.
    let now = clock.now();
    let mut change = Change { at, now, time_namespace, outbox: Outbox::default() };
    for session in rows::over(&change.at, &Stamp::present(now), time_namespace)? {
        change.end_session(&session)?;
    }
    let answer = act(&mut change)?;
    let Change { at, outbox, .. } = change;
    at.commit()?;
    Ok((answer, outbox))
}

/// A change under the write lock, and the news of it.
#[derive(Debug)]
pub(crate) struct Change<'a> {
    pub(crate) at: Transaction<'a>,
    pub(crate) now: Moment,
    pub(crate) time_namespace: &'a str,
    outbox: Outbox,
}

impl Change<'_> {
    /// Removes a session with its entries.
    pub(crate) fn end_session(&mut self, session: &str) -> rusqlite::Result<()> {
        let removed = rows::remove_entries(&self.at, session)?;
        self.at.prepare_cached("DELETE FROM sessions WHERE id = ?")?.execute([session])?;
        removed.iter().try_for_each(|gone| self.tell_gone(gone))
    }

    /// Tells those who stand behind an entry that it has gone, and those who watch its queue.
    pub(crate) fn tell_gone(&mut self, gone: &Removed) -> rusqlite::Result<()> {
        for address in rows::behind(&self.at, gone)? {
            self.outbox.add(address, News::Gone(gone.token));
        }
        self.tell_watching(&gone.namespace, &gone.queue)
    }

    /// Tells those who watch a queue that it has changed.
    pub(crate) fn tell_changed(&mut self, queue: &QueueKey) -> rusqlite::Result<()> {
        self.tell_watching(&queue.namespace, queue.name.as_str())
    }

    fn tell_watching(&mut self, namespace: &str, queue: &str) -> rusqlite::Result<()> {
        for (number, address) in rows::watching(&self.at, namespace, queue)? {
            self.outbox.add(address, News::Watched(number));
        }
        Ok(())
    }
}

/// What tells time namespaces apart: in each the time since the boot may be another.
fn time_namespace() -> String {
    fs::read_link("/proc/self/ns/time")
        .map_or_else(|_| "unknown".to_owned(), |name| name.to_string_lossy().into_owned())
}
