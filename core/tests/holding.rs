//! Who holds a name.

use std::num::NonZeroU32;

use tenure_core::{Coordinator, FencingToken, MemoryBackend, Options};

async fn token(coordinator: &Coordinator) -> Option<FencingToken> {
    coordinator.holder("x").await.expect("told").map(|holder| holder.token)
}

#[tokio::test(start_paused = true)]
async fn it_is_the_first_entry_and_only_if_it_holds_alone() {
    let backend = MemoryBackend::new();
    let mut options = Options::default();
    options.token_base = 1000;
    let coordinator = Coordinator::new(backend.clone(), options.clone()).expect("good options");
    let other = Coordinator::new(backend.other_client(), options).expect("good options");
    assert_eq!(token(&other).await, None);

    let guard = coordinator.lock("x").await.expect("granted");
    assert!(guard.token().get() > 1000, "it is told as its holder knows it");
    let waiter = tokio::spawn({
        let other = other.clone();
        async move { other.lock("x").await.expect("granted") }
    });
    assert_eq!(token(&coordinator).await, Some(guard.token()));
    let before = guard.token();
    guard.release().await.expect("released");
    let next = waiter.await.expect("granted");
    assert!(next.token() > before);
    assert_eq!(token(&coordinator).await, Some(next.token()), "whoever held it before does so no more");
    next.release().await.expect("released");

    let reader = coordinator.read("x").await.expect("granted");
    assert_eq!(token(&other).await, None, "readers have no token");
    reader.release().await.expect("released");
    let _permit = coordinator.permit("x", NonZeroU32::MIN).await.expect("granted");
    assert_eq!(token(&other).await, None);
}
