//! The forms that cost no round trip, and those for rows.

use std::time::{Duration, Instant};

use tenure_conformance::proxy::Mode;
use tenure_fence::postgres::{Fence, winner};
use tokio_postgres::types::Type;

use super::{connect, is_fenced, server, token};
use crate::{lock::within, resource::proxy};

const TABLE: &str = "CREATE TABLE total (id int PRIMARY KEY, n int NOT NULL); INSERT INTO total VALUES (1, 0)";
const ADD: &str = "UPDATE total SET n = n + $1 WHERE id = 1";

/// Counted by a proxy that makes each way take a third of a second.
#[tokio::test(flavor = "multi_thread")]
async fn the_fence_costs_no_round_trip() {
    const WAY: Duration = Duration::from_millis(333);
    let trips = |start: Instant| start.elapsed().as_millis() / (2 * WAY).as_millis();
    let server = server(TABLE).await;
    let proxy = proxy(server.address).await;
    let url = format!("postgres://postgres@{}/postgres", proxy.address());
    let mut connection = connect(&url).await.expect("it connects");
    let fence = Fence::new("total").with_idle_limit(Duration::from_secs(5));
    let add = connection.prepare(ADD).await.expect("prepared");
    proxy.set(Mode::Delay(WAY));

    let start = Instant::now();
    let changed = fence.execute(&mut connection, token(5), ADD, &[(&1, Type::INT4)]).await.expect("passes");
    assert_eq!((trips(start), changed), (1, 1), "fence, write and transaction");

    let transaction = connection.transaction().await.expect("it begins");
    let start = Instant::now();
    fence.raise_with(&transaction, token(5), transaction.execute(&add, &[&1])).await.expect("passes");
    assert_eq!(trips(start), 1, "fence and write in a transaction that has begun");
    transaction.commit().await.expect("committed");

    proxy.set(Mode::Pass);
    is_fenced(fence.execute(&mut connection, token(4), ADD, &[(&1, Type::INT4)]).await, 5);
    let transaction = connection.transaction().await.expect("it begins");
    is_fenced(fence.raise_with(&transaction, token(4), transaction.execute(&add, &[&1])).await, 5);
    drop(transaction);
    // A write that fails by itself raises nothing, and the connection is as good as before.
    let failed = fence.execute(&mut connection, token(9), "UPDATE total SET n = 1 / 0", &[]).await.expect_err("fails");
    assert!(failed.fenced().is_none());
    fence.execute(&mut connection, token(5), ADD, &[(&1, Type::INT4)]).await.expect("passes");
    assert_eq!(server.control("SELECT n FROM total"), "3");
}

/// Dropped after it was sent, it is done or not done, but no transaction stays open.
#[tokio::test(flavor = "multi_thread")]
async fn a_write_that_is_given_up_leaves_no_transaction_open() {
    let server = server(TABLE).await;
    let proxy = proxy(server.address).await;
    let url = format!("postgres://postgres@{}/postgres", proxy.address());
    let mut connection = connect(&url).await.expect("it connects");
    proxy.set(Mode::Delay(Duration::from_millis(100)));
    let fence = Fence::new("total");
    for _ in 0..3 {
        let write = fence.execute(&mut connection, token(5), ADD, &[(&1, Type::INT4)]);
        tokio::time::timeout(Duration::from_millis(20), write).await.expect_err("given up");
    }
    proxy.set(Mode::Pass);
    within(fence.execute(&mut connection, token(5), ADD, &[(&1, Type::INT4)])).await.expect("passes");
    assert_eq!(server.control("SELECT n FROM total"), "4");
    assert_eq!(server.control("SELECT count(*) FROM pg_stat_activity WHERE state LIKE 'idle in transaction%'"), "0");
}

/// One statement for the fence and the write, as any language can send it.
#[tokio::test(flavor = "multi_thread")]
async fn one_statement_is_fence_and_write() {
    let server = server(TABLE).await;
    let connection = connect(&server.url("postgres")).await.expect("it connects");
    let both = "WITH fence AS (SELECT tenure.fence('total', $1::text::numeric)) UPDATE total SET n = n + 1 FROM fence WHERE id = 1";
    assert_eq!(connection.execute(both, &[&"5"]).await.expect("passes"), 1);
    assert_eq!(connection.execute(both, &[&"5"]).await.expect("the same holder"), 1);
    let error = connection.execute(both, &[&"4"]).await.expect_err("too old");
    assert_eq!(winner(&error), Some(token(5)));
    assert_eq!(server.control("SELECT n, (SELECT tenure.fence_mark('total')) FROM total"), "2|5");
    // What the docs warn of: Postgres does not evaluate a query that nothing refers to.
    let forgotten =
        "WITH fence AS (SELECT tenure.fence('total', $1::text::numeric)) UPDATE total SET n = n + 1 WHERE id = 1";
    assert_eq!(connection.execute(forgotten, &[&"4"]).await.expect("it was never asked"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_statement_waits_for_an_older_holder_and_adds_to_what_that_wrote() {
    let server = server(TABLE).await;
    let url = server.url("postgres");
    let (mut older, newer) = (connect(&url).await.expect("it connects"), connect(&url).await.expect("it connects"));
    let transaction = Fence::new("total").begin(&mut older, token(5)).await.expect("passes");
    transaction.execute("UPDATE total SET n = 10", &[]).await.expect("written");
    let both = "WITH fence AS (SELECT tenure.fence('total', 6)) UPDATE total SET n = n + 1 FROM fence WHERE id = 1";
    let write = tokio::spawn(async move { newer.execute(both, &[]).await });
    tokio::time::sleep(Duration::from_millis(200)).await;
    transaction.commit().await.expect("committed");
    assert_eq!(within(write).await.expect("no panic").expect("passes"), 1);
    assert_eq!(server.control("SELECT n FROM total"), "11");
}

/// A fence for each row, in a column of its own.
#[tokio::test(flavor = "multi_thread")]
async fn rows_can_carry_their_own_fence() {
    let server = server(TABLE).await;
    let connection = connect(&server.url("postgres")).await.expect("it connects");
    server.control("ALTER TABLE total ADD fence numeric(20, 0) NOT NULL DEFAULT 0");
    let read = "UPDATE total SET fence = $1::text::numeric WHERE id = 1 AND fence <= $1::text::numeric RETURNING n";
    let write = "UPDATE total SET n = 7, fence = $1::text::numeric WHERE id = 1 AND fence <= $1::text::numeric";
    assert_eq!(connection.query(read, &[&"5"]).await.expect("it answers").len(), 1);
    assert_eq!(connection.query(read, &[&"18446744073709551615"]).await.expect("it answers").len(), 1);
    assert_eq!(connection.query(read, &[&"5"]).await.expect("it answers").len(), 0);
    assert_eq!(connection.execute(write, &[&"5"]).await.expect("it answers"), 0);
    assert_eq!(connection.execute(write, &[&"18446744073709551615"]).await.expect("it answers"), 1);

    server.control(
        "CREATE TRIGGER fence BEFORE INSERT OR UPDATE ON total FOR EACH ROW EXECUTE FUNCTION tenure.fence_row()",
    );
    let careless =
        connection.execute("UPDATE total SET n = 8, fence = 5 WHERE id = 1", &[]).await.expect_err("too old");
    assert_eq!(winner(&careless), Some(token(u64::MAX)));
    for wrong in ["-1", "'NaN'", "18446744073709551616", "NULL"] {
        connection.batch_execute(&format!("UPDATE total SET fence = {wrong}")).await.expect_err(wrong);
        connection.batch_execute(&format!("INSERT INTO total VALUES (2, 0, {wrong})")).await.expect_err(wrong);
    }
    assert_eq!(server.control("SELECT n FROM total"), "7");
}
