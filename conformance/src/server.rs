//! Servers that tests start themselves: on free ports, with their data in a directory that goes with them, killed when they are dropped, and
//! by the kernel if the test dies before that. A server that is not installed is a failure whose message is the command that installs it.

use std::{
    env,
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::{Instant, sleep, timeout},
};

pub mod etcd;
mod place;
mod ports;
pub mod postgres;
pub mod s3;
pub mod zookeeper;

pub use self::{place::Place, ports::free_port};

/// A process that a test has started: the only kind that it may stop or kill.
#[derive(Debug)]
pub struct Process {
    program: PathBuf,
    arguments: Vec<String>,
    log: PathBuf,
    /// Whom it runs as, if not as we do.
    user: Option<&'static str>,
    child: Child,
}

impl Process {
    /// Starts a program; what it says goes to the file `log`.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn start(program: impl Into<PathBuf>, arguments: Vec<String>, log: PathBuf) -> io::Result<Self> {
        Self::start_as(None, program, arguments, log)
    }

    /// Starts a program that refuses to run as root as this user.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn start_as(
        user: Option<&'static str>,
        program: impl Into<PathBuf>,
        arguments: Vec<String>,
        log: PathBuf,
    ) -> io::Result<Self> {
        let program = program.into();
        let child = spawn(user, &program, &arguments, &log)?;
        Ok(Self { program, arguments, log, user, child })
    }

    /// SIGSTOP: it is silent, but its connections stay open. Returns once all its threads stand still.
    pub fn stop(&self) {
        self.signal(Signal::STOP);
        let end = std::time::Instant::now() + Duration::from_secs(5);
        while !self.stands_still() {
            assert!(std::time::Instant::now() < end, "it does not stop");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// SIGCONT.
    pub fn cont(&self) {
        self.signal(Signal::CONT);
    }

    /// SIGKILL, and waits until it has ended.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Starts it again as it was, after a kill.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn restart(&mut self) -> io::Result<()> {
        self.kill();
        self.child = spawn(self.user, &self.program, &self.arguments, &self.log)?;
        Ok(())
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Whether it has ended by itself.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().is_ok_and(|ended| ended.is_some())
    }

    /// The end of what it has said.
    pub fn last_words(&self) -> String {
        let said = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<_> = said.lines().collect();
        lines[lines.len().saturating_sub(12)..].join("\n")
    }

    fn stands_still(&self) -> bool {
        let Ok(threads) = fs::read_dir(format!("/proc/{}/task", self.child.id())) else { return false };
        threads.flatten().all(|thread| {
            let stat = fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
            stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T'))
        })
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal)
            .expect("it has not been waited for, so the process id is its own");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

fn spawn(user: Option<&str>, program: &Path, arguments: &[String], log: &Path) -> io::Result<Child> {
    let said = File::options().create(true).append(true).open(log)?;
    let user = user.map(|user| ["--reuid", user, "--regid", user, "--clear-groups"]);
    // The kernel kills it if the thread that started it ends: that of the test.
    Command::new("setpriv")
        .args(["--pdeathsig", "KILL"])
        .args(user.into_iter().flatten())
        .arg(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(said.try_clone()?)
        .stderr(said)
        .spawn()
}

/// Where an installed program is: on the PATH, or in one of these folders.
///
/// # Panics
/// If it is not installed, with the command that installs it.
fn installed(program: &str, folders: &[&str], install: &str) -> PathBuf {
    let path = env::var_os("PATH").unwrap_or_default();
    let found = env::split_paths(&path).chain(folders.iter().map(PathBuf::from)).map(|folder| folder.join(program));
    found.into_iter().find(|path| path.exists()).unwrap_or_else(|| panic!("{program} is missing: run `{install}`"))
}

/// Where what no distribution has is put, by scripts in `ci/`.
fn cache() -> PathBuf {
    let cache = env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| env::var_os("HOME").map(|home| Path::new(&home).join(".cache")));
    cache.expect("HOME is set").join("tenure")
}

/// The body of the answer to an HTTP request without TLS, or `None` if there is no good one soon.
pub async fn http_get(port: u16, path: &str) -> Option<String> {
    let exchange = async {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await.ok()?;
        let request = format!("GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n");
        stream.write_all(request.as_bytes()).await.ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.ok()?;
        let (head, body) = answer.split_once("\r\n\r\n")?;
        head.lines().next()?.contains(" 200").then(|| body.to_owned())
    };
    timeout(Duration::from_secs(1), exchange).await.ok().flatten()
}

/// Waits until `probe` says yes; `false` if it does not within the limit. The probe must end by itself.
pub async fn until<F: Future<Output = bool>>(limit: Duration, mut probe: impl FnMut() -> F) -> bool {
    let end = Instant::now() + limit;
    while !probe().await {
        if Instant::now() > end {
            return false;
        }
        sleep(Duration::from_millis(20)).await;
    }
    true
}
