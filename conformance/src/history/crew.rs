//! The worker processes, and what can be done to them.

use std::{
    io,
    path::PathBuf,
    process::{ExitStatus, Stdio},
    sync::Arc,
    time::Duration,
};

use tenure_core::Clock;
use tokio::{
    io::AsyncWriteExt,
    process::{Child, ChildStdin, Command},
    sync::{Mutex, OwnedMutexGuard},
    time::{Instant, sleep, timeout},
};

use super::{Answer, Event, Settings, What, journal, now};
use crate::dice::Dice;

/// The worker processes of a run. Cheap to clone; all of them are killed when the last clone is dropped.
#[derive(Clone, Debug)]
pub struct Crew(Arc<Vec<Arc<Mutex<Process>>>>);

/// One worker, through all its lives. Killed when dropped.
#[derive(Debug)]
pub struct Process {
    plan: Arc<Plan>,
    settings: Settings,
    child: Child,
    /// It ends when this is closed.
    stdin: Option<ChildStdin>,
}

/// What all workers have in common.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) program: PathBuf,
    pub(super) folder: PathBuf,
}

impl Crew {
    pub(super) async fn start(plan: Plan, size: usize, settings: Settings) -> io::Result<Self> {
        let plan = Arc::new(plan);
        let mut workers = Vec::new();
        for worker in 0..size {
            let process = Process::start(plan.clone(), Settings { worker, ..settings.clone() }).await?;
            workers.push(Arc::new(Mutex::new(process)));
        }
        Ok(Self(Arc::new(workers)))
    }

    /// A worker that nothing else is being done to, stopped by SIGSTOP. If a `holder` is wanted, it is one that holds the lock, has read
    /// and has not written yet; unless none can be caught in five seconds: while one holder is
    /// stopped already, nobody else is granted anything before the ttl is over.
    ///
    /// # Errors
    /// If there is none, or the signal cannot be sent.
    pub async fn catch(&self, dice: &Dice, holder: bool) -> io::Result<OwnedMutexGuard<Process>> {
        const PATIENCE: Duration = Duration::from_secs(5);
        let start = Instant::now();
        loop {
            let late = start.elapsed() > PATIENCE;
            let chosen = dice.roll(self.0.len() as u64) as usize;
            if let Ok(process) = self.0[chosen].clone().try_lock_owned() {
                process.stop().await?;
                // Looked at when it stands still: a moment later it may have released.
                if !holder || late || process.holds() {
                    return Ok(process);
                }
                process.go_on().await?;
            } else if start.elapsed() > 2 * PATIENCE {
                return Err(io::Error::other("no worker is free"));
            }
            sleep(Duration::from_millis(3)).await;
        }
    }

    /// Ends all workers in good order, and reads their notes.
    pub(super) async fn finish(self, limit: Duration) -> io::Result<Vec<Event>> {
        let mut events = Vec::new();
        for process in self.0.iter() {
            process.lock().await.stdin = None;
        }
        for process in self.0.iter() {
            let mut process = process.lock().await;
            let ended = timeout(limit, process.child.wait()).await;
            for life in 0..=process.settings.life {
                events.extend(journal::read(&process.plan.journal(process.settings.worker, life))?);
            }
            match ended {
                Ok(ended) => process.must_be_good(ended?)?,
                Err(_) => events.push(process.hangs(limit)),
            }
        }
        Ok(events)
    }
}

impl Plan {
    fn journal(&self, worker: usize, life: u32) -> PathBuf {
        self.folder.join(format!("worker-{worker}-{life}.jsonl"))
    }
}

impl Process {
    async fn start(plan: Arc<Plan>, mut settings: Settings) -> io::Result<Self> {
        settings.journal = plan.journal(settings.worker, settings.life);
        let mut child = Command::new(&plan.program).stdin(Stdio::piped()).kill_on_drop(true).spawn()?;
        let mut stdin = child.stdin.take();
        if let Some(stdin) = &mut stdin {
            let mut line = serde_json::to_vec(&settings)?;
            line.push(b'\n');
            stdin.write_all(&line).await?;
        }
        Ok(Self { plan, settings, child, stdin })
    }

    /// Kills it as it stands, with SIGKILL.
    ///
    /// # Errors
    /// If it had ended before.
    pub async fn kill(&mut self) -> io::Result<()> {
        if let Some(ended) = self.child.try_wait()? {
            return Err(io::Error::other(format!("{:?} ended by itself: {ended}", self.settings)));
        }
        self.child.kill().await
    }

    /// Starts it again after a [`Process::kill`].
    ///
    /// # Errors
    /// If it cannot be started.
    pub async fn restart(&mut self) -> io::Result<()> {
        let settings = Settings { life: self.settings.life + 1, ..self.settings.clone() };
        *self = Self::start(self.plan.clone(), settings).await?;
        Ok(())
    }

    /// Stops it as it stands, with SIGSTOP.
    ///
    /// # Errors
    /// If it has ended.
    pub async fn stop(&self) -> io::Result<()> {
        self.signal("STOP").await
    }

    /// Lets it go on, with SIGCONT.
    ///
    /// # Errors
    /// If it has ended.
    pub async fn go_on(&self) -> io::Result<()> {
        self.signal("CONT").await
    }

    /// Whether its last note says that it holds the lock, has read, and has not written yet: the worst moment.
    fn holds(&self) -> bool {
        let last = journal::last(&self.settings.journal).map(|event| event.what);
        matches!(last, Some(What::Read { answer: Answer::Accepted(_), .. }))
    }

    async fn signal(&self, name: &str) -> io::Result<()> {
        // Our own child, not yet waited for: the number cannot be somebody else's by now.
        let pid = self.child.id().ok_or_else(|| io::Error::other(format!("{:?} has ended", self.settings)))?;
        // The shell's own `kill`: not every machine has a program of that name.
        let sent = Command::new("sh").arg("-c").arg(format!("kill -{name} {pid}")).status().await?;
        if sent.success() { Ok(()) } else { Err(io::Error::other(format!("cannot send SIG{name} to {pid}: {sent}"))) }
    }

    /// Noted in its place: whoever hangs may have been seen to do worse before.
    fn hangs(&self, limit: Duration) -> Event {
        let what = What::Failed { error: format!("it did not end within {limit:?} when told to"), grave: true };
        let Settings { worker, life, .. } = self.settings;
        Event { at: now(&Clock::system()), worker, life, what }
    }

    fn must_be_good(&self, ended: ExitStatus) -> io::Result<()> {
        if ended.success() { Ok(()) } else { Err(io::Error::other(format!("{:?} ended with {ended}", self.settings))) }
    }
}
