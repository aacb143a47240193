//! How a tenure stands, for whoever asks, wherever its guard is; and what ends it apart from its session.

use std::time::Duration;

use tokio::{sync::watch, task::AbortHandle};

use crate::{
    error::{ErrorKind, Result},
    guard::State,
    health::{Health, Pulse},
    keeper::{Keeper, Leave, LossReason},
    place::Entry,
    queue::{Contender, ContenderId, QueueName, Snapshot, Wake},
};

/// What ends a tenure, apart from its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Removed,
    Unwell,
    Released,
}

/// The first end counts.
fn end_with(end: &watch::Sender<Option<End>>, by: End) {
    end.send_if_modified(|end| {
        let first = end.is_none();
        end.get_or_insert(by);
        first
    });
}

/// Ends the watching with the guard, and tells those who still look at it.
#[derive(Debug)]
pub(crate) struct Ending {
    end: watch::Sender<Option<End>>,
    watching: AbortHandle,
}

impl Ending {
    /// Watches the entry from now on.
    pub(crate) fn start(entry: &Entry, seen: Snapshot) -> Self {
        let end = watch::Sender::new(None);
        let own = OwnEntry { keeper: entry.keeper().clone(), queue: entry.queue().clone(), me: entry.me().clone() };
        let watching = entry.keeper().spawn(own.watch(seen, end.clone())).abort_handle();
        Self { end, watching }
    }

    /// The backend has said that the entry does not stand any more.
    pub(crate) fn as_removed(&self) {
        end_with(&self.end, End::Removed);
    }

    /// What ends it from elsewhere, even if whoever holds it does not move any more.
    pub(crate) fn ender(&self, entry: &Entry) -> Ender {
        let (keeper, queue) = (entry.keeper().clone(), entry.queue().clone());
        Ender { end: self.end.clone(), keeper, queue, id: entry.me().id.clone() }
    }

    pub(crate) fn standing(&self, entry: &Entry) -> Standing {
        Standing { pulse: entry.keeper().pulse.clone(), end: self.end.subscribe() }
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        self.watching.abort();
        end_with(&self.end, End::Released);
    }
}

/// Ends a tenure although its guard is still there.
pub(crate) struct Ender {
    end: watch::Sender<Option<End>>,
    keeper: Keeper,
    queue: QueueName,
    id: ContenderId,
}

impl Ender {
    /// It is lost from now on, and the next one may come. Whoever holds it may not have heard of it: that is what the token is for.
    pub(crate) fn give_up(self) {
        end_with(&self.end, End::Unwell);
        self.keeper.leave(Leave { queue: self.queue, id: self.id, entering: None, left: None });
    }
}

/// What tells how a tenure stands, after its guard has moved elsewhere too. It keeps nothing alive.
pub(crate) struct Standing {
    pulse: Pulse,
    end: watch::Receiver<Option<End>>,
}

impl Standing {
    /// `None` once it is released.
    pub(crate) fn now(&self) -> Option<State> {
        self.under(self.pulse.health())
    }

    fn under(&self, health: Health) -> Option<State> {
        let end = *self.end.borrow();
        Some(match (end, health) {
            (Some(End::Released), _) => return None,
            (Some(End::Removed), _) => State::Lost(LossReason::Removed),
            (Some(End::Unwell), _) => State::Lost(LossReason::Unwell),
            (None, Health::Held(deadline)) => State::Held { deadline },
            (None, Health::InJeopardy(deadline)) => State::InJeopardy { deadline },
            (None, Health::Lost(reason)) => State::Lost(reason),
        })
    }

    /// Returns once it stands otherwise than `last`, which is not `Lost`.
    pub(crate) async fn changed_from(&self, last: State) -> Option<State> {
        let mut end = self.end.clone();
        loop {
            let health = self.pulse.health(); // looked at once: the deadline may pass between two looks
            let now = self.under(health);
            if now != Some(last) {
                return now;
            }
            tokio::select! {
                biased;
                Ok(_) = end.wait_for(Option::is_some) => {}
                _ = self.pulse.changed_from(health) => {}
            }
        }
    }

    pub(crate) async fn lost(&self) -> LossReason {
        let mut state = self.now();
        loop {
            match state {
                Some(State::Lost(reason)) => return reason,
                Some(standing) => state = self.changed_from(standing).await,
                None => std::future::pending().await,
            }
        }
    }
}

/// Watches a holder's own entry, so that its removal by hand is told within a second.
struct OwnEntry {
    keeper: Keeper,
    queue: QueueName,
    me: Contender,
}

impl OwnEntry {
    /// How long a guard is held before it starts to watch. Short locks do not pay for it.
    const AFTER: Duration = Duration::from_millis(500);

    async fn watch(self, mut seen: Snapshot, end: watch::Sender<Option<End>>) {
        tokio::time::sleep(Self::AFTER).await;
        while seen.queue.contains(&self.me) {
            match self.change(&seen).await {
                Ok(now) => seen = now,
                Err(error) if error.kind() == ErrorKind::SessionLost => return, // the keeper tells
                Err(error) => {
                    tracing::warn!(queue = %self.queue, error = error.report(), "cannot watch the own entry");
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
            }
        }
        tracing::warn!(queue = %self.queue, "the own entry was removed by somebody else");
        end_with(&end, End::Removed);
    }

    async fn change(&self, seen: &Snapshot) -> Result<Snapshot> {
        let Self { keeper, queue, me } = self;
        keeper.wait(queue, seen, Wake::Gone(me)).await?;
        keeper.call(|| keeper.session.list(queue)).await
    }
}
