//! Who makes things go wrong: seeded, one fault after another, with quiet times in which progress must show.

use std::{fmt::Debug, io, sync::Arc, time::Duration};

use tenure_core::{Clock, async_trait};
use tokio::{task::JoinSet, time::sleep};

use super::{Crew, Expectations, Strike, now};
use crate::dice::Dice;

/// Something that can go wrong. Callers add their own, for instance a server that is restarted.
#[async_trait]
pub trait Fault: Debug + Send + Sync + 'static {
    /// What it is called in the counts.
    fn name(&self) -> &str;

    /// Does it, and returns once all that can be healed is.
    ///
    /// # Errors
    /// If it cannot be done: the run fails, for it would show less than it claims.
    async fn strike(&self, crew: &Crew, dice: Dice) -> io::Result<()>;
}

/// Whom a fault hits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aim {
    /// A worker that holds the lock and is between its read and its write, if one can be caught.
    Holder,
    /// Half of the times a holder, else any worker.
    Anybody,
}

impl Aim {
    fn wants_holder(self, dice: &Dice) -> bool {
        self == Self::Holder || dice.happens(500)
    }
}

/// Kills a worker with SIGKILL, and starts it again up to half a second later.
#[derive(Clone, Debug)]
pub struct Kill(
    /// Whom.
    pub Aim,
);

/// Stops a worker with SIGSTOP, and lets it go on later.
#[derive(Clone, Debug)]
pub struct Pause {
    /// What it is called in the counts.
    pub name: &'static str,
    /// Whom.
    pub aim: Aim,
    /// The shortest pause.
    pub least: Duration,
    /// The longest pause.
    pub most: Duration,
}

impl Pause {
    /// Longer than the ttl: whoever held the lock has lost it when it goes on.
    pub fn long(aim: Aim, ttl: Duration) -> Self {
        Self { name: "long pause", aim, least: ttl + ttl / 5, most: ttl * 2 }
    }

    /// So short that nothing may be lost by it.
    pub fn short(ttl: Duration) -> Self {
        Self { name: "short pause", aim: Aim::Anybody, least: ttl / 40, most: ttl / 4 }
    }
}

#[async_trait]
impl Fault for Kill {
    fn name(&self) -> &str {
        "kill"
    }

    async fn strike(&self, crew: &Crew, dice: Dice) -> io::Result<()> {
        let holder = self.0.wants_holder(&dice);
        let mut victim = crew.catch(&dice, holder).await?;
        victim.kill().await?;
        sleep(dice.time(Duration::from_millis(500))).await;
        victim.restart().await
    }
}

#[async_trait]
impl Fault for Pause {
    fn name(&self) -> &str {
        self.name
    }

    async fn strike(&self, crew: &Crew, dice: Dice) -> io::Result<()> {
        let holder = self.aim.wants_holder(&dice);
        let victim = crew.catch(&dice, holder).await?;
        sleep(self.least + dice.time(self.most.saturating_sub(self.least))).await;
        victim.go_on().await
    }
}

/// Strikes every half to two seconds, each fault as often as the others. At most two faults last at the same time, so that most workers
/// can work.
///
/// The same seed chooses the same faults and times; what the workers are doing at that moment it cannot choose.
#[derive(Debug)]
pub struct Nemesis {
    faults: Vec<Arc<dyn Fault>>,
    dice: Dice,
    quiet: Duration,
}

impl Nemesis {
    const LEAST_PAUSE: Duration = Duration::from_millis(500);
    const MOST_PAUSE: Duration = Duration::from_secs(2);
    const AT_ONCE: usize = 2;
    /// How often each fault strikes between two quiet times.
    const ROUNDS: usize = 2;

    /// One that knows no fault yet. Now and then, and at the end, it does nothing for `quiet`.
    pub fn new(seed: u64, quiet: Duration) -> Self {
        Self { faults: Vec::new(), dice: Dice::new(seed), quiet }
    }

    /// One that kills workers, pauses them for longer than the ttl, and for a short time.
    pub fn usual(seed: u64, ttl: Duration) -> Self {
        // A little longer than anybody may take, so that a lock that nobody gets any more shows.
        let quiet = Expectations::new(ttl).progress + Duration::from_millis(250);
        Self::new(seed, quiet).with(Kill(Aim::Anybody)).with(Pause::long(Aim::Holder, ttl)).with(Pause::short(ttl))
    }

    /// Knows one more fault.
    #[must_use]
    pub fn with(mut self, fault: impl Fault) -> Self {
        self.faults.push(Arc::new(fault));
        self
    }

    /// The names of its faults.
    pub fn faults(&self) -> impl Iterator<Item = &str> {
        self.faults.iter().map(|fault| fault.name())
    }

    /// Strikes for so long, and is then quiet.
    ///
    /// # Errors
    /// If a fault cannot be done.
    pub async fn torment(self, crew: &Crew, length: Duration) -> io::Result<Vec<Strike>> {
        let clock = Clock::system();
        let end = clock.now() + length;
        let (mut running, mut done) = (JoinSet::new(), Vec::new());
        while !clock.has_passed(end) {
            for fault in self.deck() {
                sleep(Self::LEAST_PAUSE + self.dice.time(Self::MOST_PAUSE - Self::LEAST_PAUSE)).await;
                if clock.has_passed(end) {
                    break;
                }
                settle(&mut running, &mut done, Self::AT_ONCE - 1).await?;
                let dice = Dice::new(self.dice.roll(u64::MAX));
                running.spawn(strike(fault, crew.clone(), dice, clock.clone()));
            }
            settle(&mut running, &mut done, 0).await?;
            sleep(self.quiet).await;
        }
        Ok(done)
    }

    fn deck(&self) -> Vec<Arc<dyn Fault>> {
        let mut deck = Vec::new();
        for _ in 0..Self::ROUNDS {
            let mut round = self.faults.clone();
            for last in (1..round.len()).rev() {
                round.swap(last, self.dice.roll(last as u64 + 1) as usize);
            }
            deck.append(&mut round);
        }
        deck
    }
}

/// Waits until no more than `most` faults last.
async fn settle(running: &mut JoinSet<io::Result<Strike>>, done: &mut Vec<Strike>, most: usize) -> io::Result<()> {
    while running.len() > most {
        if let Some(ended) = running.join_next().await {
            done.push(ended.map_err(io::Error::other)??);
        }
    }
    Ok(())
}

async fn strike(fault: Arc<dyn Fault>, crew: Crew, dice: Dice, clock: Clock) -> io::Result<Strike> {
    let from = now(&clock);
    fault.strike(&crew, dice).await?;
    Ok(Strike { fault: fault.name().to_owned(), from, to: now(&clock) })
}
