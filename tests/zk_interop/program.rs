//! Programs that lock and release as they are told.

use std::{
    env,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use tenure_conformance::server::zookeeper::Zookeeper;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout, Command},
    sync::OnceCell,
    time::timeout,
};

/// Whose lock it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Ours,
    Curator,
    Kazoo,
    /// A recipe on the client `zookeeper-async`.
    Async,
}

/// A virtual machine takes a second, on an idle processor.
const START: Duration = Duration::from_secs(30);

/// What everybody's queue of that name is called.
fn path(name: &str) -> String {
    format!("/n/{name}")
}

impl Kind {
    pub(crate) const FOREIGN: [Self; 3] = [Self::Curator, Self::Kazoo, Self::Async];

    /// The program and its first arguments.
    async fn command(self) -> Command {
        match self {
            Self::Ours => Command::new(env!("CARGO_BIN_EXE_zk-holder")),
            Self::Async => Command::new(env!("CARGO_BIN_EXE_zookeeper-async-holder")),
            Self::Kazoo => kazoo(),
            Self::Curator => curator().await,
        }
    }
}

/// A running one. It is killed when it is dropped.
pub(crate) struct Program {
    kind: Kind,
    child: Child,
    input: Option<ChildStdin>,
    said: Lines<BufReader<ChildStdout>>,
}

impl Program {
    pub(crate) async fn start(kind: Kind, zookeeper: &Zookeeper, name: &str, ttl: Duration) -> Self {
        Self::spawn(kind, &[&zookeeper.hosts(), &path(name), &ttl.as_secs().to_string()]).await
    }

    /// So many times in a row, once it is told to begin.
    pub(crate) async fn cycle(kind: Kind, zookeeper: &Zookeeper, name: &str, count: u32, file: &Path) -> Self {
        let file = file.to_str().expect("an ordinary path");
        Self::spawn(kind, &[&zookeeper.hosts(), &path(name), "10", &count.to_string(), file]).await
    }

    async fn spawn(kind: Kind, arguments: &[&str]) -> Self {
        let program = kind.command().await;
        let program = program.as_std();
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL"]).arg(program.get_program()).args(program.get_args()).args(arguments);
        command.envs(program.get_envs().filter_map(|(name, value)| Some((name, value?)))).kill_on_drop(true);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
        let said = BufReader::new(child.stdout.take().expect("it is piped")).lines();
        let mut program = Self { kind, input: child.stdin.take(), child, said };
        assert_eq!(program.next(START).await.as_deref(), Some("ready"), "{kind:?}");
        program
    }

    pub(crate) fn kind(&self) -> Kind {
        self.kind
    }

    /// It begins to wait for the lock.
    pub(crate) async fn lock(&mut self) {
        self.tell("lock\n").await;
    }

    /// The token, once it holds; `None` if it does not within the limit.
    pub(crate) async fn locked(&mut self, limit: Duration) -> Option<u64> {
        let line = self.next(limit).await?;
        let token = line.strip_prefix("locked ").and_then(|token| token.parse().ok());
        Some(token.unwrap_or_else(|| panic!("{:?} said {line}", self.kind)))
    }

    /// It lets go.
    pub(crate) async fn release(&mut self, limit: Duration) {
        self.tell("release\n").await;
        assert_eq!(self.next(limit).await.as_deref(), Some("released"), "{:?}", self.kind);
    }

    /// It ends in order.
    pub(crate) async fn end(mut self, limit: Duration) {
        drop(self.input.take());
        let status = timeout(limit, self.child.wait()).await.expect("it ends").expect("it is ours");
        assert!(status.success(), "{:?}: {status}", self.kind);
    }

    /// SIGKILL.
    pub(crate) async fn kill(mut self) {
        self.child.kill().await.expect("it is ours");
    }

    pub(crate) async fn begin(&mut self) {
        self.tell("begin\n").await;
    }

    /// It has done what it was to do.
    pub(crate) async fn done(mut self, limit: Duration) {
        assert_eq!(self.next(limit).await.as_deref(), Some("done"), "{:?} says above why not", self.kind);
    }

    async fn tell(&mut self, line: &str) {
        let input = self.input.as_mut().expect("it has not been ended");
        input.write_all(line.as_bytes()).await.expect("it says above why it has ended");
    }

    async fn next(&mut self, limit: Duration) -> Option<String> {
        let line = timeout(limit, self.said.next_line()).await.ok()?;
        Some(line.expect("it can be read").unwrap_or_else(|| panic!("{:?} says above why it has ended", self.kind)))
    }
}

fn interop(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("interop").join(file)
}

fn kazoo() -> Command {
    let cache = env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| env::var_os("HOME").map(|home| Path::new(&home).join(".cache")));
    let library = cache.expect("HOME is set").join("tenure/kazoo-2.11.0");
    assert!(library.exists(), "kazoo is missing: run `ci/kazoo`");
    let mut command = Command::new("python3");
    command.env("PYTHONPATH", library).arg(interop("kazoo_lock.py"));
    command
}

/// The program in Java, built once.
async fn curator() -> Command {
    static BUILT: OnceCell<PathBuf> = OnceCell::const_new();
    let classes = BUILT.get_or_init(build).await;
    let mut command = Command::new("java");
    command.args(["-Xmx64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData"]);
    command.arg("-Dorg.slf4j.simpleLogger.defaultLogLevel=error");
    command.arg("-cp").arg(format!("{}:{}", classes.display(), JARS.join(":"))).arg("CuratorMutex");
    command
}

const JARS: [&str; 3] = [
    "/usr/share/java/curator-recipes.jar",
    "/usr/share/java/curator-framework.jar",
    "/usr/share/java/slf4j-simple.jar",
];

async fn build() -> PathBuf {
    const MISSING: &str =
        "if it is not there: apt-get install default-jdk-headless libcurator-recipes-java libcurator-framework-java";
    let classes = Path::new(env!("CARGO_TARGET_TMPDIR")).join("curator");
    let mut command = Command::new("javac");
    command.arg("-cp").arg(JARS.join(":")).arg("-d").arg(&classes).arg(interop("CuratorMutex.java"));
    let building = timeout(Duration::from_secs(120), command.kill_on_drop(true).output()).await;
    let output = building.expect("it is built in two minutes");
    let output = output.unwrap_or_else(|error| panic!("cannot run javac: {error}; {MISSING}"));
    assert!(output.status.success(), "{}; {MISSING}", String::from_utf8_lossy(&output.stderr));
    classes
}
