//! A network namespace.

use std::{
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    sync::mpsc,
    thread::sleep,
    time::{Duration, Instant},
};

use tokio::runtime::{Builder, Runtime};

use crate::server::Process;

const SOON: Duration = Duration::from_secs(10);

/// A process that does nothing but keep a network namespace.
#[derive(Debug)]
pub(super) struct Namespace {
    holder: Process,
}

impl Namespace {
    pub(super) fn start(logs: &Path, name: &str) -> Self {
        let arguments = ["--net", "sleep", "infinity"].map(str::to_owned).into();
        let holder = Process::start("unshare", arguments, logs.join(name)).expect("it starts: is setpriv there?");
        let mut namespace = Self { holder };
        let (ours, end) = (fs::read_link("/proc/self/ns/net").expect("it is there"), Instant::now() + SOON);
        // Until it has become the program that unshares, and that has done so, it is where we are.
        while fs::read_link(namespace.path()).is_ok_and(|theirs| theirs == ours) {
            assert!(Instant::now() < end && !namespace.holder.has_ended(), "{}", namespace.holder.last_words());
            sleep(Duration::from_millis(1));
        }
        namespace
    }

    /// What `ip` calls it.
    pub(super) fn id(&self) -> u32 {
        self.holder.id()
    }

    pub(super) fn path(&self) -> PathBuf {
        format!("/proc/{}/ns/net", self.holder.id()).into()
    }

    pub(super) fn argument(&self) -> String {
        format!("--net={}", self.path().display())
    }

    pub(super) fn ip(&self, arguments: &str) {
        self.command("ip", &arguments.split(' ').collect::<Vec<_>>(), "");
    }

    pub(super) fn nft(&self, rules: &str) {
        self.command("nft", &["-f", "-"], rules);
    }

    fn command(&self, program: &str, arguments: &[&str], input: &str) {
        let child = Command::new("nsenter")
            .arg(self.argument())
            .arg(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        let mut child = child.expect("nsenter runs");
        let written = child.stdin.take().map(|mut stdin| stdin.write_all(input.as_bytes()));
        let Output { status, stderr, .. } = child.wait_with_output().expect("it ends");
        let said = String::from_utf8_lossy(&stderr);
        assert!(status.success() && !matches!(written, Some(Err(_))), "{program} {arguments:?} {input}: {said}");
    }

    /// A runtime all of whose threads are in the namespace.
    pub(super) fn runtime(&self) -> Runtime {
        let file = File::open(self.path()).expect("the holder runs");
        let enter = move || enter(&file).expect("we are root");
        let runtime = Builder::new_multi_thread().worker_threads(1).on_thread_start(enter).enable_all().build();
        let runtime = runtime.expect("a thread");
        let (say, hear) = mpsc::channel();
        runtime.spawn(async move { say.send(fs::read_link("/proc/thread-self/ns/net")) });
        let there = hear.recv_timeout(SOON).expect("the thread runs").expect("a link");
        assert_eq!(Some(there), fs::read_link(self.path()).ok(), "the thread is not in the namespace");
        runtime
    }
}

/// Moves the present thread into the namespace of the file.
#[cfg(target_os = "linux")]
fn enter(namespace: &File) -> io::Result<()> {
    use std::os::fd::AsFd;

    use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

    Ok(move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?)
}

#[cfg(not(target_os = "linux"))]
fn enter(_: &File) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}
