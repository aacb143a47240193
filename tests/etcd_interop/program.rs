//! Programs that wait for a lock, and hold it until their input ends.

use std::{
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use tenure_conformance::server::etcd::Etcd;
use tokio::{
    io::{AsyncBufReadExt, BufReader, Lines},
    process::{Child, ChildStdout, Command},
    sync::OnceCell,
    time::timeout,
};

/// Whose lock it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Go,
    Ours,
}

/// A running one. It is killed when it is dropped.
pub(crate) struct Program {
    child: Child,
    said: Lines<BufReader<ChildStdout>>,
}

impl Program {
    pub(crate) async fn start(kind: Kind, etcd: &Etcd, name: &str, ttl: Duration) -> Self {
        let (path, name) = match kind {
            Kind::Go => (built().await.clone(), format!("n/{name}")),
            Kind::Ours => (env!("CARGO_BIN_EXE_etcd-holder").into(), name.to_owned()),
        };
        Self::spawn(&path, &[&etcd.hosts(), &name, &ttl.as_secs().to_string()])
    }

    /// Go's, so many times in a row.
    pub(crate) async fn cycle(etcd: &Etcd, name: &str, count: u32, file: &Path) -> Self {
        let file = file.to_str().expect("an ordinary path");
        Self::spawn(built().await, &[&etcd.hosts(), &format!("n/{name}"), "10", &count.to_string(), file])
    }

    fn spawn(path: &Path, arguments: &[&str]) -> Self {
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL"]).arg(path).args(arguments).kill_on_drop(true);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
        let said = BufReader::new(child.stdout.take().expect("it is piped")).lines();
        Self { child, said }
    }

    /// The token, once it holds; `None` if it does not within the limit.
    pub(crate) async fn locked(&mut self, limit: Duration) -> Option<u64> {
        let line = self.next(limit).await?;
        Some(line.strip_prefix("locked ").and_then(|token| token.parse().ok()).unwrap_or_else(|| panic!("said {line}")))
    }

    /// It lets go, and ends.
    pub(crate) async fn release(mut self, limit: Duration) {
        drop(self.child.stdin.take());
        assert_eq!(self.next(limit).await.as_deref(), Some("released"));
        let status = timeout(limit, self.child.wait()).await.expect("it ends").expect("it is ours");
        assert!(status.success(), "{status}");
    }

    /// SIGKILL.
    pub(crate) async fn kill(mut self) {
        self.child.kill().await.expect("it is ours");
    }

    /// It has done what it was to do.
    pub(crate) async fn done(mut self, limit: Duration) {
        assert_eq!(self.next(limit).await.as_deref(), Some("done"), "it says above why not");
    }

    async fn next(&mut self, limit: Duration) -> Option<String> {
        let line = timeout(limit, self.said.next_line()).await.ok()?;
        Some(line.expect("it can be read").expect("it says above why it has ended"))
    }
}

/// The program in Go, built once.
async fn built() -> &'static PathBuf {
    static BUILT: OnceCell<PathBuf> = OnceCell::const_new();
    BUILT.get_or_init(build).await
}

async fn build() -> PathBuf {
    const MISSING: &str = "if it is not there: apt-get install golang-go golang-etcd-server-dev";
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("go-mutex");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("interop/mutex.go");
    let mut command = Command::new("go");
    command.env("GO111MODULE", "off").env("GOPATH", "/usr/share/gocode").kill_on_drop(true);
    command.args(["build", "-p=2", "-o"]).arg(&program).arg(source);
    let output = timeout(Duration::from_secs(300), command.output()).await.expect("it is built in five minutes");
    let output = output.unwrap_or_else(|error| panic!("cannot run go: {error}; {MISSING}"));
    assert!(output.status.success(), "{}; {MISSING}", String::from_utf8_lossy(&output.stderr));
    program
}
