//! A place in a queue, from the decision to enter until it is left for certain. Waiting and holding are the same place, so "cancelled
//! while waiting" and "guard dropped" are the same path.

use std::sync::Arc;

use tokio::{sync::oneshot, task::JoinHandle};

use crate::{
    error::{Error, ErrorKind, Result},
    keeper::{Keeper, Leave, session_lost},
    queue::{Contender, ContenderId, Entered, QueueName, Snapshot, Wake},
    rule::{Mode, Turn, turn},
    token::FencingToken,
};

/// One entry of ours. Dropping it gives it up, wherever it has got to.
#[derive(Debug)]
pub(crate) struct Place {
    keeper: Keeper,
    queue: QueueName,
    id: ContenderId,
    token: FencingToken,
    entering: Option<JoinHandle<()>>,
    left: bool,
}

/// How one look at the queue ended.
#[derive(Debug)]
pub(crate) enum Look {
    /// It is our turn, and the session is ours. Carries our entry as it was seen.
    Granted(Snapshot, Contender),
    /// Somebody incompatible is ahead.
    Wait(Snapshot, Turn),
    /// Our entry is not there any more: removed by an operator.
    Gone,
}

impl Place {
    /// Enters a queue. The entering runs to its end in its own task, even if this future is dropped; the leaving that follows waits for
    /// it (contract clause 6).
    pub(crate) async fn enter(
        keeper: Keeper,
        queue: QueueName,
        mode: Mode,
        value: Arc<[u8]>,
    ) -> Result<(Self, Snapshot)> {
        let id = ContenderId::random(mode);
        let (answer, entered) = oneshot::channel();
        let entering = keeper.spawn(enter(keeper.clone(), queue.clone(), id.clone(), value, answer));
        let token = FencingToken::new(0);
        let mut place = Self { keeper, queue, id, token, entering: Some(entering), left: false };
        let entered = entered.await.map_err(|_| session_lost(crate::LossReason::SessionEnded))??;
        place.entering = None;
        place.token = entered.token;
        Ok((place, entered.snapshot))
    }

    /// The entry's number, as the backend counts.
    pub(crate) fn token(&self) -> FencingToken {
        self.token
    }

    pub(crate) fn keeper(&self) -> &Keeper {
        &self.keeper
    }

    pub(crate) fn queue(&self) -> &QueueName {
        &self.queue
    }

    pub(crate) fn id(&self) -> &ContenderId {
        &self.id
    }

    pub(crate) async fn list(&self) -> Result<Snapshot> {
        self.keeper.call(|| self.keeper.session.list(&self.queue)).await
    }

    /// Looks whether it is our turn. Having waited proves nothing: only a snapshot with our own entry in it does, and only before the
    /// deadline.
    pub(crate) fn look(&self, seen: Snapshot) -> Result<Look> {
        match turn(&seen.queue, &self.id) {
            Turn::Absent => Ok(Look::Gone),
            Turn::Mine if !self.keeper.is_held() => Err(session_lost(crate::LossReason::Expired)),
            Turn::Mine => match seen.queue.iter().find(|contender| contender.id == self.id).cloned() {
                Some(me) => Ok(Look::Granted(seen, me)),
                None => Ok(Look::Gone),
            },
            turn => Ok(Look::Wait(seen, turn)),
        }
    }

    /// Waits until it may be our turn, and lists again.
    pub(crate) async fn wait(&self, seen: &Snapshot, turn: Turn) -> Result<Snapshot> {
        let me = seen.queue.iter().find(|contender| contender.id == self.id);
        let wake = match turn {
            Turn::Behind(blocker) => seen.queue.get(blocker).map(Wake::Gone),
            Turn::Crowded => me.map(Wake::Ahead),
            Turn::Mine | Turn::Absent => None,
        };
        if let Some(wake) = wake {
            self.keeper.wait(&self.queue, seen, wake).await?;
        }
        self.list().await
    }

    /// Leaves, and waits until the backend has said so. Cancel safe: the leaving goes on.
    pub(crate) async fn leave(mut self) -> Result<()> {
        let (left, answer) = oneshot::channel();
        self.send_leave(Some(left));
        let keeper = self.keeper.clone();
        drop(self);
        match answer.await {
            Ok(answer) => answer,
            Err(_) => Err(session_lost(keeper.lost().await)),
        }
    }

    fn send_leave(&mut self, left: Option<oneshot::Sender<Result<()>>>) {
        if !std::mem::replace(&mut self.left, true) {
            let (queue, id, entering) = (self.queue.clone(), self.id.clone(), self.entering.take());
            self.keeper.leave(Leave { queue, id, entering, left });
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
