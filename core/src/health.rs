//! How things stand with a session: published by the task that renews it, looked at by everybody, judged by the clock.

use tokio::sync::watch;

use crate::{
    clock::{Clock, Moment},
    keeper::LossReason,
};

/// How things stand with a session. The deadline is already shortened by the margin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Health {
    Held(Moment),
    InJeopardy(Moment),
    Lost(LossReason),
}

impl Health {
    /// What it is by the clock: a deadline that has passed is a loss, whether or not anybody has noticed.
    fn judged_by(self, clock: &Clock) -> Self {
        match self {
            Self::Held(deadline) | Self::InJeopardy(deadline) if clock.has_passed(deadline) => {
                Self::Lost(LossReason::Expired)
            }
            health => health,
        }
    }
}

/// The end that publishes.
#[derive(Debug)]
pub(crate) struct Heart {
    sender: watch::Sender<Health>,
    clock: Clock,
}

/// The end that looks. Keeps nothing alive.
#[derive(Clone, Debug)]
pub(crate) struct Pulse {
    receiver: watch::Receiver<Health>,
    clock: Clock,
}

/// Both ends, for a session that is held until this deadline.
pub(crate) fn health(deadline: Moment, clock: Clock) -> (Heart, Pulse) {
    let (sender, receiver) = watch::channel(Health::Held(deadline));
    (Heart { sender, clock: clock.clone() }, Pulse { receiver, clock })
}

impl Heart {
    /// Publishes what was heard, unless the session is lost by now: nothing revives it, and the first reason stays. The clock is read
    /// under the lock that lookers take, so nobody who has seen it pass can see a later deadline.
    pub(crate) fn publish(&self, heard: Health) -> Health {
        let mut published = heard;
        self.sender.send_if_modified(|health| {
            let before = *health;
            published = match before.judged_by(&self.clock) {
                Health::Lost(reason) => Health::Lost(reason),
                _ => heard,
            };
            *health = published;
            published != before
        });
        published
    }
}

impl Pulse {
    /// How things stand now.
    pub(crate) fn health(&self) -> Health {
        let published = self.receiver.borrow(); // locked while the clock is read: see `Heart::publish`
        published.judged_by(&self.clock)
    }

    pub(crate) fn is_held(&self) -> bool {
        !matches!(self.health(), Health::Lost(_))
    }

    /// Returns once the health is not `seen` any more; at once if it is lost, since nothing changes after that.
    pub(crate) async fn changed_from(&self, seen: Health) -> Health {
        let mut updates = self.receiver.clone();
        loop {
            let published = *updates.borrow_and_update();
            let now = published.judged_by(&self.clock);
            let (Health::Held(deadline) | Health::InJeopardy(deadline)) = now else { return self.health() };
            if now != seen {
                return now;
            }
            // If the task has ended with its runtime, nobody renews any more, and only the deadline is left to wait for.
            tokio::select! {
                biased;
                () = self.clock.sleep_until(deadline) => {}
                Ok(()) = updates.changed() => {}
            }
        }
    }

    /// Returns once the session is lost.
    pub(crate) async fn lost(&self) -> LossReason {
        let mut health = self.health();
        loop {
            match health {
                Health::Lost(reason) => return reason,
                standing => health = self.changed_from(standing).await,
            }
        }
    }
}
