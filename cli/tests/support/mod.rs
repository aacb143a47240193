//! What the tests of the command line share: a folder with a database, and processes that end with the test.
#![allow(dead_code, unreachable_pub, reason = "every test program uses a part of it")]

use std::{
    env, fs,
    path::PathBuf,
    process::{Child, Command, ExitStatus, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

/// Longer than anything here takes, on a busy machine too.
pub const LONG: Duration = Duration::from_secs(30);

/// A folder with a database of its own, unless it is for a backend elsewhere.
pub struct Room {
    dir: TempDir,
    url: String,
}

impl Room {
    pub fn new() -> Self {
        Self::with_ttl("5s")
    }

    pub fn with_ttl(ttl: &str) -> Self {
        let mut room = Self::on(String::new());
        room.url = format!("sqlite:{}?ttl={ttl}", room.path("tenure.db").display());
        room
    }

    pub fn on(url: String) -> Self {
        Self { dir: tempfile::tempdir().expect("a folder"), url }
    }

    pub fn url(&self) -> String {
        self.url.clone()
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    pub fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).expect("written");
    }

    /// The second database connection, for an operator who removes things or stands in the way.
    pub fn database(&self) -> rusqlite::Connection {
        rusqlite::Connection::open(self.path("tenure.db")).expect("a database")
    }

    /// How many entries there are, in all queues.
    pub fn entries(&self) -> i64 {
        self.database().query_row("SELECT count(*) FROM entries", [], |row| row.get(0)).expect("the table is there")
    }

    /// `tenure` in this folder, on this backend, away from the user's own settings.
    pub fn tenure(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tenure"));
        command.args(words).current_dir(self.dir.path()).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        for (name, _) in env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("TENURE_")) {
            command.env_remove(name);
        }
        command.env("TENURE_URL", self.url()).env("HOME", self.dir.path());
        command.env_remove("XDG_CONFIG_HOME").env_remove("XDG_STATE_HOME");
        command
    }

    pub fn start(&self, words: &[&str]) -> Running {
        Running::start(&mut self.tenure(words))
    }

    /// Runs it to its end.
    pub fn run(&self, words: &[&str]) -> Output {
        self.start(words).output()
    }

    /// Starts `tenure lock` with a shell script, and waits until the script says `ready` by making a file of that name.
    pub fn start_ready(&self, words: &[&str], script: &str) -> Running {
        let script = format!("{script}\n");
        let running = self.start(&[&["lock"], words, &["--", "sh", "-c", &script]].concat());
        until("the command to be ready", || self.path("ready").exists());
        running
    }

    /// Waits until so many entries are in the database.
    pub fn until_entries(&self, count: i64) {
        until("the entries", || self.entries() == count);
    }

    /// The living processes that work in this folder: this test has started them all.
    pub fn inhabitants(&self) -> Vec<i32> {
        let here = fs::canonicalize(self.dir.path()).expect("it is still there");
        let is_here = |pid: &i32| fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| cwd == here);
        processes().filter(is_here).filter(|pid| is_alive(*pid)).collect()
    }

    /// The only line of the result file.
    pub fn result(&self) -> Value {
        let text = self.read("result.json");
        assert_eq!(text.lines().count(), 1, "{text}");
        serde_json::from_str(&text).expect("JSON")
    }
}

/// If the test fails, that may be because the product did not end what it should have ended.
impl Drop for Room {
    fn drop(&mut self) {
        for pid in self.inhabitants() {
            let _ = Pid::from_raw(pid).map(|pid| kill_process(pid, Signal::KILL));
        }
    }
}

fn processes() -> impl Iterator<Item = i32> {
    let all = fs::read_dir("/proc").expect("Linux").flatten();
    all.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// A process that is killed when the test is over.
pub struct Running(Option<Child>);

impl Running {
    pub fn start(command: &mut Command) -> Self {
        Self(Some(command.spawn().expect("it starts")))
    }

    fn child(&mut self) -> &mut Child {
        self.0.as_mut().expect("it was not waited for")
    }

    pub fn pid(&mut self) -> i32 {
        i32::try_from(self.child().id()).expect("a pid")
    }

    pub fn signal(&mut self, signal: Signal) {
        let pid = self.pid();
        send(pid, signal);
    }

    pub fn is_running(&mut self) -> bool {
        self.child().try_wait().expect("our child").is_none()
    }

    /// Its exit status; the test fails if it does not end.
    pub fn status(&mut self) -> ExitStatus {
        until("the end of a process", || !self.is_running());
        self.child().wait().expect("it has ended")
    }

    pub fn code(&mut self) -> i32 {
        self.status().code().expect("an exit code")
    }

    /// What it wrote; only for little, which fits into a pipe.
    pub fn output(mut self) -> Output {
        self.status();
        self.0.take().expect("it was not waited for").wait_with_output().expect("readable")
    }

    /// Its watchdog.
    pub fn watchdog(&mut self) -> i32 {
        let parent = self.pid();
        found("the watchdog", || children(parent).into_iter().find(|pid| name(*pid) == "tenure-watchdog"))
    }
}

impl From<Child> for Running {
    fn from(child: Child) -> Self {
        Self(Some(child))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

pub fn send(pid: i32, signal: Signal) {
    kill_process(Pid::from_raw(pid).expect("a pid"), signal).expect("it is there");
}

fn name(pid: i32) -> String {
    fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default().trim().to_owned()
}

pub fn children(parent: i32) -> Vec<i32> {
    let list = fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).unwrap_or_default();
    list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}

/// Whether it acts: a zombie does not.
pub fn is_alive(pid: i32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    status.lines().any(|line| line.starts_with("State:") && !line.contains(['Z', 'X']))
}

pub fn until(what: &str, mut done: impl FnMut() -> bool) {
    found(what, || done().then_some(()));
}

pub fn found<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(it) = look() {
            return it;
        }
        assert!(start.elapsed() < LONG, "waited in vain for {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Milliseconds since boot, suspended time included.
pub fn now_ms() -> u128 {
    let text = fs::read_to_string("/proc/uptime").expect("Linux");
    let seconds: f64 = text.split(' ').next().expect("a number").parse().expect("a number");
    Duration::from_secs_f64(seconds).as_millis()
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// All that is said is ours: a line each, nothing else.
pub fn assert_one_line(output: &Output, says: &str) {
    let stderr = text(&output.stderr);
    assert!(stderr.starts_with("tenure: ") && stderr.lines().count() == 1, "{stderr}");
    assert!(stderr.contains(says), "{stderr}");
    assert_eq!(text(&output.stdout), "");
}
