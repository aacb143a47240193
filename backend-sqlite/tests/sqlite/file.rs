//! What can be wrong with the file, one sentence each.

use std::{fs, time::Duration};

use rusqlite::Connection;
use tenure_core::{Backend, Config, Driver, Drivers, Error, ErrorKind, LossReason};
use tenure_sqlite::SqliteDriver;

use crate::{backend, connect, contract::every_call_is_refused, coordinator, id, name, opened, within};

#[track_caller]
fn says(error: &Error, kind: ErrorKind, words: &str) {
    assert_eq!(error.kind(), kind, "{}", error.report());
    let text = error.to_string();
    assert!(text.contains(words), "{text}");
    assert!(!text.ends_with('.') && !text.contains('\n'), "one sentence: {text}");
}

#[tokio::test]
async fn the_log_and_the_safety_are_as_promised() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("x.db");
    let backend = backend(&path).await;
    opened(&backend).await.session.close().await.expect("closed");
    let other = Connection::open(&path).expect("it opens");
    let text = |sql: &str| other.query_row(sql, [], |row| row.get::<_, String>(0)).expect("an answer");
    let number = |sql: &str| other.query_row(sql, [], |row| row.get::<_, i64>(0)).expect("an answer");
    assert_eq!(text("PRAGMA journal_mode"), "wal");
    assert_eq!(number("PRAGMA application_id"), 0x544e_5245);
    assert_eq!(number("PRAGMA user_version"), 2);
    assert_eq!(text("PRAGMA integrity_check"), "ok");
}

#[tokio::test]
async fn what_is_no_database_of_ours_is_refused_and_left_as_it_is() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    fs::write(at("text"), "not a database, but long enough to have a header of one hundred bytes ".repeat(9))
        .expect("written");
    let made = |name: &str, sql: &str| Connection::open(at(name)).expect("it opens").execute_batch(sql).expect("made");
    made("foreign", "CREATE TABLE t (x)");
    made("marked", "PRAGMA application_id = 77");
    made("newer", "PRAGMA application_id = 0x544e5245; PRAGMA user_version = 3");
    fs::create_dir(at("directory")).expect("made");
    for (name, words) in [
        ("text", "no SQLite database"),
        ("foreign", "another program"),
        ("marked", "another program"),
        ("newer", "newer version"),
        ("directory", "is no file"),
        ("text/x.db", "a part of the path is a file"),
    ] {
        let before = fs::read(at(name)).ok();
        says(&connect(&at(name)).await.expect_err(name), ErrorKind::Config, words);
        assert_eq!(fs::read(at(name)).ok(), before, "{name}");
    }
}

/// The tables of the first layout, with an entry and a counter in them.
#[tokio::test]
async fn a_file_of_the_first_layout_is_brought_up_to_date_and_keeps_its_tokens() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("x.db");
    let old = Connection::open(&path).expect("it opens");
    old.execute_batch(include_str!("../../schema.sql")).expect("made");
    old.execute_batch(
        "PRAGMA application_id = 0x544e5245; PRAGMA user_version = 1;
         INSERT INTO sessions VALUES ('s', '', 'over', '', 0, ''); INSERT INTO namespaces VALUES ('', 5);
         INSERT INTO entries (token, namespace, queue, id, session, value) VALUES (41, '', 'q', 'w', 's', x'')",
    )
    .expect("made");
    let mut options = tenure_core::Options::default();
    options.token_base = 5;
    let coordinator = tenure_core::Coordinator::new(backend(&path).await, options).expect("good options");
    let guard = within(coordinator.lock("q")).await.expect("granted");
    assert_eq!(guard.token().get(), 42 + 5);
    guard.fenced().expect("it has data").put("k", b"v").await.expect("written");
    assert_eq!(old.query_row("PRAGMA user_version", [], |row| row.get::<_, i64>(0)).expect("a number"), 2);
    old.execute("DELETE FROM entries", []).expect("who had it open before can go on");
}

#[tokio::test]
async fn a_damaged_database_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("x.db");
    drop(coordinator(&path).await);
    crate::closed(&path).await;
    let mut bytes = fs::read(&path).expect("read");
    bytes[100..].fill(0xa5);
    fs::write(&path, bytes).expect("written");
    says(&connect(&path).await.expect_err("damaged"), ErrorKind::Unexpected, "damaged");
}

#[tokio::test]
async fn a_file_that_is_removed_or_replaced_ends_its_sessions_and_a_new_one_is_used() {
    for replace in [false, true] {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("x.db");
        let backend = backend(&path).await;
        let old = opened(&backend).await.session;
        let seen = old.enter(&name("q"), &id(), b"").await.expect("entered").snapshot;
        fs::rename(&path, folder.path().join("moved")).expect("moved");
        if replace {
            for beside in ["x.db-wal", "x.db-shm"] {
                fs::remove_file(folder.path().join(beside)).expect("removed");
            }
            coordinator(&path).await.connect().await.expect("it opens");
        }
        let error = old.keep_alive().await.expect_err("the file has gone");
        says(&error, ErrorKind::SessionLost, "removed or replaced");
        assert_eq!(error.loss(), LossReason::DataReplaced);
        every_call_is_refused(&*old, &seen).await;
        old.close().await.expect("over, one way or the other");
        let new = opened(&backend).await.session;
        new.enter(&name("q"), &id(), b"").await.expect("entered");
        assert_eq!(new.list(&name("q")).await.expect("listed").queue.len(), 1);
        every_call_is_refused(&*old, &seen).await;
        assert_eq!(
            opened(&connect(&path).await.expect("it opens"))
                .await
                .session
                .list(&name("q"))
                .await
                .expect("listed")
                .queue
                .len(),
            1
        );
    }
}

#[tokio::test]
async fn a_holder_notices_soon_that_its_file_was_removed() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("x.db");
    let coordinator = coordinator(&path).await;
    let guard = within(coordinator.lock("q")).await.expect("granted");
    tokio::time::sleep(Duration::from_millis(700)).await;
    fs::remove_file(&path).expect("removed");
    tokio::time::timeout(Duration::from_millis(1500), guard.lost()).await.expect("soon");
}

#[tokio::test]
async fn a_link_is_the_file_that_it_leads_to() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, link) = (folder.path().join("x.db"), folder.path().join("link"));
    let one = opened(&backend(&path).await).await.session;
    std::os::unix::fs::symlink(&path, &link).expect("linked");
    let two = opened(&backend(&link).await).await.session;
    one.enter(&name("q"), &id(), b"").await.expect("entered");
    assert_eq!(two.list(&name("q")).await.expect("listed").queue.len(), 1);
    fs::remove_file(&link).expect("removed");
    says(&two.keep_alive().await.expect_err("it leads nowhere"), ErrorKind::SessionLost, "removed or replaced");
    one.keep_alive().await.expect("extended");
}

#[tokio::test]
async fn the_driver_says_how_to_write_a_path_and_what_it_can_be_relied_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("x.db");
    let drivers = Drivers::new().with(SqliteDriver);
    let url = |text: &str| text.parse::<Config>().expect("a URL");
    let error = drivers.connect(&url("sqlite://host/x")).await.expect_err("a host");
    says(&error, ErrorKind::Config, "write sqlite:/path/to/file or sqlite:///path/to/file");
    let strong = url(&format!("sqlite:{}?require=consensus", path.display()));
    says(&drivers.connect(&strong).await.expect_err("too weak"), ErrorKind::Config, "only as strong as 'host'");
    let unknown = url(&format!("sqlite:{}?password=x", path.display()));
    says(&drivers.connect(&unknown).await.expect_err("no such"), ErrorKind::Config, "no setting 'password'");
    let coordinator = drivers.connect(&url(&format!("sqlite://{}", path.display()))).await.expect("it opens");
    assert_eq!(coordinator.backend().strength(), tenure_core::Strength::Host);
    assert!(url(SqliteDriver.example()).path.is_some());
}

#[tokio::test]
async fn a_lock_that_is_never_given_ends_the_opening_in_time() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("x.db");
    let blocker = Connection::open(&path).expect("it opens");
    blocker.execute_batch("PRAGMA locking_mode = exclusive; BEGIN EXCLUSIVE").expect("locked");
    let mut config = crate::config(&path);
    config.connect_timeout = Duration::from_secs(2);
    let started = std::time::Instant::now();
    let clock = tenure_core::Clock::system();
    says(
        &within(tenure_sqlite::SqliteBackend::connect(&config, &clock)).await.expect_err("locked"),
        ErrorKind::Unavailable,
        "x.db",
    );
    assert!(started.elapsed() < Duration::from_millis(2500), "{:?}", started.elapsed());
}
