//! Expiry by the one clock: suspended time counts, a reboot ends everything, and no wall clock is asked.

use std::{fs, path::Path, time::Duration};

use tenure_core::{Backend, BootId, Clock, ErrorKind, Moment, TestClock, TimeSource, Wake};
use tenure_sqlite::SqliteBackend;

use crate::{config, contract::every_call_is_refused, id, name, opened, within};

async fn by(control: &TestClock, path: &Path) -> SqliteBackend {
    within(SqliteBackend::connect(&config(path), &control.clock())).await.expect("it opens")
}

#[tokio::test]
async fn a_suspend_of_an_hour_and_a_reboot_end_sessions_at_once() {
    for jump in [|control: &TestClock| control.suspend(Duration::from_secs(3600)), TestClock::reboot] {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, control) = (folder.path().join("x.db"), TestClock::new());
        let (one, two) = (by(&control, &path).await, by(&control, &path).await);
        let holder = opened(&one).await.session;
        let queue = name("q");
        let first = holder.enter(&queue, &id(), b"").await.expect("entered");
        jump(&control);
        every_call_is_refused(&*holder, &first.snapshot).await; // though nobody has removed it yet
        let successor = opened(&two).await.session;
        let second = successor.enter(&queue, &id(), b"").await.expect("entered");
        assert_eq!(second.snapshot.queue.len(), 1, "the dead entry is gone");
        assert!(second.token > first.token);
        every_call_is_refused(&*holder, &first.snapshot).await;
    }
}

#[tokio::test]
async fn nobody_is_over_before_the_ttl_and_a_waiter_removes_who_is() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, control) = (folder.path().join("x.db"), TestClock::new());
    let (one, two) = (by(&control, &path).await, by(&control, &path).await);
    let ttl = Duration::from_secs(2);
    let (holder, waiter) = (one.open(ttl).await.expect("a session"), opened(&two).await.session);
    let queue = name("q");
    holder.session.enter(&queue, &id(), b"").await.expect("entered");
    let seen = waiter.enter(&queue, &id(), b"").await.expect("entered").snapshot;
    within(waiter.wait(&queue, &seen, Wake::Gone(&seen.queue[0]))).await.expect("gone");
    let clock = control.clock();
    assert!(clock.has_passed(holder.deadline));
    assert!(!clock.has_passed(holder.deadline + Duration::from_secs(1)), "later than it should be");
    assert_eq!(waiter.list(&queue).await.expect("listed").queue.len(), 1);
    assert_eq!(holder.session.keep_alive().await.expect_err("too late").kind(), ErrorKind::SessionLost);
}

/// Were readers to leave out what is over, an entry could vanish and come back in front of a granted one.
#[tokio::test]
async fn reading_alone_ends_nobody() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, control) = (folder.path().join("x.db"), TestClock::new());
    let (one, two) = (by(&control, &path).await, by(&control, &path).await);
    let holder = one.open(Duration::from_secs(2)).await.expect("a session");
    let (queue, reader) = (name("q"), two.open(Duration::from_secs(9999)).await.expect("a session").session);
    holder.session.enter(&queue, &id(), b"").await.expect("entered");
    control.suspend(Duration::from_secs(60));
    assert_eq!(reader.list(&queue).await.expect("listed").queue.len(), 1);
    reader.keep_alive().await.expect("extended"); // a change removes who is over
    assert_eq!(reader.list(&queue).await.expect("listed").queue.len(), 0);
}

#[derive(Debug)]
struct Unbooted;

impl TimeSource for Unbooted {
    fn now(&self) -> Moment {
        Moment { boot: BootId::UNKNOWN, since_boot: Duration::from_secs(1) }
    }
}

#[tokio::test]
async fn without_a_boot_id_nothing_is_promised() {
    let folder = tempfile::tempdir().expect("a folder");
    let (config, clock) = (config(&folder.path().join("x.db")), Clock::new(Unbooted));
    let error = within(SqliteBackend::connect(&config, &clock)).await.expect_err("no boot id");
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(error.to_string().contains("/proc"), "{error}");
}

/// A wall clock that is never read cannot be set wrong.
#[test]
fn no_source_reads_the_wall_clock() {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR"));
    let files = fs::read_dir(sources.join("src")).expect("a folder").map(|entry| entry.expect("a file").path());
    let files: Vec<_> = files.chain([sources.join("schema.sql")]).collect();
    assert!(files.len() > 10);
    for file in files {
        let text = fs::read_to_string(&file).expect("text");
        for word in ["SystemTime", "CURRENT_TIMESTAMP", "strftime", "datetime(", "julianday", "unixepoch"] {
            assert!(!text.contains(word), "{} has {word}", file.display());
        }
    }
}
