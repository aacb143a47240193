//! Until when a session is certainly ours.
//!
//! The leader of the servers ends a session so long (the *timeout*) after it last heard of it. A client's server tells the leader of its
//! sessions with the answers to the leader's pings, twice a tick; and the commit of a write does *not* count as hearing of it. So the answer
//! to a keep-alive proves little by itself: a server that is cut off right then has told the leader of nothing. But what it sends to the
//! leader arrives in order. If a keep-alive was answered, and half a tick later another one is sent and committed, then a ping was answered
//! in between, or with it, and the leader has heard of the session after the first one was *sent*. A tick is not known here; but no server
//! takes a timeout below two ticks, unless its `minSessionTimeout` says so, which the docs rule out. Half a tick is a quarter of the
//! timeout then, at most.
//!
//! So the deadline is the timeout after the sending of the newest keep-alive whose answer came that quarter, and a little for the ping to
//! travel, before the sending of the latest one that was answered. With another server in between this holds too: a session that is taken
//! up there is told to the leader at once, and that is later than the older keep-alive.

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tenure_core::{Clock, Moment};

/// What is known of the life of a session.
#[derive(Debug)]
pub(crate) struct Lease {
    timeout: Duration,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    deadline: Moment,
    /// The latest one that a keep-alive was answered with.
    told: Moment,
    /// It has passed, and that was acted on: nothing moves it any more.
    over: bool,
    /// Keep-alives that were answered, and can still prove something.
    beats: VecDeque<Beat>,
}

#[derive(Clone, Copy, Debug)]
struct Beat {
    sent: Moment,
    answered: Moment,
}

/// What one keep-alive is worth, of the timeout of a session: what is left of it after the quarter, the travel, and a reserve for the call.
pub(crate) fn validity(timeout: Duration) -> Duration {
    timeout * 7 / 10
}

/// The timeout of a session whose keep-alives are worth so much.
pub(crate) fn timeout_for(validity: Duration) -> Duration {
    // Servers count milliseconds.
    Duration::from_millis(u64::try_from((validity * 10).as_nanos().div_ceil(7_000_000)).unwrap_or(u64::MAX))
}

impl Lease {
    /// Of a session whose opening was sent then. The leader makes a session, so it knows of it by then for certain.
    pub(crate) fn new(timeout: Duration, opening: Moment) -> Self {
        let deadline = opening + validity(timeout);
        let state = State { deadline, told: deadline, over: false, beats: VecDeque::new() };
        Self { timeout, state: Mutex::new(state) }
    }

    pub(crate) fn deadline(&self) -> Moment {
        self.state().deadline
    }

    /// From when on a keep-alive can be answered with a later deadline than before; `None` if at once. A session that was taken to another
    /// server, for the sake of any call, was checked there: that may have proven more than was told.
    pub(crate) fn due(&self) -> Option<Moment> {
        let state = self.state();
        if state.deadline.since_boot > state.told.since_boot {
            return None;
        }
        let more = |beat: &&Beat| (beat.sent + self.timeout).since_boot > state.deadline.since_boot;
        state.beats.iter().find(more).map(|beat| beat.answered + self.spacing())
    }

    /// Whether the deadline has passed. If so, it has for good.
    pub(crate) fn is_over(&self, clock: &Clock) -> bool {
        let mut state = self.state();
        state.over |= clock.has_passed(state.deadline);
        state.over
    }

    /// A keep-alive was sent then, and has just been answered: the deadline. `None` if it comes too late.
    pub(crate) fn renewed(&self, sent: Moment, answered: Moment) -> Option<Moment> {
        let mut state = self.state();
        if state.over {
            return None;
        }
        state.beats.push_back(Beat { sent, answered });
        let proven = |beat: &Beat| (beat.answered + self.spacing()).since_boot <= sent.since_boot;
        while state.beats.get(1).is_some_and(proven) {
            state.beats.pop_front();
        }
        if let Some(beat) = state.beats.front().copied().filter(proven) {
            let proven = beat.sent + self.timeout;
            if proven.since_boot > state.deadline.since_boot {
                state.deadline = proven;
            }
        }
        Some(state.deadline)
    }

    /// The same, and the deadline is told.
    pub(crate) fn tell(&self, sent: Moment, answered: Moment) -> Option<Moment> {
        let deadline = self.renewed(sent, answered)?;
        self.state().told = deadline;
        Some(deadline)
    }

    /// A quarter, and an eighth of that for the ping to travel.
    fn spacing(&self) -> Duration {
        self.timeout * 9 / 32
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use tenure_core::BootId;

    use super::*;

    const T: Duration = Duration::from_millis(3200);

    fn at(millis: u64) -> Moment {
        Moment { boot: BootId::new(1), since_boot: Duration::from_millis(millis) }
    }

    #[test]
    fn a_keep_alive_proves_only_what_was_answered_a_quarter_before_it_was_sent() {
        let lease = Lease::new(T, at(0));
        assert_eq!((lease.deadline(), lease.due()), (at(2240), None));
        assert_eq!(lease.renewed(at(10), at(20)), Some(at(2240)), "nothing was answered before it");
        assert_eq!(lease.due(), Some(at(920)));
        assert_eq!(lease.renewed(at(919), at(925)), Some(at(2240)), "too early for the first to be told");
        assert_eq!(lease.renewed(at(920), at(930)), Some(at(3210)), "counts from the sending of the first");
        assert_eq!(lease.renewed(at(1829), at(1835)), Some(at(4119)), "one of the two in between was answered in time");
        assert_eq!(lease.renewed(at(6000), at(9000)), Some(at(5029)));
        assert_eq!(lease.renewed(at(9100), at(9200)), Some(at(5029)), "the long one was answered only just now");
        assert_eq!(lease.renewed(at(9900), at(9950)), Some(at(9200)));
    }

    #[test]
    fn what_another_call_has_proven_is_told_at_once() {
        let lease = Lease::new(T, at(0));
        lease.tell(at(10), at(20));
        lease.tell(at(920), at(930)).expect("not over");
        assert_eq!(lease.due(), Some(at(1830)));
        assert_eq!(lease.renewed(at(1900), at(1910)), Some(at(4120)), "the session was taken to another server");
        assert_eq!(lease.due(), None, "until 4120 it is ours, and whoever keeps it alive believes until 3210");
        assert_eq!(lease.tell(at(1950), at(1960)), Some(at(4120)));
        assert_eq!(lease.due(), Some(at(2810)));
    }

    #[test]
    fn one_keep_alive_after_the_other_is_worth_what_was_wanted() {
        for wanted in [1000_u64, 2800, 10_000, 86_400_000].map(Duration::from_millis) {
            let timeout = timeout_for(wanted);
            let worth = validity(timeout);
            assert!(worth >= wanted && worth < wanted + Duration::from_millis(5), "{wanted:?}: {worth:?}");
            let lease = Lease::new(timeout, at(0));
            lease.tell(at(0), at(1));
            let mut sent = at(0);
            for _ in 0..5 {
                sent = lease.due().expect("one was sent before");
                let deadline = lease.tell(sent, sent + wanted / 100).expect("not over");
                assert!(deadline.since_boot >= (sent + wanted).since_boot, "{wanted:?}");
            }
            assert!(sent.since_boot > wanted, "{wanted:?}");
        }
    }
}
