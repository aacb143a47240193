//! Whose tokens they are: what a fence can tell, and what it cannot.

use tenure_core::FencingToken;
use tenure_fence::file::FencedFile;

use crate::lock::{TTL, coordinator, sqlite, within};

fn is_fenced<T: std::fmt::Debug>(answer: Result<T, tenure_fence::Refusal<std::io::Error>>, winner: FencingToken) {
    assert_eq!(answer.expect_err("too old").fenced().expect("by the fence").winner, winner);
}

/// It has none: a waiter's entry has a number, which nobody is given before the grant. Who reads it from the service all the same, and uses
/// it, has a number that passes, as any higher one does: it puts the holder out, and loses nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_waiters_number_puts_the_holder_out_and_loses_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = FencedFile::new(folder.path().join("data"));
    let holder = coordinator(&sqlite(folder.path())).await.lock("a").await.expect("granted");
    file.write(holder.token(), b"1").expect("the holder");
    let other = coordinator(&sqlite(folder.path())).await;
    let waiter = tokio::spawn(async move { other.lock("a").await.expect("granted") });
    let database = rusqlite::Connection::open(folder.path().join("lock.db")).expect("it opens");
    let highest = "SELECT max(token) FROM entries";
    let number = || database.query_row(highest, [], |row| row.get::<_, i64>(0)).expect("the holder's at least");
    let stolen = within(async {
        loop {
            let number = FencingToken::new(number().try_into().expect("not negative"));
            if number > holder.token() {
                break number;
            }
            tokio::time::sleep(TTL / 50).await;
        }
    });
    let stolen = stolen.await;
    assert!(!waiter.is_finished());
    assert_eq!(file.read(stolen).expect("it is higher, and that is all that can be seen").expect("there"), b"1");
    is_fenced(file.write(holder.token(), b"2"), stolen);
    holder.release().await.expect("released");
    let granted = within(waiter).await.expect("no panic");
    assert_eq!(granted.token(), stolen, "its own number, which it passes with");
    file.write(granted.token(), b"3").expect("the holder");
}

/// The waiter as users have it.
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

    // The equal number passes: a fence takes it for the holder that it has seen.
    let mut equal = again;
    while equal.token() < mark {
        equal.release().await.expect("released");
        equal = coordinator(&sqlite(restored.path())).await.lock("a").await.expect("granted");
    }
    assert_eq!(equal.token(), mark, "given to a second holder");
    file.write(equal.token(), b"2").expect("it cannot be told from the first one's");

    // Equal to the mark it would pass, and two holders would have one number: so the base is to be *at* the mark or above.
    let restored = tempfile::tempdir().expect("a folder");
    let lifted =
        coordinator(&format!("{}&token_base={mark}", sqlite(restored.path()))).await.lock("a").await.expect("granted");
    assert!(lifted.token() > mark);
    file.write(lifted.token(), b"2").expect("over the mark");
}
