//! What takes rights, users, mounts and namespaces to show. As root all of it is shown; another user shows what one can.

use std::{
    fs::{self, Permissions},
    os::unix::fs::{PermissionsExt, chown},
    path::Path,
    process::Output,
    time::Duration,
};

use tenure_core::{Backend, ContenderId, ErrorKind, Mode, QueueName, Session};
use tenure_sqlite::SqliteBackend;
use tenure_tests::{
    mount::Mount,
    on_sqlite::{sqlite, within},
};

use crate::process;

const NOBODY: &str = "65534";

/// Returns once nobody has the file open any more: a backend's thread closes it a moment after the last session was dropped.
async fn closed(path: &Path) {
    let log = path.with_extension("db-wal");
    within(async {
        while log.exists() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
}

async fn opened(backend: &SqliteBackend) -> Box<dyn Session> {
    within(backend.open(Duration::from_secs(10))).await.expect("a session").session
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn outcome(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().find_map(|line| line.strip_prefix("outcome "));
    line.unwrap_or_else(|| panic!("no outcome: {text} {}", String::from_utf8_lossy(&output.stderr))).to_owned()
}

/// What `attempt` says as a user who is not root. That user must be able to run this binary: it gets a copy.
fn attempt_as_nobody(folder: &Path, path: &Path) -> String {
    let mut command = process(&[], "attempt", path);
    if is_root() {
        let copy = folder.join("binary");
        fs::copy(command.get_program(), &copy).expect("copied");
        fs::set_permissions(&copy, Permissions::from_mode(0o755)).expect("set");
        let as_nobody = ["setpriv", "--reuid", NOBODY, "--regid", NOBODY, "--clear-groups", "--"];
        command = tenure_tests::on_sqlite::process(&copy, &as_nobody, "attempt", path);
    }
    outcome(&command.output().expect("setpriv of util-linux runs"))
}

fn open_folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    fs::set_permissions(folder.path(), Permissions::from_mode(0o777)).expect("set");
    folder
}

#[tokio::test]
async fn another_users_file_is_refused_with_the_name_of_its_owner() {
    let folder = open_folder();
    let path = folder.path().join("x.db");
    drop(sqlite(&path).await.expect("it opens"));
    fs::set_permissions(&path, Permissions::from_mode(if is_root() { 0o600 } else { 0o000 })).expect("set");
    let outcome = attempt_as_nobody(folder.path(), &path);
    assert!(outcome.starts_with("Denied: "), "{outcome}");
    if is_root() {
        assert!(outcome.contains("belongs to user 0") && outcome.contains("run as user 0"), "{outcome}");
    }
}

#[tokio::test]
async fn a_file_or_directory_that_may_only_be_read_is_refused() {
    let folder = open_folder();
    let (file, directory) = (folder.path().join("x.db"), folder.path().join("closed"));
    drop(sqlite(&file).await.expect("it opens"));
    fs::create_dir(&directory).expect("made");
    drop(sqlite(&directory.join("x.db")).await.expect("it opens"));
    for path in [&file, &directory.join("x.db"), &directory] {
        if is_root() {
            chown(path, Some(65534), Some(65534)).expect("given away");
        }
    }
    fs::set_permissions(&file, Permissions::from_mode(0o444)).expect("set");
    fs::set_permissions(&directory, Permissions::from_mode(0o555)).expect("set");
    for path in [&file, &directory.join("x.db"), &directory.join("new.db")] {
        let outcome = attempt_as_nobody(folder.path(), path);
        assert!(outcome.starts_with("Denied: ") && outcome.contains("writable"), "{}: {outcome}", path.display());
    }
    fs::set_permissions(&directory, Permissions::from_mode(0o755)).expect("set");
}

#[tokio::test]
async fn a_full_disk_makes_calls_unavailable_until_there_is_room() {
    let folder = tempfile::tempdir().expect("a folder");
    let mount = Mount::new(&folder.path().join("small"), "size=2m");
    let path = mount.path().join("x.db");
    let backend = sqlite(&path).await.expect("it opens");
    let (session, queue) = (opened(&backend).await, QueueName::new("q").expect("a good name"));
    let kept = session.enter(&queue, &ContenderId::random(Mode::Write), b"").await.expect("entered");
    let filler = mount.path().join("filler");
    let _ = fs::write(&filler, vec![7; 4 << 20]).expect_err("more than fits");
    let mut refused = None;
    for _ in 0..100 {
        // What fits into blocks that are there already still works.
        refused = session.enter(&queue, &ContenderId::random(Mode::Write), &[7; 60_000]).await.err();
        if refused.is_some() {
            break;
        }
    }
    let error = refused.expect("the disk is full");
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{}", error.report());
    assert!(error.to_string().contains("the disk is full"), "{}", error.report());
    let error = sqlite(&mount.path().join("new.db")).await.expect_err("no room for a new one");
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{}", error.report());
    assert!(error.to_string().contains("the disk is full"), "{}", error.report());
    assert_eq!(session.list(&queue).await.expect("listed").queue[0].id, kept.snapshot.queue[0].id);
    fs::remove_file(filler).expect("removed");
    session.keep_alive().await.expect("extended");
    session.enter(&queue, &ContenderId::random(Mode::Write), &[7; 60_000]).await.expect("entered");
}

#[tokio::test]
async fn a_file_system_that_may_only_be_read_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let mount = Mount::new(&folder.path().join("still"), "size=2m");
    let path = mount.path().join("x.db");
    drop(sqlite(&path).await.expect("it opens"));
    closed(&path).await;
    mount.remount("ro");
    for name in ["x.db", "new.db"] {
        let error = sqlite(&mount.path().join(name)).await.expect_err("read-only");
        assert_eq!(error.kind(), ErrorKind::Denied, "{}", error.report());
        assert!(error.to_string().contains("writable"), "{error}");
    }
}

#[tokio::test]
async fn another_time_namespace_is_refused_while_the_file_is_in_use() {
    assert!(is_root(), "this test makes a time namespace: run it as root");
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("x.db");
    let backend = sqlite(&path).await.expect("it opens");
    let session = opened(&backend).await;
    let elsewhere = || {
        let command = process(&["unshare", "-T", "--boottime", "100000", "--fork"], "attempt", &path).output();
        outcome(&command.expect("unshare of util-linux runs"))
    };
    let refused = elsewhere();
    assert!(refused.starts_with("Config: ") && refused.contains("time namespace"), "{refused}");
    session.keep_alive().await.expect("nobody ended it");
    session.close().await.expect("closed");
    let granted = elsewhere();
    assert!(granted.starts_with("token "), "{granted}");
}

/// The default path is private to its user.
#[test]
fn the_default_file_is_made_in_a_private_directory() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = process(&[], "attempt-default", folder.path());
    let output = command.env("XDG_STATE_HOME", folder.path().join("state")).output().expect("it runs");
    assert!(outcome(&output).starts_with("token "));
    let made = folder.path().join("state/tenure");
    assert!(made.join("tenure.db").is_file());
    assert_eq!(fs::metadata(&made).expect("made").permissions().mode() & 0o777, 0o700);
}
