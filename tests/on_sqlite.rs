//! What the tests on SQLite share.

use std::{
    future::Future,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use tenure_core::{Clock, Config, Coordinator, Options, Result};
use tenure_sqlite::SqliteBackend;

/// The ttl of holders that are killed or stopped.
pub const TTL: Duration = Duration::from_secs(2);

/// Bounds a wait: longer than anything here takes on a slow machine.
pub async fn within<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), work).await.expect("it ends in time")
}

/// Opens a file.
pub async fn sqlite(path: &Path) -> Result<SqliteBackend> {
    let mut config = Config::new("sqlite");
    config.path = Some(path.to_owned());
    within(SqliteBackend::connect(&config, &Clock::system())).await
}

/// A coordinator on a file, with this ttl.
pub async fn coordinator(path: &Path, ttl: Duration) -> Coordinator {
    let mut options = Options::default();
    options.ttl = ttl;
    Coordinator::new(sqlite(path).await.expect("it opens"), options).expect("good options")
}

/// The program of `sqlite_process.rs`, told what to do to which file, perhaps under a wrapper such as `setpriv ..`.
pub fn process(program: &Path, wrapper: &[&str], what: &str, path: &Path) -> Command {
    let mut words = wrapper.iter().map(PathBuf::from).chain([program.to_owned()]);
    let mut command = Command::new(words.next().expect("a program"));
    command.args(words).arg(what).arg(path).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Ends a process with the test.
pub struct Killed(pub Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
