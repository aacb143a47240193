//! Whose tokens they are: what a fence can tell, and what it cannot.

use tenure_core::FencingToken;
use tenure_fence::file::FencedFile;

use crate::lock::{TTL, coordinator, sqlite, within};

fn is_fenced<T: std::fmt::Debug>(answer: Result<T, tenure_fence::Refusal<std::io::Error>>, winner: FencingToken) {
    assert_eq!(answer.expect_err("too old").fenced().expect("by the fence").winner, winner);
}

/// It has none: a waiter's entry has a number, which nobody is given before the grant.
#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_that_was_granted_passes_and_who_held_before_does_not() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = FencedFile::new(folder.path().join("data"));
    let first = coordinator(&sqlite(folder.path())).await.lock("a").await.expect("granted");
    let old = first.token();
    file.write(old, b"1").expect("the holder");
    let other = coordinator(&sqlite(folder.path())).await;
    let waiter = tokio::spawn(async move { other.lock("a").await.map(|guard| (guard.token(), guard)) });
    tokio::time::sleep(TTL / 4).await;
    file.write(old, b"2").expect("a waiter changes nothing for the holder");
    first.release().await.expect("released");
    let (new, _guard) = within(waiter).await.expect("no panic").expect("granted");
    file.write(old, b"3").expect("released, but nobody newer was here: nothing is lost by it");
    file.read(new).expect("the newest");
    is_fenced(file.write(old, b"4"), new);
}

/// Numbers of different names are not comparable. A fence cannot tell: it knows numbers only.
#[tokio::test(flavor = "multi_thread")]
async fn the_token_of_another_name_is_only_a_number_to_a_fence() {
    let folder = tempfile::tempdir().expect("a folder");
    let coordinator = coordinator(&sqlite(folder.path())).await;
    let right = coordinator.lock("right").await.expect("granted");
    let wrong = coordinator.lock("wrong").await.expect("granted");
    let file = FencedFile::new(folder.path().join("data"));
    file.write(right.token(), b"1").expect("the holder");
    file.write(wrong.token(), b"2").expect("it is higher, and that is all that can be seen");
    is_fenced(file.write(right.token(), b"3"), wrong.token());
}

/// After a restore of the lock's service its numbers begin again, below the mark. `token_base` lifts them over it.
#[tokio::test(flavor = "multi_thread")]
async fn numbers_that_are_given_again_after_a_restore_need_a_base() {
    let before = tempfile::tempdir().expect("a folder");
    let file = FencedFile::new(before.path().join("data"));
    let mut mark = FencingToken::new(0);
    for _ in 0..3 {
        mark = coordinator(&sqlite(before.path())).await.lock("a").await.expect("granted").token();
    }
    file.write(mark, b"1").expect("the holder");

    let restored = tempfile::tempdir().expect("a folder");
    let again = coordinator(&sqlite(restored.path())).await.lock("a").await.expect("granted");
    assert!(again.token() < mark, "{again:?}");
    is_fenced(file.write(again.token(), b"2"), mark);

    // Equal to the mark it would pass, and two holders would have one number: so the base is to be *at* the mark or above.
    let restored = tempfile::tempdir().expect("a folder");
    let lifted =
        coordinator(&format!("{}&token_base={mark}", sqlite(restored.path()))).await.lock("a").await.expect("granted");
    assert!(lifted.token() > mark);
    file.write(lifted.token(), b"2").expect("over the mark");
}
