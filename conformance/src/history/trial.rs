//! One run from beginning to end, over whatever backend a URL names.

use std::{io, path::PathBuf, time::Duration};

use tenure_core::{Clock, Config, Drivers};

use super::{Bug, Crew, Expectations, History, Nemesis, Place, Settings, Store, crew::Plan, now, number};

/// A run to be made: workers, store, nemesis.
#[derive(Debug)]
pub struct Trial {
    url: String,
    ttl: Duration,
    plan: Plan,
    nemesis: Nemesis,
    seed: u64,
    length: Duration,
    workers: usize,
    fence: bool,
    /// How the backend is reached, if the number is in it.
    inside: Option<Drivers>,
    bug: Option<Bug>,
}

impl Trial {
    /// How many workers there are, unless told otherwise.
    pub const WORKERS: usize = 5;
    /// What is locked.
    const NAME: &str = "history";

    /// A run over the backend that `url` names, with the worker program at `program` (see [`work`](super::work)). Its notes are kept in
    /// `folder`, which must be empty. The [usual](Nemesis::usual) nemesis strikes for `length`.
    ///
    /// # Errors
    /// If the URL cannot be understood.
    pub fn new(
        url: &str,
        program: impl Into<PathBuf>,
        folder: impl Into<PathBuf>,
        seed: u64,
        length: Duration,
    ) -> io::Result<Self> {
        let ttl = url.parse::<Config>().map_err(io::Error::other)?.ttl;
        let nemesis = Nemesis::usual(seed, ttl);
        let plan = Plan { program: program.into(), folder: folder.into() };
        let (url, workers, inside, bug) = (url.to_owned(), Self::WORKERS, None, None);
        Ok(Self { url, ttl, plan, nemesis, seed, length, workers, fence: true, inside, bug })
    }

    /// With the number in the backend itself, behind the fence that [`tenure_core::FencedStore`] is: the [requests](super::Request) of the history are
    /// put together from what the workers were told and have read.
    #[must_use]
    pub fn inside(self, drivers: Drivers) -> Self {
        Self { inside: Some(drivers), ..self }
    }

    /// With so many workers.
    #[must_use]
    pub fn with_workers(self, workers: usize) -> Self {
        Self { workers, ..self }
    }

    /// The validity that the URL asks for.
    pub fn ttl(&self) -> Duration {
        self.ttl
    }

    /// With another nemesis.
    #[must_use]
    pub fn with_nemesis(self, nemesis: Nemesis) -> Self {
        Self { nemesis, ..self }
    }

    /// With a bug in all workers.
    #[must_use]
    pub fn with_bug(self, bug: Bug) -> Self {
        Self { bug: Some(bug), ..self }
    }

    /// With a store that accepts every token.
    #[must_use]
    pub fn without_fence(self) -> Self {
        Self { fence: false, ..self }
    }

    /// What the run must at least contain: enough for this length, and each of its faults.
    pub fn expectations(&self) -> Expectations {
        let each = (self.length.as_secs() / 10).max(1) as usize;
        let mut expected = Expectations::new(self.ttl);
        expected.grants = 5 * self.length.as_secs() as usize;
        // Not every long pause can be made to hit a holder.
        (expected.losses, expected.refused) = (each.div_ceil(2), each.div_ceil(2));
        expected.strikes = self.nemesis.faults().map(|fault| (fault.to_owned(), each)).collect();
        expected
    }

    /// Makes the run. However it ends, no worker is left behind.
    ///
    /// # Errors
    /// If a part of the test failed: a worker that cannot be started, or that ended by itself.
    pub async fn run(self) -> io::Result<History> {
        let clock = Clock::system();
        let store = if self.inside.is_none() { Some(Store::start(self.fence).await?) } else { None };
        let settings = Settings {
            url: self.url.clone(),
            name: Self::NAME.to_owned(),
            store: store.as_ref().map_or(Place::Backend, |store| Place::Store(store.address())),
            journal: PathBuf::new(),
            worker: 0,
            life: 0,
            seed: self.seed,
            longest: self.length * 3 + Duration::from_secs(60),
            bug: self.bug,
        };
        let crew = Crew::start(self.plan, self.workers, settings).await?;
        let strikes = self.nemesis.torment(&crew, self.length).await?;
        let until = now(&clock);
        let events = crew.finish(self.ttl * 2 + Duration::from_secs(10)).await?;
        let (store, value) = match (store, self.inside) {
            (Some(store), _) => store.log(),
            (None, drivers) => number::log(&events, &drivers.unwrap_or_default(), &self.url, Self::NAME).await?,
        };
        Ok(History { events, store, value, strikes, until })
    }
}
