//! Seeing who leads.

use futures_core::Stream;

use super::Election;
use crate::{
    coordinator::{Coordinator, is_lost_or_away},
    error::Result,
    keeper::{Keeper, Pause},
    queue::{Contender, ContenderId, QueueName, Record, Snapshot, Wake},
    rule::Mode,
    token::FencingToken,
};

/// A candidate that is first in line, or one of those behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Leader {
    /// What it campaigned with, or has updated since. For a lock on the same name: who holds it, as JSON.
    pub value: Vec<u8>,
    /// Its number: higher than that of every leader before it.
    pub token: FencingToken,
    /// Its entry in the queue.
    pub id: ContenderId,
}

/// Looks at a queue of candidates.
#[derive(Clone, Debug)]
pub(crate) struct Observer {
    pub(crate) queue: QueueName,
    token_base: u64,
}

impl Observer {
    pub(crate) fn new(queue: QueueName, token_base: u64) -> Self {
        Self { queue, token_base }
    }

    /// Who leads, and the queue as it was then. Nobody gets in front of who is first, so whoever was first in the list and is there to be read
    /// after it leads still.
    pub(crate) async fn look(&self, keeper: &Keeper) -> Result<(Option<Leader>, Snapshot)> {
        loop {
            let seen = keeper.call(|| keeper.session.list(&self.queue)).await?;
            if let Some(leader) = self.first(keeper, &seen).await? {
                return Ok((leader, seen));
            }
        }
    }

    /// The same as of a moment after the call. Later looks by this session show nothing that is older.
    pub(crate) async fn look_now(&self, keeper: &Keeper) -> Result<(Option<Leader>, Snapshot)> {
        let seen = keeper.call(|| keeper.session.list_now(&self.queue)).await?;
        match self.first(keeper, &seen).await? {
            Some(leader) => Ok((leader, seen)),
            None => self.look(keeper).await,
        }
    }

    /// Who leads in this queue; nothing if who was first has gone since.
    async fn first(&self, keeper: &Keeper, seen: &Snapshot) -> Result<Option<Option<Leader>>> {
        let Some(first) = seen.queue.first().filter(|first| leads(first)) else { return Ok(Some(None)) };
        Ok(self.read(keeper, first).await?.map(Some))
    }

    /// All that can lead, in their order.
    pub(crate) async fn all(&self, keeper: &Keeper) -> Result<Vec<Leader>> {
        let seen = keeper.call(|| keeper.session.list_now(&self.queue)).await?;
        let mut all = Vec::new();
        for contender in seen.queue.iter().filter(|contender| leads(contender)) {
            all.extend(self.read(keeper, contender).await?);
        }
        Ok(all)
    }

    async fn read(&self, keeper: &Keeper, who: &Contender) -> Result<Option<Leader>> {
        let Some(Record { token, value, .. }) = keeper.call(|| keeper.session.read(&self.queue, who)).await? else {
            return Ok(None);
        };
        Ok(Some(Leader { value, token: token.raised_by(self.token_base)?, id: who.id.clone() }))
    }
}

/// Readers and permit holders lead nobody.
fn leads(contender: &Contender) -> bool {
    contender.id.mode().is_none_or(|mode| mode == Mode::Write)
}

/// What an observer goes on from.
struct Watching {
    coordinator: Coordinator,
    observer: Observer,
    /// The session it looks through, and what it saw last.
    seen: Option<(Keeper, Snapshot)>,
    told: Option<Option<Leader>>,
    pause: Pause,
}

impl Watching {
    async fn next(&mut self) -> Result<Option<Leader>> {
        loop {
            match self.look().await {
                Ok(leader) if self.told.as_ref() == Some(&leader) => {}
                Ok(leader) => return Ok(self.told.insert(leader).clone()),
                Err(error) if is_lost_or_away(&error) => {
                    self.seen = None;
                    self.pause.after(&error).await;
                }
                Err(error) => return Err(error),
            }
        }
    }

    async fn look(&mut self) -> Result<Option<Leader>> {
        let (keeper, (leader, seen)) = match self.seen.take() {
            Some((keeper, seen)) => {
                keeper.wait(&self.observer.queue, &seen, Wake::Any).await?;
                let look = self.observer.look(&keeper).await?;
                (keeper, look)
            }
            None => {
                let keeper = self.coordinator.session_when_up(None).await?;
                let look = self.observer.look_now(&keeper).await?;
                (keeper, look)
            }
        };
        self.seen = Some((keeper, seen));
        self.pause = Pause::new();
        Ok(leader)
    }
}

impl Election {
    /// Who leads, now and after each change of leader or value; `None` while nobody does. The first item is as of a moment after the call.
    ///
    /// Never names anyone but an exclusive entry that was first in line after the item before it was told. Items come in the order of what
    /// happened, and the last one is true for as long as nothing changes; what came and went between two looks is left out, on
    /// every backend. While the backend is away nothing is told: an observer can be late, and who must not be wrong has to check tokens. It goes
    /// on over restarts and lost sessions, and ends after an error that waiting would not help.
    pub fn observe(&self) -> impl Stream<Item = Result<Option<Leader>>> + Send + Unpin + use<> {
        let begin = self.observer().map(|observer| Watching {
            observer,
            coordinator: self.coordinator.clone(),
            seen: None,
            told: None,
            pause: Pause::new(),
        });
        Box::pin(futures_util::stream::unfold(Some(begin), |watching| async {
            let mut watching = match watching? {
                Ok(watching) => watching,
                Err(error) => return Some((Err(error), None)),
            };
            match watching.next().await {
                Ok(leader) => Some((Ok(leader), Some(Ok(watching)))),
                Err(error) => Some((Err(error), None)),
            }
        }))
    }
}
