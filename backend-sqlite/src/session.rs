//! A session: one row with an expiry, and the entries bound to it.

use std::{sync::Arc, time::Duration};

use rusqlite::{OptionalExtension, params};
use tenure_core::{
    Clock, Contender, ContenderId, DataKey, Datum, Edit, Entered, ErrorKind, Fence, FencedStore, Moment, Outcome,
    QueueName, Record, Result, Session, Snapshot, Version, Wake, async_trait, check_value, random_hex,
};
use tokio::task::JoinHandle;

use crate::{
    data::{self, OwnedEdit},
    entries,
    error::{Failure, config, refused},
    keys::{QueueKey, Stamp, token_of, unsigned},
    ledger::{Change, Ledger},
    rows,
    store::Store,
    wait,
    wake::{Mailbox, News, Waiters},
};

/// An open session.
#[derive(Debug)]
pub(crate) struct SqliteSession {
    pub(crate) store: Store,
    pub(crate) clock: Clock,
    pub(crate) id: Arc<str>,
    pub(crate) waiters: Waiters,
    namespace: Arc<str>,
    ttl: Duration,
    listening: JoinHandle<()>,
}

impl SqliteSession {
    /// Opens a session, and says until when it is certainly ours.
    pub(crate) async fn open(
        store: &Store,
        clock: &Clock,
        namespace: &Arc<str>,
        ttl: Duration,
    ) -> Result<(Self, Moment)> {
        let mailbox = Mailbox::open().map_err(|error| refused("make a wake-up socket for", store.path(), error))?;
        let (id, sent): (Arc<str>, _) = (random_hex().into(), clock.now());
        let row = Row { id: id.clone(), namespace: namespace.clone(), address: mailbox.address.clone(), ttl };
        store
            .call(move |ledger| {
                ledger.reopen_if_replaced()?;
                ledger.change(|change| row.insert(change))
            })
            .await?;
        let waiters = Waiters::default();
        let listening = tokio::spawn(wait::listen(store.clone(), mailbox, waiters.clone()));
        let (store, clock, namespace) = (store.clone(), clock.clone(), namespace.clone());
        Ok((Self { store, clock, id, waiters, namespace, ttl, listening }, sent + ttl))
    }

    pub(crate) fn key(&self, queue: &QueueName) -> QueueKey {
        QueueKey { namespace: self.namespace.clone(), name: queue.clone() }
    }

    /// A change that is refused once the session is over.
    pub(crate) async fn change<T: Send + 'static>(
        &self,
        act: impl FnOnce(&mut Change<'_>, &str) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T> {
        let id = self.id.clone();
        self.store.call(move |ledger| ledger.change_of(&id, |change| act(change, &id))).await
    }

    /// A look that is refused once the session is over.
    pub(crate) async fn look<T: Send + 'static>(
        &self,
        act: impl FnOnce(&rusqlite::Connection, &str) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T> {
        let id = self.id.clone();
        self.store.call(move |ledger| ledger.read(&id, |at| act(at, &id))).await
    }
}

/// A session that is about to be opened.
struct Row {
    id: Arc<str>,
    namespace: Arc<str>,
    address: String,
    ttl: Duration,
}

impl Row {
    fn insert(self, change: &Change<'_>) -> Result<(), Failure> {
        let Change { at, now, time_namespace, .. } = change;
        // Whoever is still there is of this boot. In another time namespace its boot lies at another time: neither can tell when the
        // other one's time is over.
        let foreign = at
            .prepare_cached("SELECT time_namespace FROM sessions WHERE time_namespace <> ?")?
            .query_row([time_namespace], |row| row.get::<_, String>(0))
            .optional()?;
        if let Some(foreign) = foreign {
            return Err(config(format!(
                "this process is in the time namespace {time_namespace}, but the database is in use from {foreign}, where the time since \
                 the boot is another: run all its users in one time namespace, or write another path"
            ))
            .into());
        }
        let end = Stamp::expiry(*now + self.ttl);
        at.prepare_cached(
            "INSERT INTO sessions (id, namespace, boot, time_namespace, expires_ms, address) VALUES (?, ?, ?, ?, ?, ?)",
        )?
        .execute(params![self.id, self.namespace, end.boot, time_namespace, end.ms, self.address])?;
        Ok(())
    }
}

impl Drop for SqliteSession {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

#[async_trait]
impl Session for SqliteSession {
    async fn keep_alive(&self) -> Result<Moment> {
        // What is stored counts from later, inside the change; what is told counts from now.
        let (ttl, sent) = (self.ttl, self.clock.now());
        self.change(move |change, session| {
            let end = Stamp::expiry(change.now + ttl);
            change
                .at
                .prepare_cached("UPDATE sessions SET expires_ms = max(expires_ms, ?) WHERE id = ?")?
                .execute(params![end.ms, session])?;
            Ok(())
        })
        .await?;
        Ok(sent + ttl)
    }

    async fn enter(&self, queue: &QueueName, id: &ContenderId, value: &[u8]) -> Result<Entered> {
        check_value(queue, value)?;
        let (queue, id, value) = (self.key(queue), id.clone(), value.to_vec());
        self.change(move |change, session| entries::enter(change, session, &queue, &id, &value)).await
    }

    async fn list(&self, queue: &QueueName) -> Result<Snapshot> {
        let queue = self.key(queue);
        self.look(move |at, _| Ok(rows::snapshot(at, &queue)?)).await
    }

    async fn wait(&self, queue: &QueueName, seen: &Snapshot, wake: Wake<'_>) -> Result<()> {
        wait::wait(self, self.key(queue), seen, wake).await
    }

    async fn leave(&self, queue: &QueueName, id: &ContenderId) -> Result<()> {
        let (queue, id) = (self.key(queue), id.clone());
        let gone = self.change(move |change, session| entries::leave(change, session, &queue, &id)).await?;
        // Others are told by datagram, but in this session somebody may wait for it without standing behind it.
        gone.into_iter().for_each(|token| self.waiters.tell(News::Gone(token)));
        Ok(())
    }

    async fn read(&self, queue: &QueueName, who: &Contender) -> Result<Option<Record>> {
        let (queue, token) = (self.key(queue), token_of(who)?);
        self.look(move |at, _| Ok(rows::record(at, &queue, token)?)).await
    }

    async fn write(&self, queue: &QueueName, id: &ContenderId, version: Version, value: &[u8]) -> Result<Version> {
        check_value(queue, value)?;
        let (queue, id, value) = (self.key(queue), id.clone(), value.to_vec());
        self.change(move |change, session| entries::write(change, session, &queue, &id, version, value)).await
    }

    async fn settle_token_base(&self, base: u64) -> Result<u64> {
        let namespace = self.namespace.clone();
        let wanted = i64::try_from(base).map_err(|_| {
            config(format!("token_base = {base} is more than SQLite can count: write at most {}", i64::MAX))
        })?;
        self.change(move |change, session| {
            change.at.execute(
                "INSERT OR IGNORE INTO namespaces (name, token_base) VALUES (?, ?)",
                params![namespace, wanted],
            )?;
            change.at.execute(
                "UPDATE namespaces SET token_base = max(token_base, ?1) WHERE name = ?2
                 AND NOT EXISTS (SELECT 1 FROM sessions WHERE namespace = ?2 AND id <> ?3)",
                params![wanted, namespace, session],
            )?;
            let sql = "SELECT token_base FROM namespaces WHERE name = ?";
            Ok(unsigned(change.at.query_row(sql, [&namespace], |row| row.get(0))?))
        })
        .await
    }

    async fn close(&self) -> Result<()> {
        let id = self.id.clone();
        match self.store.call(move |ledger: &mut Ledger| ledger.change(|change| Ok(change.end_session(&id)?))).await {
            Err(error) if error.kind() == ErrorKind::SessionLost => Ok(()), // with the file that it was in
            answer => answer,
        }
    }

    fn fenced(&self) -> Option<&dyn FencedStore> {
        Some(self)
    }
}

#[async_trait]
impl FencedStore for SqliteSession {
    async fn get(&self, queue: &QueueName, key: &DataKey) -> Result<Option<Datum>> {
        let (queue, key) = (self.key(queue), key.clone());
        self.look(move |at, _| Ok(data::datum(at, &queue, &key)?)).await
    }

    /// A session that is over is no failure here: its entries go first, and so the edit is refused.
    async fn edit(&self, fence: Fence<'_>, edit: Edit<'_>) -> Result<Outcome> {
        let (edit, id) = (OwnedEdit::new(self.key(fence.queue), fence, edit)?, self.id.clone());
        self.store.call(move |ledger: &mut Ledger| edit.apply(ledger, &id)).await
    }
}
