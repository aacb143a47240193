//! The data of the server is replaced by an older copy, under a session that lives on.

use std::time::Duration;

use tenure_conformance::{
    queue,
    server::zookeeper::{Copied, Setup},
};
use tenure_core::{ContenderId, ErrorKind, LossReason, Mode};
use tenure_tests::on_zk::session;
use tokio::time::{Instant, sleep};

/// Tokens may come again; so nothing more is bound to the session.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_outlives_a_restore_is_lost_with_its_next_entry() {
    let mut zookeeper = Setup::single().start().await;
    let session = session(&zookeeper.hosts(), Duration::from_secs(40)).await.session;
    let name = queue("x");
    let end = Instant::now() + Duration::from_secs(20);
    let mut entered = Err(());
    for restored in [false, true] {
        zookeeper.restart_with(if restored { Copied::Restored } else { Copied::Kept }).await;
        for _ in 0..30 {
            let id = ContenderId::random(Mode::Write);
            loop {
                assert!(Instant::now() < end, "it does not go on");
                match session.enter(&name, &id, b"").await {
                    Err(error) if error.is_retryable() => sleep(Duration::from_millis(50)).await,
                    answer => {
                        break entered = answer.map_err(|error| println!("{:?}: {}", error.kind(), error.report()));
                    }
                }
            }
            let _ = session.leave(&name, &id).await;
        }
        assert_eq!(entered.is_err(), restored, "after a restore: {restored}");
    }
    let over = session.list(&name).await.expect_err("for good");
    assert_eq!((over.kind(), over.loss()), (ErrorKind::SessionLost, LossReason::DataReplaced));
}
