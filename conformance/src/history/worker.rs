//! What a worker process does: take the lock, add one to the store's number, note everything, again and again.

use std::{
    io::{self, BufRead, Read},
    time::Duration,
};

use tenure_core::{Clock, Config, Coordinator, Drivers, Error, ErrorKind, FencingToken, LockGuard, State};
use tokio::{
    sync::oneshot,
    time::{sleep, timeout},
};

use super::{
    Answer, Bug, Place, Settings, What,
    bare::Bare,
    journal::Journal,
    now,
    number::{Number, Told},
};
use crate::dice::Dice;

/// The whole of a worker program: reads its [`Settings`] from standard input, and [runs](run) until that ends.
///
/// # Errors
/// If it cannot do its work for a reason that is not the library's.
pub async fn work(drivers: Drivers) -> io::Result<()> {
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line)?;
    let settings: Settings = serde_json::from_str(&line)?;
    let (ended, end) = oneshot::channel();
    // A thread of its own: the runtime would wait at its end for a read of standard input.
    std::thread::spawn(move || {
        let _ = io::stdin().lock().read_to_end(&mut Vec::new());
        let _ = ended.send(());
    });
    let longest = settings.longest;
    let stop = async move {
        let _ = timeout(longest, end).await;
    };
    run(drivers, settings, stop).await
}

/// Works until `stop` resolves; then drops what it is doing and closes its session.
///
/// # Errors
/// As [`work`].
pub async fn run(drivers: Drivers, settings: Settings, stop: impl Future<Output = ()>) -> io::Result<()> {
    let config: Config = settings.url.parse().map_err(io::Error::other)?;
    let mut journal = Journal::create(&settings.journal, settings.worker, settings.life)?;
    let clock = Clock::system();
    journal.note(now(&clock), What::Started)?;
    tokio::pin!(stop);
    let coordinator = tokio::select! {
        () = &mut stop => return Ok(()),
        coordinator = connect(&drivers, &config, &clock, &mut journal) => coordinator?,
    };
    let dice = Dice::new(settings.seed ^ ((settings.worker as u64) << 32) ^ u64::from(settings.life));
    let number = Number::at(settings.store).await?;
    let mut worker =
        Worker { coordinator: coordinator.clone(), ttl: config.ttl, settings, number, journal, clock, dice };
    let result = tokio::select! {
        () = &mut stop => Ok(()),
        result = worker.go_on() => result,
    };
    drop(worker);
    let _ = timeout(config.ttl, coordinator.close()).await; // if it fails, the session expires
    result
}

/// Tries until it can: the nemesis may have stopped whatever stands in the way.
async fn connect(drivers: &Drivers, config: &Config, clock: &Clock, journal: &mut Journal) -> io::Result<Coordinator> {
    loop {
        match drivers.connect(config).await {
            Ok(coordinator) => return Ok(coordinator),
            Err(error) => journal.note(now(clock), failed(&error))?,
        }
        sleep(Duration::from_millis(50)).await;
    }
}

fn failed(error: &Error) -> What {
    let grave = !matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::SessionLost | ErrorKind::Unknown);
    What::Failed { error: error.report(), grave }
}

struct Worker {
    settings: Settings,
    coordinator: Coordinator,
    ttl: Duration,
    number: Number,
    journal: Journal,
    clock: Clock,
    dice: Dice,
}

/// What it holds, or believes to hold.
struct Hold {
    guard: Option<LockGuard>,
    token: FencingToken,
    bug: Option<Bug>,
}

impl Hold {
    fn is_held(&self) -> bool {
        self.bug == Some(Bug::IgnoreLoss) || self.guard.as_ref().is_none_or(|guard| guard.is_held())
    }

    /// Sleeps: asleep for the runtime too, as work is that computes or calls C, so that no task tells the guard what happened meanwhile;
    /// or else not beyond a loss.
    async fn work(&self, length: Duration, blocking: bool) {
        match &self.guard {
            _ if blocking => std::thread::sleep(length),
            Some(guard) if self.bug.is_none() => drop(guard.run(sleep(length)).await),
            _ => sleep(length).await,
        }
    }

    /// The token for the store.
    fn sent(&self) -> FencingToken {
        let wrong = if self.bug == Some(Bug::WrongToken) { 1000 } else { 0 };
        FencingToken::new(self.token.get() + wrong)
    }
}

impl Worker {
    async fn go_on(&mut self) -> io::Result<()> {
        loop {
            if self.settings.store == Place::Backend && self.settings.worker == 0 {
                // A guard that knows the time hardly ever lets a late write get to a service that has a fence of its own.
                self.hold_for_too_long().await?;
            } else {
                let hold = self.ask().await?;
                if let Some(hold) = hold {
                    self.hold(hold).await?;
                }
            }
            // All are slow in the same second out of five, so that the queue runs empty: its tokens must go on rising.
            let slow = (now(&self.clock) / 1_000_000).is_multiple_of(5);
            sleep(self.dice.time(Duration::from_millis(if slow { 400 } else { 10 }))).await;
        }
    }

    fn note(&mut self, what: What) -> io::Result<()> {
        self.journal.note(now(&self.clock), what)
    }

    async fn ask(&mut self) -> io::Result<Option<Hold>> {
        let bug = self.settings.bug;
        self.note(What::Asking)?;
        if bug == Some(Bug::NoLock) {
            return Ok(Some(Hold { guard: None, token: FencingToken::new(now(&self.clock)), bug }));
        }
        // Now and then hardly any: a request that is taken back must leave nothing behind.
        let patience = if self.dice.happens(150) { self.dice.time(Duration::from_millis(60)) } else { self.ttl * 4 };
        match timeout(patience, self.coordinator.lock(&self.settings.name)).await {
            Err(_) => self.note(What::GaveUp)?,
            Ok(Ok(guard)) => return Ok(Some(Hold { token: guard.token(), guard: Some(guard), bug })),
            Ok(Err(error)) => {
                self.note(failed(&error))?;
                sleep(Duration::from_millis(50)).await;
            }
        }
        Ok(None)
    }

    async fn hold(&mut self, hold: Hold) -> io::Result<()> {
        let token = hold.token;
        self.note(What::Granted { token })?;
        for _ in 0..=self.dice.roll(3) {
            if !self.add_one(&hold).await? {
                return Ok(());
            }
        }
        let end = match hold.guard {
            Some(guard) if self.dice.happens(500) => match guard.release().await {
                Ok(()) => What::Released { token },
                Err(error) if error.kind() == ErrorKind::SessionLost => What::Lost { token, reason: error.report() },
                Err(error) => failed(&error),
            },
            guard => {
                drop(guard);
                What::Dropped { token }
            }
        };
        self.note(end)
    }

    /// And then writes, without a guard that knows the time. It claims nothing.
    async fn hold_for_too_long(&mut self) -> io::Result<()> {
        self.note(What::Asking)?;
        let bare = match Bare::enter(&self.coordinator, &self.settings.name, self.ttl * 4).await {
            Ok(Some(bare)) => bare,
            Ok(None) => return self.note(What::GaveUp),
            Err(error) => return self.note(failed(&error)),
        };
        let token = bare.token;
        self.note(What::Granted { token })?;
        let read = bare.read().await?;
        if let Some(answer @ Answer::Accepted(value)) = self.told(read)? {
            self.note(What::Read { token, answer })?;
            sleep(self.ttl * 2 + self.dice.time(self.ttl)).await;
            let written = bare.write(value + 1).await?;
            if let Some(answer) = self.told(written)? {
                self.note(What::Wrote { token, answer })?;
            }
        }
        bare.end().await;
        self.note(What::Dropped { token })
    }

    /// Reads, works, and writes one more than was read. False if the lock was lost, or the fence says that it was.
    async fn add_one(&mut self, hold: &Hold) -> io::Result<bool> {
        if !self.claim(hold)? {
            return Ok(false);
        }
        let told = self.number.read(hold.sent(), hold.guard.as_ref()).await?;
        let Some(answer) = self.told(told)? else { return Ok(false) };
        self.note(What::Read { token: hold.sent(), answer })?;
        let Answer::Accepted(value) = answer else {
            self.claim(hold)?; // a fence that refuses a holder has seen a token that it could not have seen
            return Ok(false);
        };
        let (short, long) = (self.dice.time(Duration::from_millis(16)), self.dice.time(self.ttl / 2));
        if self.dice.happens(25) {
            hold.work(long, false).await;
        } else {
            hold.work(short, self.dice.happens(500)).await;
        }
        // Written even after a loss, as a request would be that was under way when the lock was lost: the fence is there to judge it.
        let still = self.claim(hold)?;
        let told = self.number.write(hold.sent(), hold.guard.as_ref(), value + 1).await?;
        let Some(answer) = self.told(told)? else { return Ok(false) };
        self.note(What::Wrote { token: hold.sent(), answer })?;
        Ok(still && self.claim(hold)? && matches!(answer, Answer::Accepted(_)))
    }

    /// Notes what is known to be stored. `None` if the library failed, which is noted too.
    fn told(&mut self, told: tenure_core::Result<Told>) -> io::Result<Option<Answer>> {
        match told {
            Ok(Told { answer, stored }) => {
                stored.map_or(Ok(()), |stored| self.note(stored))?;
                Ok(Some(answer))
            }
            Err(error) => {
                self.note(failed(&error))?;
                Ok(None)
            }
        }
    }

    /// Notes that the lock is held, if it is, with a time that was read before the guard was asked; else notes the loss.
    fn claim(&mut self, hold: &Hold) -> io::Result<bool> {
        let (at, token) = (now(&self.clock), hold.token);
        if hold.is_held() {
            self.journal.note(at, What::Holding { token })?;
            return Ok(true);
        }
        let reason = match hold.guard.as_ref().map(|guard| guard.state()) {
            Some(State::Lost(reason)) => reason.to_string(),
            state => format!("{state:?}"),
        };
        self.note(What::Lost { token, reason })?;
        Ok(false)
    }
}
