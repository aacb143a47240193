//! Transactions of two holders that overlap, at all isolation levels.

use std::time::Duration;

use tenure_fence::{Refusal, postgres::Fence};
use tokio_postgres::{Client as Connection, Error, IsolationLevel, Transaction, error::SqlState};

use super::{connect, is_fenced, server, token};
use crate::lock::within;

// Rows are added and none is changed: with the fence out of the way, nothing else keeps two transactions apart.
const TABLE: &str = "CREATE TABLE total (n int NOT NULL); INSERT INTO total VALUES (0)";
const ADD: &str = "INSERT INTO total SELECT max(n) + 1 FROM total";
const LEVELS: [IsolationLevel; 3] =
    [IsolationLevel::ReadCommitted, IsolationLevel::RepeatableRead, IsolationLevel::Serializable];

async fn begin(connection: &mut Connection, level: IsolationLevel) -> Transaction<'_> {
    connection.build_transaction().isolation_level(level).start().await.expect("it begins")
}

/// A transaction of its own, in a task: passes the fence, reads, adds one.
async fn add_one(url: String, fence: Fence, number: u64, level: IsolationLevel) -> Result<i32, Refusal<Error>> {
    let mut connection = connect(&url).await?;
    let transaction = begin(&mut connection, level).await;
    fence.raise(&transaction, token(number)).await?;
    let n: i32 = transaction.query_one("SELECT max(n) FROM total", &[]).await?.get(0);
    transaction.execute("INSERT INTO total VALUES ($1)", &[&(n + 1)]).await?;
    transaction.commit().await?;
    Ok(n + 1)
}

/// Under the stricter levels the wait ends in a call to begin again, which settles it.
async fn settled(url: &str, fence: &Fence, number: u64, level: IsolationLevel) -> Result<i32, Refusal<Error>> {
    let mut again = 0;
    loop {
        match add_one(url.to_owned(), fence.clone(), number, level).await {
            Err(Refusal::Failed(error)) if error.code() == Some(&SqlState::T_R_SERIALIZATION_FAILURE) => again += 1,
            answer => {
                assert_eq!(again > 0, !matches!(level, IsolationLevel::ReadCommitted), "{level:?}: {answer:?}");
                return answer;
            }
        }
    }
}

/// Waits until so many transactions wait for another one.
async fn blocked(watcher: &Connection) {
    let count = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
    within(async {
        while watcher.query_one(count, &[]).await.expect("it answers").get::<_, i64>(0) == 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_older_holder_waits_for_a_newer_ones_transaction_and_is_refused() {
    let server = server(TABLE).await;
    let url = server.url("postgres");
    let (mut newer, watcher) = (connect(&url).await.expect("it connects"), connect(&url).await.expect("it connects"));
    for level in LEVELS {
        // Seen before, and not.
        for seen in [true, false] {
            let fence = Fence::new(format!("{level:?} {seen}"));
            if seen {
                fence.begin(&mut newer, token(6)).await.expect("passes").commit().await.expect("committed");
            }
            let transaction = begin(&mut newer, level).await;
            fence.raise(&transaction, token(8)).await.expect("the newest");
            let (url, other) = (url.clone(), fence.clone());
            let older = tokio::spawn(async move { settled(&url, &other, 7, level).await });
            blocked(&watcher).await;
            transaction.commit().await.expect("committed");
            is_fenced(within(older).await.expect("no panic"), 8);
        }
    }
    assert_eq!(server.control("SELECT max(n) FROM total"), "0");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_newer_holder_reads_what_an_older_one_was_writing() {
    let server = server(TABLE).await;
    let url = server.url("postgres");
    let (mut older, watcher) = (connect(&url).await.expect("it connects"), connect(&url).await.expect("it connects"));
    for (done, level) in (1..).step_by(2).zip(LEVELS) {
        let fence = Fence::new(format!("{level:?}"));
        let transaction = begin(&mut older, level).await;
        fence.raise(&transaction, token(7)).await.expect("the first");
        transaction.execute(ADD, &[]).await.expect("written");
        let (url, other) = (url.clone(), fence.clone());
        let newer = tokio::spawn(async move { settled(&url, &other, 8, level).await });
        blocked(&watcher).await;
        transaction.commit().await.expect("committed");
        assert_eq!(within(newer).await.expect("no panic").expect("the newest"), done + 1);
        is_fenced(fence.begin(&mut older, token(7)).await.map(drop), 8);
    }
}

/// Two of one holder at the same time lose nothing either: an equal token is written too.
#[tokio::test(flavor = "multi_thread")]
async fn transactions_of_one_holder_come_one_after_the_other() {
    let server = server(TABLE).await;
    let (url, fence) = (server.url("postgres"), Fence::new("x"));
    let (mut one, watcher) = (connect(&url).await.expect("it connects"), connect(&url).await.expect("it connects"));
    fence.begin(&mut one, token(5)).await.expect("passes").commit().await.expect("committed");
    for (done, level) in (1..).step_by(2).zip(LEVELS) {
        let transaction = begin(&mut one, level).await;
        fence.raise(&transaction, token(5)).await.expect("the holder");
        let (url, other) = (url.clone(), fence.clone());
        let second = tokio::spawn(async move { settled(&url, &other, 5, level).await });
        blocked(&watcher).await;
        transaction.execute(ADD, &[]).await.expect("written");
        transaction.commit().await.expect("committed");
        assert_eq!(within(second).await.expect("no panic").expect("the same holder"), done + 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_that_is_rolled_back_has_raised_nothing() {
    let server = server(TABLE).await;
    let mut connection = connect(&server.url("postgres")).await.expect("it connects");
    let fence = Fence::new("x");
    fence.begin(&mut connection, token(9)).await.expect("passes").rollback().await.expect("rolled back");
    fence.begin(&mut connection, token(5)).await.expect("passes").commit().await.expect("committed");
    fence.begin(&mut connection, token(5)).await.expect("the same holder").commit().await.expect("committed");
    is_fenced(fence.begin(&mut connection, token(4)).await.map(drop), 5);
}

/// A holder that is paused inside its transaction keeps its successor waiting no longer than the limit, and cannot commit after it.
#[tokio::test(flavor = "multi_thread")]
async fn a_holder_that_is_paused_in_a_transaction_is_ended_by_the_limit() {
    let server = server(TABLE).await;
    let url = server.url("postgres");
    let (mut older, mut newer) = (connect(&url).await.expect("it connects"), connect(&url).await.expect("it connects"));
    let fence = Fence::new("x").with_idle_limit(Duration::from_millis(300));
    let transaction = fence.begin(&mut older, token(7)).await.expect("the first");
    transaction.execute("INSERT INTO total VALUES (100)", &[]).await.expect("written, but not for good");
    let successor = within(fence.begin(&mut newer, token(8))).await.expect("the newest");
    successor.execute(ADD, &[]).await.expect("written");
    successor.commit().await.expect("committed");
    assert!(transaction.commit().await.is_err());
    assert_eq!(server.control("SELECT max(n) FROM total"), "1");
    // The limit ends with the transaction.
    assert_eq!(
        newer.query_one("SHOW idle_in_transaction_session_timeout", &[]).await.expect("it answers").get::<_, &str>(0),
        "0"
    );
}
