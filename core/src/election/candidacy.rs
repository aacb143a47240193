//! From entering to leading.

use std::{pin::pin, sync::Arc, time::Duration};

use futures_util::future::try_join;

use super::control::{Request, makes_room, standing};
use crate::{
    coordinator::Round,
    error::Result,
    guard::Tenure,
    keeper::Keeper,
    place::{Entry, Look},
    queue::{Contender, QueueName, Snapshot},
    rule::{Mode, Turn},
};

/// What a candidate stands for.
pub(crate) struct Candidacy {
    pub(crate) queue: QueueName,
    pub(crate) value: Arc<[u8]>,
    pub(crate) priority: u32,
    pub(crate) hysteresis: Duration,
}

impl Candidacy {
    /// Waits for the turn in this session. A turn is not taken if another one is to lead: then the entry goes to the end of the queue.
    pub(crate) async fn round(&self, keeper: Keeper) -> Result<Round> {
        let made = Entry::make(keeper, self.queue.clone(), Mode::Write, self.value.clone()).await?;
        let Some((entry, mut seen)) = made else { return Ok(Round::Again) };
        let mut preference = pin!(self.ask_for_preference(entry.keeper().clone(), entry.me().id.to_string()));
        let (mut asked, mut expected) = (None, Vec::new());
        loop {
            let turn = match entry.look(&seen)? {
                Look::Granted => return self.takes_turn(entry, seen, &expected).await,
                Look::Gone => return Ok(Round::Again),
                Look::Wait(turn) => turn,
            };
            seen = tokio::select! {
                now = next(&entry, &seen, turn, &mut expected) => now?,
                request = &mut preference, if asked.is_none() => {
                    asked = Some(request?); // stands for as long as we wait
                    seen
                }
            };
        }
    }

    async fn takes_turn(&self, entry: Entry, seen: Snapshot, expected: &[Contender]) -> Result<Round> {
        let seen = if makes_room(&entry, &seen, self.priority, expected).await? {
            // What was seen may be old: whoever is to lead has to be there now.
            let now = entry.list().await?;
            if makes_room(&entry, &now, self.priority, expected).await? {
                return entry.leave().await.map(|()| Round::Again);
            }
            now
        } else {
            seen
        };
        Ok(match entry.look(&seen)? {
            Look::Granted => Round::Granted(Tenure::start(entry, seen)),
            _ => Round::Again,
        })
    }

    /// Once it has waited for long enough.
    async fn ask_for_preference(&self, keeper: Keeper, me: String) -> Result<Entry> {
        if self.priority == 0 {
            return std::future::pending().await;
        }
        tokio::time::sleep(self.hysteresis).await;
        Request { leader: None, to: Some(me), priority: Some(self.priority) }.make(&keeper, &self.queue).await
    }
}

/// Waits until it may be our turn, and lists again. Behind the leader it looks at the same time which requests are to be `expected` then: a
/// hand-over waits for as few round trips as can be.
async fn next(entry: &Entry, seen: &Snapshot, turn: Turn, expected: &mut Vec<Contender>) -> Result<Snapshot> {
    if turn != Turn::Behind(0) {
        return entry.wait(seen, turn).await;
    }
    entry.until_moved(seen, turn).await?;
    let (now, requests) = try_join(entry.list(), standing(entry.keeper(), entry.queue())).await?;
    *expected = requests;
    Ok(now)
}
