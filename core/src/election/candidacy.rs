//! From entering to leading.

use std::{pin::pin, sync::Arc, time::Duration};

use super::control::{Request, makes_room};
use crate::{
    coordinator::Round,
    error::Result,
    guard::Tenure,
    keeper::Keeper,
    place::{Entry, Look},
    queue::{QueueName, Snapshot},
    rule::Mode,
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
        let mut asked = None;
        loop {
            let turn = match entry.look(&seen)? {
                Look::Granted => return self.takes_turn(entry, seen).await,
                Look::Gone => return Ok(Round::Again),
                Look::Wait(turn) => turn,
            };
            seen = tokio::select! {
                now = entry.wait(&seen, turn) => now?,
                request = &mut preference, if asked.is_none() => {
                    asked = Some(request?); // stands for as long as we wait
                    seen
                }
            };
        }
    }

    async fn takes_turn(&self, entry: Entry, seen: Snapshot) -> Result<Round> {
        let seen = if makes_room(&entry, &seen, self.priority).await? {
            // What was seen may be old: whoever is to lead has to be there now.
            let now = entry.list().await?;
            if makes_room(&entry, &now, self.priority).await? {
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
    async fn ask_for_preference(&self, keeper: Keeper, me: String) -> Result<Option<Entry>> {
        if self.priority == 0 {
            return std::future::pending().await;
        }
        tokio::time::sleep(self.hysteresis).await;
        Request { leader: None, to: Some(me), priority: Some(self.priority) }.make(&keeper, &self.queue).await
    }
}
