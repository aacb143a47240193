//! Postgres, through `sqlx`. The database needs [`SQL`] once: as a migration, or by [`install`].
//!
//! The guarantee and the limits are those of `tenure_fence::postgres`: what comes after [`raise`] in the same transaction is safe from
//! older holders, at every isolation level; the next holder waits for a transaction that is still open. [`raise`] is a round trip of its own:
//! this client sends no two statements with parameters at once.

use ::sqlx::{Error, Executor, PgConnection, Postgres, Transaction, postgres::PgDatabaseError};
use tenure_core::FencingToken;

use crate::{Fenced, Refusal, SQL, SQLSTATE};

/// Installs [`SQL`]. Harmless if it is there.
///
/// # Errors
/// What the database says: the role needs the right to create a schema.
pub async fn install(connection: &mut PgConnection) -> Result<(), Error> {
    connection.execute(::sqlx::raw_sql(SQL)).await.map(drop)
}

/// The winning token, if a fence of [`SQL`] made this error.
pub fn winner(error: &Error) -> Option<FencingToken> {
    let error = error.as_database_error()?.try_downcast_ref::<PgDatabaseError>()?;
    (error.code() == SQLSTATE).then(|| error.detail()?.parse().ok()).flatten()
}

/// Passes the fence of `resource`, and raises it: for the length of the transaction, and for good once that commits. **Call it before the
/// first read.**
///
/// # Errors
/// `Fenced` if a newer holder has been there: the transaction is aborted then. Otherwise what the database says; `40001` and `40P01` mean
/// to begin again.
///
/// # Cancel safety
/// The fence may be raised or not: drop the transaction too.
pub async fn raise(
    transaction: &mut Transaction<'_, Postgres>,
    resource: &str,
    token: FencingToken,
) -> Result<(), Refusal<Error>> {
    let statement = ::sqlx::query("SELECT tenure.fence($1, $2::numeric)");
    // Not prepared by name: that would outlive the transaction, and a pooler hands the connection on.
    let statement = statement.bind(resource).bind(token.to_string()).persistent(false);
    match statement.execute(&mut **transaction).await {
        Ok(_) => Ok(()),
        Err(error) => Err(match winner(&error) {
            Some(winner) => Refusal::Fenced(Fenced { resource: resource.to_owned(), token, winner }),
            None => Refusal::Failed(error),
        }),
    }
}
