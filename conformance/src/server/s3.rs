//! `moto`, which speaks the protocol of S3 and keeps its objects in memory: a stand-in for the service, with its conditional writes and its
//! etags (the MD5 of the content).

use std::{
    net::{Ipv4Addr, SocketAddr},
    process::Command,
    time::Duration,
};

use tempfile::TempDir;

use super::{Process, free_port, installed, until};

/// One request at a time: moto looks at the condition and writes in two steps, and two requests in two threads get between them.
const PROGRAM: &str = "
import sys
sys.path.insert(0, sys.argv[2])
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import run_simple
run_simple('127.0.0.1', int(sys.argv[1]), DomainDispatcherApplication(create_backend_app), threaded=False)
";

/// A server without any bucket.
#[derive(Debug)]
pub struct S3 {
    /// The server, to stop.
    pub process: Process,
    /// Where it listens. Any credentials will do.
    pub address: SocketAddr,
    _folder: TempDir,
}

impl S3 {
    /// Starts one, and returns once it listens.
    ///
    /// # Panics
    /// If it does not within half a minute, with its last words.
    pub async fn start() -> Self {
        let cache = super::cache().join("moto").display().to_string();
        let python = installed("python3", &[], "apt-get install python3");
        let there =
            Command::new(&python).args(["-c", "import moto.server, flask, werkzeug"]).output().expect("it runs");
        assert!(there.status.success(), "moto is missing: run `ci/moto`");
        let (folder, port) = (tempfile::tempdir().expect("a directory"), free_port());
        let arguments = ["-c".to_owned(), PROGRAM.to_owned(), port.to_string(), cache];
        let process = Process::start(python, arguments.into(), folder.path().join("log"));
        let process = process.expect("it starts: is setpriv there?");
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let listens = || async { tokio::net::TcpStream::connect(address).await.is_ok() };
        assert!(until(Duration::from_secs(30), listens).await, "moto: {}", process.last_words());
        Self { process, address, _folder: folder }
    }
}
