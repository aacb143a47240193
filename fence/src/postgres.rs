//! Postgres, through `tokio-postgres`. The database needs [`SQL`], once: [`install`] puts it there.
//!
//! Whoever has passed [`Fence::raise`] in a transaction reads and writes in it what no older holder changes any more, at every isolation
//! level. The limits: it protects what comes after it in the same transaction; and the next holder **waits** for a transaction that is
//! still open, so set a limit for a holder that is paused inside ([`Fence::with_idle_limit`]).
//!
//! Nothing here depends on a session: it works through a pooler in transaction mode.
//!
//! ```no_run
//! # async fn book(coordinator: tenure_core::Coordinator, mut client: tokio_postgres::Client) -> Result<(), Box<dyn std::error::Error>> {
//! use tenure_fence::postgres::Fence;
//!
//! let guard = coordinator.lock("invoices").await?;
//! let fence = Fence::new("invoices");
//! let transaction = fence.begin(&mut client, guard.token()).await?;   // refused, if a newer holder has been here
//! let next: i64 = transaction.query_one("SELECT max(number) + 1 FROM invoices", &[]).await?.get(0);
//! transaction.execute("INSERT INTO invoices (number) VALUES ($1)", &[&next]).await?;
//! transaction.commit().await?;
//! # Ok(())
//! # }
//! ```
//!
//! # Isolation levels
//! Under `READ COMMITTED` the fence waits for an older holder's open transaction and goes on. Under `REPEATABLE READ` and `SERIALIZABLE` it
//! fails with `40001` if somebody else's transaction ended meanwhile, for the transaction would read what was there before: begin again.
//! Raise several fences in one order everywhere, or two transactions may wait for each other until Postgres ends one (`40P01`).

use std::time::Duration;

use futures_util::future;
use tenure_core::FencingToken;
use tokio_postgres::{
    Client, Error, GenericClient, Transaction,
    types::{ToSql, Type},
};

use crate::{Fenced, Refusal, SQL, SQLSTATE};

/// Installs [`SQL`]. Harmless if it is there, and if others do the same at that time.
///
/// # Errors
/// What the database says: the role needs the right to create a schema.
pub async fn install(client: &impl GenericClient) -> Result<(), Error> {
    client.batch_execute(SQL).await
}

/// The winning token, if a fence of [`SQL`] made this error: `tenure.fence`, or the trigger `tenure.fence_row`.
pub fn winner(error: &Error) -> Option<FencingToken> {
    let error = error.as_db_error()?;
    (error.code().code() == SQLSTATE).then(|| error.detail()?.parse().ok()).flatten()
}

/// The fence of one resource: a name that all its holders agree on.
#[derive(Clone, Debug)]
pub struct Fence {
    resource: String,
    idle: Option<Duration>,
}

impl Fence {
    // Text, for the token does not fit into a bigint.
    const RAISE: &str = "SELECT tenure.fence($1, $2::numeric)";
    const RAISE_AND_LIMIT: &str =
        "SELECT tenure.fence($1, $2::numeric), set_config('idle_in_transaction_session_timeout', $3, true)";

    /// The fence of this resource.
    pub fn new(resource: impl Into<String>) -> Self {
        Self { resource: resource.into(), idle: None }
    }

    /// Lets the database end a transaction that has passed the fence and then says nothing for so long. Without it, a holder that is
    /// paused inside a transaction keeps its successor waiting until it wakes up; with it, that holder's work is rolled back. The ttl of
    /// the lock is a good limit.
    #[must_use]
    pub fn with_idle_limit(mut self, limit: Duration) -> Self {
        self.idle = Some(limit);
        self
    }

    /// Passes the fence, and raises it: for the length of the transaction, and for good once that commits. **Call it before the first
    /// read.** One round trip; none, if it is sent with something else ([`Fence::raise_with`]).
    ///
    /// # Errors
    /// `Fenced` if a newer holder has been there: the transaction is aborted then. Otherwise what the database says; `40001` and `40P01`
    /// mean to begin again.
    ///
    /// # Cancel safety
    /// The fence may be raised or not, as after any statement that is dropped: drop the transaction too.
    pub async fn raise(&self, transaction: &Transaction<'_>, token: FencingToken) -> Result<(), Refusal<Error>> {
        let (number, limit) = (token.to_string(), self.limit());
        let parameters = parameters(&self.resource, &number, limit.as_ref());
        transaction.query_typed(self.statement(), &parameters).await.map_err(|error| self.refusal(token, error))?;
        Ok(())
    }

    /// Sends the fence and the first statement together, so that the fence costs no round trip. `first` is not yet polled: a statement
    /// that was prepared before, or `query_typed` (preparing takes a round trip of its own).
    ///
    /// # Errors
    /// As [`Fence::raise`]; if that passes, what `first` says.
    ///
    /// # Cancel safety
    /// As [`Fence::raise`].
    pub async fn raise_with<T>(
        &self,
        transaction: &Transaction<'_>,
        token: FencingToken,
        first: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Refusal<Error>> {
        // Polled, and so sent, in this order.
        let (raised, first) = future::join(self.raise(transaction, token), first).await;
        raised?;
        first.map_err(|error| self.refusal(token, error))
    }

    /// Begins a transaction with the fence as its first statement. Nothing counts before its `commit`.
    ///
    /// # Errors
    /// As [`Fence::raise`].
    ///
    /// # Cancel safety
    /// The transaction is rolled back.
    pub async fn begin<'c>(
        &self,
        client: &'c mut Client,
        token: FencingToken,
    ) -> Result<Transaction<'c>, Refusal<Error>> {
        let transaction = client.transaction().await?;
        self.raise(&transaction, token).await?;
        Ok(transaction)
    }

    /// One statement behind the fence, in a transaction of its own, **all in one round trip**. The number of rows that it changed.
    ///
    /// # Errors
    /// `Fenced`, and then the statement did nothing. Otherwise what the database says: if the connection broke, it may have been done.
    ///
    /// # Cancel safety
    /// Once polled, it is done or refused as a whole, without an answer.
    pub async fn execute(
        &self,
        client: &mut Client,
        token: FencingToken,
        statement: &str,
        values: &[(&(dyn ToSql + Sync), Type)],
    ) -> Result<u64, Refusal<Error>> {
        let client = &*client; // it was given to us alone: nobody's statements get between these
        let (number, limit) = (token.to_string(), self.limit());
        let parameters = parameters(&self.resource, &number, limit.as_ref());
        // All are sent at the first poll. If one fails, the database skips the rest, and the commit is a rollback.
        let (begun, raised, done, ended) = future::join4(
            client.batch_execute("BEGIN"),
            client.execute_typed(self.statement(), &parameters),
            client.execute_typed(statement, values),
            client.batch_execute("COMMIT"),
        )
        .await;
        begun?;
        raised.map_err(|error| self.refusal(token, error))?;
        let changed = done.map_err(|error| self.refusal(token, error))?;
        ended?;
        Ok(changed)
    }

    fn statement(&self) -> &'static str {
        if self.idle.is_some() { Self::RAISE_AND_LIMIT } else { Self::RAISE }
    }

    /// In milliseconds, of which zero would mean for ever.
    fn limit(&self) -> Option<String> {
        self.idle.map(|limit| limit.as_millis().clamp(1, 2_147_483_647).to_string())
    }

    fn refusal(&self, token: FencingToken, error: Error) -> Refusal<Error> {
        match winner(&error) {
            Some(winner) => Refusal::Fenced(Fenced { resource: self.resource.clone(), token, winner }),
            None => Refusal::Failed(error),
        }
    }
}

type Parameter<'a> = (&'a (dyn ToSql + Sync), Type);

fn parameters<'a>(resource: &'a String, number: &'a String, limit: Option<&'a String>) -> Vec<Parameter<'a>> {
    let texts = [Some(resource), Some(number), limit];
    texts.into_iter().flatten().map(|text| (text as &(dyn ToSql + Sync), Type::TEXT)).collect()
}
