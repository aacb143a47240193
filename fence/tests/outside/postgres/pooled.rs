//! Through PgBouncer in transaction mode, and through sqlx.

use std::time::Duration;

use sqlx::{Connection as _, Row as _};
use tenure_conformance::server::postgres::PgBouncer;
use tenure_fence::{postgres::Fence, sqlx as fenced};
use tokio_postgres::types::Type;

use super::{connect, is_fenced, server, token};
use crate::lock::within;

const TABLE: &str = "CREATE TABLE total (n int NOT NULL); INSERT INTO total VALUES (0)";
const ADD: &str = "UPDATE total SET n = n + $1";

/// More clients than connections, in turns: nothing may depend on whose connection it was.
#[tokio::test(flavor = "multi_thread")]
async fn a_pooler_in_transaction_mode_changes_nothing() {
    let server = server(TABLE).await;
    let bouncer = PgBouncer::start(&server).await;
    let url = format!("postgres://postgres@{}/postgres", bouncer.address);
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..6 {
        let url = url.clone();
        tasks.spawn(async move {
            let fence = Fence::new("total").with_idle_limit(Duration::from_secs(20));
            let mut client = connect(&url).await.expect("it connects");
            for _ in 0..10 {
                fence.execute(&mut client, token(5), ADD, &[(&1, Type::INT4)]).await.expect("passes");
                let transaction = fence.begin(&mut client, token(5)).await.expect("passes");
                transaction.query_typed(ADD, &[(&1, Type::INT4)]).await.expect("written");
                transaction.commit().await.expect("committed");
                is_fenced(fence.execute(&mut client, token(4), ADD, &[(&1, Type::INT4)]).await, 5);
            }
        });
    }
    within(tasks.join_all()).await;
    assert_eq!(server.control("SELECT n FROM total"), "120");
    assert_eq!(server.control("SELECT count(*) <= 2 FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"), "t");
}

#[tokio::test(flavor = "multi_thread")]
async fn sqlx_passes_the_same_fence() {
    let server = server(TABLE).await;
    let bouncer = PgBouncer::start(&server).await;
    for address in [server.address, bouncer.address] {
        let url = format!("postgres://postgres@{address}/postgres?statement-cache-capacity=0");
        let mut connection = sqlx::PgConnection::connect(&url).await.expect("it connects");
        fenced::install(&mut connection).await.expect("again");
        for number in [6, u64::MAX, u64::MAX] {
            let mut transaction = connection.begin().await.expect("it begins");
            fenced::raise(&mut transaction, &address.to_string(), token(number)).await.expect("passes");
            let row = sqlx::query("SELECT n FROM total").persistent(false).fetch_one(&mut *transaction).await;
            assert_eq!(row.expect("a row").get::<i32, _>(0), 0);
            transaction.commit().await.expect("committed");
        }
        let mut transaction = connection.begin().await.expect("it begins");
        let error = fenced::raise(&mut transaction, &address.to_string(), token(6)).await.expect_err("too old");
        assert_eq!(error.fenced().expect("by the fence").winner, token(u64::MAX));
        transaction.rollback().await.expect("rolled back");
    }
}
