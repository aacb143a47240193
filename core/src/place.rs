//! A place in a queue, from the decision to enter until it is left for certain. Waiting and holding are the same place, so "cancelled
//! while waiting" and "guard dropped" are the same path.

use std::sync::Arc;

use tokio::{sync::oneshot, task::JoinHandle};

use crate::{
    error::{Error, ErrorKind, Result},
    health::Health,
    keeper::{Keeper, Leave, lost, unattended},
    queue::{Contender, ContenderId, Entered, QueueName, Snapshot, Version, Wake},
    rule::{Mode, Turn, turn},
    token::FencingToken,
};

/// One entry of ours. Dropping it gives it up, wherever it has got to.
#[derive(Debug)]
pub(crate) struct Place {
    keeper: Keeper,
    queue: QueueName,
    id: ContenderId,
    entering: Option<JoinHandle<()>>,
    left: bool,
}

/// A place that was entered: what is known of our entry.
#[derive(Debug)]
pub(crate) struct Entry {
    place: Place,
    me: Contender,
    token: FencingToken,
    version: Version,
}

/// How one look at the queue ended.
#[derive(Debug)]
pub(crate) enum Look {
    /// It is our turn, and the session is ours.
    Granted,
    /// Somebody incompatible is ahead.
    Wait(Turn),
    /// Our entry is not there any more: removed by an operator.
    Gone,
}

impl Entry {
    /// Enters a queue. The entering runs to its end in its own task, even if this future is dropped; the leaving that follows waits for
    /// it (contract clause 6). `None` if our entry was removed at once.
    pub(crate) async fn make(
        keeper: Keeper,
        queue: QueueName,
        mode: Mode,
        value: Arc<[u8]>,
    ) -> Result<Option<(Self, Snapshot)>> {
        let id = ContenderId::random(mode);
        let (answer, entered) = oneshot::channel();
        let entering = keeper.spawn(enter(keeper.clone(), queue.clone(), id.clone(), value, answer));
        let mut place = Place { keeper, queue, id, entering: Some(entering), left: false };
        let Entered { token, version, snapshot } = tokio::select! {
            biased;
            entered = entered => match entered {
                Ok(entered) => entered?,
                Err(_) => return Err(place.why_entering_ended().await),
            },
            // Should nobody drive the runtime that enters.
            reason = place.keeper.pulse.lost() => return Err(lost("the session", reason)),
        };
        place.entering = None;
        let me = snapshot.queue.iter().find(|contender| contender.id == place.id).cloned();
        Ok(me.map(|me| (Self { place, me, token, version }, snapshot)))
    }

    /// The entry's number, as the backend counts.
    pub(crate) fn token(&self) -> FencingToken {
        self.token
    }

    /// The version of the value that it was entered with.
    pub(crate) fn version(&self) -> Version {
        self.version
    }

    pub(crate) fn keeper(&self) -> &Keeper {
        &self.place.keeper
    }

    pub(crate) fn queue(&self) -> &QueueName {
        &self.place.queue
    }

    /// Our entry. One that was made anew under the same id, by a late repeat after a removal, is another one: it has another token.
    pub(crate) fn me(&self) -> &Contender {
        &self.me
    }

    pub(crate) async fn list(&self) -> Result<Snapshot> {
        self.keeper().call(|| self.keeper().session.list(self.queue())).await
    }

    pub(crate) async fn list_now(&self) -> Result<Snapshot> {
        self.keeper().call(|| self.keeper().session.list_now(self.queue())).await
    }

    /// Looks whether it is our turn. Having waited proves nothing: only a snapshot with our own entry in it does, and only before the
    /// deadline.
    pub(crate) fn look(&self, seen: &Snapshot) -> Result<Look> {
        if !seen.queue.contains(&self.me) {
            return Ok(Look::Gone);
        }
        match turn(&seen.queue, &self.me.id) {
            Turn::Absent => Ok(Look::Gone),
            Turn::Mine => match self.keeper().pulse.health() {
                Health::Lost(reason) => Err(lost("the session", reason)),
                _ => Ok(Look::Granted),
            },
            turn => Ok(Look::Wait(turn)),
        }
    }

    /// Waits until it may be our turn, and lists again.
    pub(crate) async fn wait(&self, seen: &Snapshot, turn: Turn) -> Result<Snapshot> {
        self.until_moved(seen, turn).await?;
        self.list().await
    }

    /// Waits until it may be our turn.
    pub(crate) async fn until_moved(&self, seen: &Snapshot, turn: Turn) -> Result<()> {
        let wake = match turn {
            Turn::Behind(blocker) => seen.queue.get(blocker).map(Wake::Gone),
            Turn::Crowded => Some(Wake::Ahead(&self.me)),
            Turn::Mine | Turn::Absent => None,
        };
        match wake {
            Some(wake) => self.keeper().wait(self.queue(), seen, wake).await,
            None => Ok(()),
        }
    }

    /// Leaves, and waits until the backend has said so. Cancel safe: the leaving goes on.
    pub(crate) async fn leave(mut self) -> Result<()> {
        let (left, answer) = oneshot::channel();
        self.place.send_leave(Some(left));
        let pulse = self.place.keeper.pulse.clone();
        drop(self);
        tokio::select! {
            biased;
            answer = answer => match answer {
                Ok(answer) => answer,
                Err(_) if pulse.is_held() => Err(unattended()),
                Err(_) => Ok(()), // the session is over, and our entry with it
            },
            _ = pulse.lost() => Ok(()),
        }
    }
}

impl Place {
    fn send_leave(&mut self, left: Option<oneshot::Sender<Result<()>>>) {
        if !std::mem::replace(&mut self.left, true) {
            let (queue, id, entering) = (self.queue.clone(), self.id.clone(), self.entering.take());
            self.keeper.leave(Leave { queue, id, entering, left });
        }
    }

    async fn why_entering_ended(&mut self) -> Error {
        match self.entering.take() {
            Some(entering) => match entering.await {
                Err(error) if error.is_panic() => {
                    Error::new(ErrorKind::Unexpected, format!("the backend panicked when entering '{}'", self.queue))
                }
                _ => unattended(),
            },
            None => unattended(),
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.send_leave(None);
    }
}

/// Tries until the entry is made, the session lost, or nobody wants it any more.
async fn enter(
    keeper: Keeper,
    queue: QueueName,
    id: ContenderId,
    value: Arc<[u8]>,
    answer: oneshot::Sender<Result<Entered>>,
) {
    let entered = {
        let attempts = keeper.call(|| async {
            if answer.is_closed() {
                return Err(Error::new(ErrorKind::Unexpected, "nobody waits for this entry any more"));
            }
            keeper.session.enter(&queue, &id, &value).await
        });
        attempts.await
    };
    let _ = answer.send(entered);
}
