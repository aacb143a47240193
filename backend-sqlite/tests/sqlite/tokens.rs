//! Tokens rise for as long as the file exists.

use std::{fs, path::Path};

use tenure_core::{Coordinator, ErrorKind, FencingToken, Options};

use crate::{backend, closed, coordinator, id, name, opened, within};

/// One tenure from opening to closing, as one run of a program has.
async fn run(path: &Path) -> FencingToken {
    let coordinator = coordinator(path).await;
    let guard = within(coordinator.lock("q")).await.expect("granted");
    let token = guard.token();
    guard.release().await.expect("released");
    coordinator.close().await.expect("closed");
    token
}

#[tokio::test]
async fn tokens_rise_over_runs_and_emptied_queues() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("x.db");
    let mut last = FencingToken::new(0);
    for _ in 0..5 {
        let token = run(&path).await;
        assert!(token > last);
        last = token;
    }
    let (session, queue) = (opened(&backend(&path).await).await.session, name("q"));
    for _ in 0..20 {
        let id = id();
        let token = session.enter(&queue, &id, b"").await.expect("entered").token;
        session.leave(&queue, &id).await.expect("left");
        assert!(token > last);
        last = token;
    }
}

async fn with_base(path: &Path, base: u64) -> tenure_core::Result<FencingToken> {
    let mut options = Options::default();
    options.token_base = base;
    let coordinator = Coordinator::new(backend(path).await, options)?;
    let guard = within(coordinator.lock("q")).await?;
    let token = guard.token();
    guard.release().await?;
    coordinator.close().await?;
    Ok(token)
}

/// The limit that the documentation states: an older copy forgets, and only a raised base makes up for it.
#[tokio::test]
async fn an_older_copy_goes_back_unless_the_token_base_is_raised() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, copy) = (folder.path().join("x.db"), folder.path().join("copy"));
    let early = run(&path).await;
    closed(&path).await;
    fs::copy(&path, &copy).expect("copied");
    for _ in 0..3 {
        run(&path).await;
    }
    let late = run(&path).await;
    closed(&path).await;
    fs::copy(&copy, &path).expect("copied back");
    let back = run(&path).await;
    assert!(early < back && back < late, "{early} {back} {late}");
    let raised = with_base(&path, late.get()).await.expect("raised while alone");
    assert!(raised > late);
    let error = with_base(&path, 0).await.expect_err("one who does not know the base");
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(error.to_string().contains(&format!("write token_base = {late}")), "{error}");
}
