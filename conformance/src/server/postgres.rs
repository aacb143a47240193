//! Postgres, and PgBouncer in front of it.

use std::{
    fs,
    net::{Ipv4Addr, SocketAddr},
    os::unix::fs::chown,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    time::Duration,
};

use rustix::process::{Signal, getuid};
use tempfile::TempDir;

use super::{Process, free_port, installed, until};

const INSTALL: &str = "apt-get install postgresql";

/// A server with an empty database, `postgres`, whose owner is the role `postgres`; nobody is asked for a password.
#[derive(Debug)]
pub struct Postgres {
    /// The server, to stop and to kill.
    pub process: Process,
    /// Where it listens.
    pub address: SocketAddr,
    _folder: TempDir,
}

impl Postgres {
    /// Starts one, and returns once it serves.
    ///
    /// # Panics
    /// If it does not within half a minute, with its last words.
    pub async fn start() -> Self {
        for _ in 0..3 {
            let folder = own_folder();
            initialise(folder.path());
            let port = free_port();
            let (flags, log) = (flags(folder.path(), port), folder.path().join("log"));
            let process = Process::start_as(user(), program("postgres"), flags, log);
            let process = process.expect("it starts: is setpriv there?");
            let mut postgres = Self { process, address: (Ipv4Addr::LOCALHOST, port).into(), _folder: folder };
            if postgres.serves(Duration::from_secs(30)).await {
                return postgres;
            }
            // Somebody else may have taken the port meanwhile.
            let said = postgres.process.last_words();
            assert!(said.contains("Address already in use"), "postgres does not start: {said}");
        }
        panic!("no free port for postgres");
    }

    /// How clients find it, as `postgres` unless another user is named.
    pub fn url(&self, user: &str) -> String {
        format!("postgres://{user}@{}/postgres", self.address)
    }

    /// Waits until it answers.
    pub async fn serves(&mut self, limit: Duration) -> bool {
        let port = self.address.port().to_string();
        let ready = || {
            let asked = Command::new(program("pg_isready")).args(["-q", "-h", "127.0.0.1", "-p", &port]).status();
            std::future::ready(asked.is_ok_and(|status| status.success()))
        };
        let process = &mut self.process;
        tokio::select! {
            serves = until(limit, ready) => serves,
            _ = until(limit, || std::future::ready(process.has_ended())) => false,
        }
    }

    /// `psql` for it, as this user; it stops at the first error.
    pub fn psql(&self, user: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(program("psql"));
        command.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", &self.url(user)]).args(arguments);
        command
    }

    /// Runs statements as the owner: what they say.
    ///
    /// # Panics
    /// If they fail.
    pub fn control(&self, statements: &str) -> String {
        let Output { status, stdout, stderr } = self.psql("postgres", &["-c", statements]).output().expect("it runs");
        assert!(status.success(), "{statements}: {}", String::from_utf8_lossy(&stderr));
        String::from_utf8_lossy(&stdout).trim_end().to_owned()
    }
}

impl Drop for Postgres {
    /// Killed outright, it would leave a segment of shared memory to the machine.
    fn drop(&mut self) {
        if !self.process.has_ended() {
            self.process.cont(); // it may stand still
            self.process.signal(Signal::QUIT);
        }
        let end = std::time::Instant::now() + Duration::from_secs(3);
        while !self.process.has_ended() && std::time::Instant::now() < end {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// PgBouncer in transaction mode: every transaction may run on another connection to the server, and those are few.
#[derive(Debug)]
pub struct PgBouncer {
    /// Where it listens.
    pub address: SocketAddr,
    /// Ends with us.
    _process: Process,
    _folder: TempDir,
}

impl PgBouncer {
    /// Starts one in front of a server, with two connections to it.
    ///
    /// # Panics
    /// If it does not serve within ten seconds, with its last words.
    pub async fn start(server: &Postgres) -> Self {
        let (folder, port, behind) = (own_folder(), free_port(), server.address.port());
        let settings = folder.path().join("pgbouncer.ini");
        let text = format!(
            "[databases]\npostgres = host=127.0.0.1 port={behind} user=postgres\n[pgbouncer]\npool_mode = transaction\n\
             listen_addr = 127.0.0.1\nlisten_port = {port}\nauth_type = any\ndefault_pool_size = 2\nunix_socket_dir =\n\
             ignore_startup_parameters = extra_float_digits\n"
        );
        fs::write(&settings, text).expect("it can be written");
        let program = installed("pgbouncer", &["/usr/sbin"], "apt-get install pgbouncer");
        let log = folder.path().join("log");
        let process = Process::start_as(user(), program, vec![settings.display().to_string()], log);
        let process = process.expect("it starts: is setpriv there?");
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let listens = || async { tokio::net::TcpStream::connect(address).await.is_ok() };
        assert!(until(Duration::from_secs(10), listens).await, "pgbouncer: {}", process.last_words());
        Self { address, _process: process, _folder: folder }
    }
}

fn flags(folder: &Path, port: u16) -> Vec<String> {
    let settings = [
        "listen_addresses=127.0.0.1".to_owned(),
        format!("port={port}"),
        format!("unix_socket_directories={}", folder.display()),
        // The tests kill processes, not the machine.
        "fsync=off".to_owned(),
        "shared_buffers=16MB".to_owned(),
        // In its own folder, so that a kill leaves nothing elsewhere.
        "dynamic_shared_memory_type=mmap".to_owned(),
    ];
    let settings = settings.into_iter().flat_map(|setting| ["-c".to_owned(), setting]);
    ["-D".to_owned(), folder.join("data").display().to_string()].into_iter().chain(settings).collect()
}

fn initialise(folder: &Path) {
    let mut command = match user() {
        Some(user) => {
            let mut command = Command::new("setpriv");
            command.args(["--reuid", user, "--regid", user, "--clear-groups"]).arg(program("initdb"));
            command
        }
        None => Command::new(program("initdb")),
    };
    command.args(["--no-sync", "--auth=trust", "--username=postgres", "--encoding=UTF8", "--locale=C", "-D"]);
    let made = command.arg(folder.join("data")).current_dir(folder).stdin(Stdio::null()).output().expect("it runs");
    assert!(made.status.success(), "initdb: {}", String::from_utf8_lossy(&made.stderr));
}

/// Where Debian puts what is not on the PATH, newest first.
fn program(name: &str) -> PathBuf {
    let folders: Vec<_> = (13..30).rev().map(|version| format!("/usr/lib/postgresql/{version}/bin")).collect();
    installed(name, &folders.iter().map(String::as_str).collect::<Vec<_>>(), INSTALL)
}

/// They refuse to run as root; the package brings a user for them.
fn user() -> Option<&'static str> {
    getuid().is_root().then_some("postgres")
}

/// A folder that belongs to that user.
fn own_folder() -> TempDir {
    let folder = tempfile::tempdir().expect("a directory");
    if let Some(user) = user() {
        let number = |kind| {
            let said = Command::new("id").args([kind, user]).output().expect("it runs").stdout;
            String::from_utf8_lossy(&said).trim().parse().unwrap_or_else(|_| panic!("no user {user}: run `{INSTALL}`"))
        };
        chown(folder.path(), Some(number("-u")), Some(number("-g"))).expect("we are root");
    }
    folder
}
