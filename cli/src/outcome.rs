//! How it ended: as an exit code, as a sentence, and as a line of JSON.

use std::{
    fmt,
    fs::{self, File, OpenOptions},
    io::{self, IsTerminal, Write},
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use rustix::process::Signal;
use serde::Serialize;
use tenure::{Error, ErrorKind};

use crate::protocol::End;

/// What `tenure` itself exits with, after sysexits.h and flock(1).
pub(crate) mod code {
    /// The command line is wrong.
    pub(crate) const USAGE: u8 = 64;
    /// The backend cannot be reached.
    pub(crate) const UNAVAILABLE: u8 = 69;
    /// A failure that nobody is known to be at fault for.
    pub(crate) const UNEXPECTED: u8 = 70;
    /// Somebody else has the lock.
    pub(crate) const NOT_ACQUIRED: u8 = 75;
    /// The lock was lost while the command ran.
    pub(crate) const LOST: u8 = 76;
    /// The configuration is wrong.
    pub(crate) const CONFIG: u8 = 78;
}

/// What a command is run under.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Subject<'a> {
    /// This lock.
    Lock(&'a str),
    /// This election.
    Leadership(&'a str),
}

impl Subject<'_> {
    /// The name of the queue.
    pub(crate) fn name(&self) -> &str {
        let (Self::Lock(name) | Self::Leadership(name)) = self;
        name
    }
}

impl fmt::Display for Subject<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lock(name) => write!(f, "the lock '{name}'"),
            Self::Leadership(name) => write!(f, "the leadership of '{name}'"),
        }
    }
}

/// How it ended.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// The command ended while the lock was held.
    Completed(End),
    /// There was nothing to do: it had succeeded before.
    DoneBefore { token: u64, host: String, at: String },
    /// Somebody else had the lock; with the code that was asked for.
    NotAcquired(u8),
    /// The lock was lost before the command had ended by itself.
    Lost { reason: String, end: Option<End> },
    /// A signal ended the waiting.
    Interrupted(Signal),
    /// The command could not be run: 126 or 127.
    NotStarted { code: u8, why: String },
    /// It failed.
    Failed { code: u8, why: String },
}

impl From<Error> for Outcome {
    fn from(error: Error) -> Self {
        let code = match error.kind() {
            ErrorKind::Unavailable | ErrorKind::SessionLost => code::UNAVAILABLE,
            // Credentials and permissions are part of what an operator has to set up.
            ErrorKind::Config | ErrorKind::Unsupported | ErrorKind::Denied => code::CONFIG,
            _ => code::UNEXPECTED,
        };
        Self::Failed { code, why: error.report() }
    }
}

impl Outcome {
    /// A failure of the system that has no code of its own.
    pub(crate) fn failed(what: &str, error: &io::Error) -> Self {
        Self::Failed { code: code::UNEXPECTED, why: format!("{what}: {error}") }
    }

    /// What to exit with.
    pub(crate) fn exit_code(&self) -> u8 {
        let by_signal = |signal: i32| u8::try_from(128 + signal).unwrap_or(u8::MAX);
        match self {
            Self::DoneBefore { .. } => 0,
            Self::Completed(End::Code(code)) => u8::try_from(*code).unwrap_or(u8::MAX),
            Self::Completed(End::Signal(signal)) => by_signal(*signal),
            Self::Interrupted(signal) => by_signal(signal.as_raw()),
            Self::NotAcquired(code) | Self::NotStarted { code, .. } | Self::Failed { code, .. } => *code,
            Self::Lost { .. } => code::LOST,
        }
    }

    /// What people are told, if anything.
    pub(crate) fn sentence(&self, subject: Subject<'_>) -> Option<String> {
        match self {
            Self::Completed(_) | Self::Interrupted(_) => None,
            Self::DoneBefore { .. } if !io::stderr().is_terminal() => None,
            Self::DoneBefore { .. } => Some(format!("'{}' {}", subject.name(), self.reason().unwrap_or_default())),
            // As flock(1): a job of cron that does not get its turn is no reason for a mail.
            Self::NotAcquired(_) if !io::stderr().is_terminal() => None,
            Self::NotAcquired(_) => {
                Some(format!("'{}' is locked by somebody else: wait with -w SECONDS, or try later", subject.name()))
            }
            Self::Lost { reason, .. } => Some(format!("{subject} was lost: {reason}")),
            Self::NotStarted { why, .. } => Some(format!("the command {why}")),
            Self::Failed { why, .. } => Some(why.clone()),
        }
    }

    fn word(&self) -> &'static str {
        match self {
            Self::Completed(_) => "completed",
            Self::DoneBefore { .. } => "done-before",
            Self::NotAcquired(_) => "not-acquired",
            Self::Lost { .. } => "lost",
            Self::Interrupted(_) => "interrupted",
            Self::NotStarted { .. } => "command-not-started",
            Self::Failed { .. } => "error",
        }
    }

    fn reason(&self) -> Option<String> {
        match self {
            Self::Completed(_) => None,
            Self::DoneBefore { token, host, at } => {
                Some(format!("was done before, with token {token} on {host} at {at} by its clock"))
            }
            Self::NotAcquired(_) => Some("somebody else holds the lock or waits for it".to_owned()),
            Self::Interrupted(signal) => Some(format!("signal {} while waiting", signal.as_raw())),
            Self::Lost { reason, .. } => Some(reason.clone()),
            Self::NotStarted { why, .. } | Self::Failed { why, .. } => Some(why.clone()),
        }
    }

    fn end(&self) -> Option<End> {
        match self {
            Self::Completed(end) => Some(*end),
            Self::Lost { end, .. } => *end,
            _ => None,
        }
    }
}

/// What is known beside the outcome.
#[derive(Debug, Default)]
pub(crate) struct Facts {
    pub(crate) token: Option<u64>,
    pub(crate) waited: Option<Duration>,
    pub(crate) held: Option<Duration>,
    pub(crate) backend: Option<String>,
    /// How often it has led, in an election.
    pub(crate) terms: Option<u64>,
}

#[derive(Serialize)]
struct Record<'a> {
    name: &'a str,
    outcome: &'static str,
    exit_code: u8,
    token: Option<u64>,
    child: Option<End>,
    reason: Option<String>,
    waited_ms: Option<u64>,
    held_ms: Option<u64>,
    backend: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    terms: Option<u64>,
}

/// Tells people and programs, and gives the code to exit with.
pub(crate) fn tell(subject: Subject<'_>, outcome: &Outcome, facts: &Facts, file: Option<ResultFile>) -> ExitCode {
    if let Some(sentence) = outcome.sentence(subject) {
        crate::say(&sentence);
    }
    let millis = |span: Duration| u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
    let record = Record {
        name: subject.name(),
        outcome: outcome.word(),
        exit_code: outcome.exit_code(),
        token: facts.token,
        child: outcome.end(),
        reason: outcome.reason(),
        waited_ms: facts.waited.map(millis),
        held_ms: facts.held.map(millis),
        backend: facts.backend.as_deref(),
        terms: facts.terms,
    };
    if let Some(file) = file {
        let path = file.path.clone();
        if let Err(error) = file.write(&crate::protocol::line(&record)) {
            crate::say(&format!("the result file {} could not be written: {error}", path.display()));
        }
    }
    ExitCode::from(outcome.exit_code())
}

/// Where the outcome is written: empty from the start, so that no earlier outcome is taken for this one.
#[derive(Debug)]
pub(crate) struct ResultFile {
    path: PathBuf,
    file: File,
}

impl ResultFile {
    /// Opens it, and empties it.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().create(true).write(true).truncate(true).open(path)?;
        Ok(Self { path: path.to_owned(), file })
    }

    /// A plain file is replaced as a whole: another `tenure` with the same file may write at the same time.
    fn write(mut self, line: &[u8]) -> io::Result<()> {
        if self.file.metadata()?.is_file() {
            let path = fs::canonicalize(&self.path).unwrap_or_else(|_| self.path.clone());
            let mut new = path.clone().into_os_string();
            new.push(format!(".{}", std::process::id()));
            if fs::write(&new, line).and_then(|()| fs::rename(&new, &path)).is_ok() {
                return Ok(());
            }
            let _ = fs::remove_file(&new);
            self.file.set_len(0)?; // the folder cannot be written to, but the file can
        }
        self.file.write_all(line)
    }
}
