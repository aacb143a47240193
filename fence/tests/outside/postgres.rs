//! Postgres.

use std::{fmt, sync::Arc};

use tenure_conformance::{
    proxy::Proxy,
    server::postgres::{PgBouncer, Postgres},
};
use tenure_core::{FencingToken, async_trait};
use tenure_fence::{
    Refusal,
    postgres::{Fence, install},
};
use tokio_postgres::{Client as Connection, Error, NoTls, types::Type};

use crate::{
    crew::loses_nothing,
    resource::{Client, Resource, State, Wrong, cut, proxy, unknown},
};

mod form;
mod order;
mod pooled;
mod sql;

/// One row in a database.
pub(crate) struct Row {
    server: Postgres,
    proxy: Proxy,
    bouncer: Option<PgBouncer>,
    fence: bool,
}

impl fmt::Debug for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Postgres").field("pgbouncer", &self.bouncer.is_some()).finish_non_exhaustive()
    }
}

struct Own {
    connection: Connection,
    fence: bool,
}

const TABLE: &str = "CREATE TABLE state (id int PRIMARY KEY, body text NOT NULL); INSERT INTO state VALUES (1, '')";
const READ: &str = "SELECT body FROM state WHERE id = 1";
const WRITE: &str = "UPDATE state SET body = $1 WHERE id = 1";

/// A server with the fences and one more table.
async fn server(table: &str) -> Postgres {
    let server = Postgres::start().await;
    let connection = connect(&server.url("postgres")).await.expect("it connects");
    install(&connection).await.expect("it installs");
    connection.batch_execute(table).await.expect("a table");
    server
}

async fn connect(url: &str) -> Result<Connection, Error> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

fn token(number: u64) -> FencingToken {
    FencingToken::new(number)
}

fn is_fenced<T: fmt::Debug>(answer: Result<T, Refusal<Error>>, winner: u64) {
    assert_eq!(answer.expect_err("too old").fenced().expect("by the fence").winner, token(winner));
}

pub(crate) async fn row(fence: bool, pooled: bool) -> Row {
    let server = server(TABLE).await;
    let bouncer = if pooled { Some(PgBouncer::start(&server).await) } else { None };
    let behind = bouncer.as_ref().map_or(server.address, |bouncer| bouncer.address);
    Row { proxy: proxy(behind).await, bouncer, server, fence }
}

#[async_trait]
impl Resource for Row {
    async fn client(&self) -> Result<Box<dyn Client>, String> {
        assert_eq!(self.server.address.ip(), self.proxy.address().ip());
        let url = format!("postgres://postgres@{}/postgres", self.proxy.address());
        let connection = connect(&url).await.map_err(|error| error.to_string())?;
        Ok(Box::new(Own { connection, fence: self.fence }))
    }

    fn cut(&self, cut: bool) {
        self::cut(&self.proxy, cut);
    }
}

#[async_trait]
impl Client for Own {
    async fn read(&mut self, token: FencingToken) -> Result<State, Wrong> {
        let row = if self.fence {
            let transaction = Fence::new("state").begin(&mut self.connection, token).await.map_err(wrong)?;
            let row = transaction.query_typed_one(READ, &[]).await.map_err(unknown)?;
            transaction.commit().await.map_err(unknown)?;
            row
        } else {
            self.connection.query_typed_one(READ, &[]).await.map_err(unknown)?
        };
        let text: &str = row.get(0);
        Ok(if text.is_empty() { State::default() } else { State::parse(text) })
    }

    async fn write(&mut self, token: FencingToken, state: &State) -> Result<(), Wrong> {
        let text = state.text();
        let changed = if self.fence {
            let fence = Fence::new("state");
            fence.execute(&mut self.connection, token, WRITE, &[(&text, Type::TEXT)]).await.map_err(wrong)?
        } else {
            self.connection.execute_typed(WRITE, &[(&text, Type::TEXT)]).await.map_err(unknown)?
        };
        assert_eq!(changed, 1);
        Ok(())
    }
}

fn wrong(refusal: Refusal<Error>) -> Wrong {
    match refusal {
        Refusal::Fenced(fenced) => Wrong::Fenced(fenced),
        Refusal::Failed(error) => unknown(error),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn eight_workers_lose_nothing_in_postgres() {
    loses_nothing(Arc::new(row(true, false).await)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn eight_workers_lose_nothing_behind_pgbouncer() {
    loses_nothing(Arc::new(row(true, true).await)).await;
}
