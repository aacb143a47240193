//! Whose turn it is: a pure function of the queue. No clock, no I/O.

use std::num::NonZeroU32;

use crate::queue::{Contender, ContenderId};

/// What an entry contends for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// To be alone.
    Write,
    /// To share with other readers.
    Read,
    /// To be one of at most so many permit holders.
    Permit(NonZeroU32),
}

/// Whether an entry may act now, and what it waits for if not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Everything ahead is compatible.
    Mine,
    /// It cannot be ours before the entry at this place has gone.
    Behind(usize),
    /// All ahead are permits, but too many: it can be ours once any of them has gone.
    Crowded,
    /// The entry is not in the queue.
    Absent,
}

/// Whose turn it is, from the queue alone.
///
/// An entry may act if and only if every entry ahead is compatible with it: reads with reads; permits with permits, as long as fewer are
/// ahead than the smallest limit among them and itself; writers and strangers (ids that are not ours) with nothing. So grants of
/// exclusive entries happen in queue order, and a turn once given cannot be taken back by entries that come or go elsewhere.
///
/// `Behind` names the *nearest* incompatible entry: that is the one that hands over in a queue of writers, and a reader that is woken by
/// it finds those further ahead gone, or waits for the next.
pub fn turn(queue: &[Contender], me: &ContenderId) -> Turn {
    let Some(at) = queue.iter().position(|contender| contender.id == *me) else {
        return Turn::Absent;
    };
    turn_after(&queue[..at], me.mode().unwrap_or(Mode::Write))
}

/// The turn of an entry of this mode that stands behind `ahead`.
pub(crate) fn turn_after(ahead: &[Contender], mode: Mode) -> Turn {
    let nearest = |compatible: fn(&Mode) -> bool| {
        ahead.iter().rposition(|contender| !contender.id.mode().as_ref().is_some_and(compatible))
    };
    match mode {
        Mode::Write => ahead.len().checked_sub(1).map_or(Turn::Mine, Turn::Behind),
        Mode::Read => nearest(|mode| *mode == Mode::Read).map_or(Turn::Mine, Turn::Behind),
        Mode::Permit(limit) => match nearest(|mode| matches!(mode, Mode::Permit(_))) {
            Some(blocker) => Turn::Behind(blocker),
            None if ahead.len() < smallest_limit(ahead, limit) => Turn::Mine,
            None => Turn::Crowded,
        },
    }
}

fn smallest_limit(ahead: &[Contender], own: NonZeroU32) -> usize {
    let limits = ahead.iter().filter_map(|contender| match contender.id.mode() {
        Some(Mode::Permit(limit)) => Some(limit),
        _ => None,
    });
    limits.chain([own]).min().map_or(1, |limit| usize::try_from(limit.get()).unwrap_or(usize::MAX))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn permit(limit: u32) -> Mode {
        Mode::Permit(NonZeroU32::new(limit).expect("not zero"))
    }

    fn queue(modes: &[Option<Mode>]) -> Vec<Contender> {
        let id = |(at, mode): (usize, &Option<Mode>)| match mode {
            Some(mode) => ContenderId::random(*mode),
            None => ContenderId::from_backend(format!("stranger-{at}")),
        };
        modes.iter().enumerate().map(|pair| Contender { id: id(pair), key: "".into() }).collect()
    }

    /// The rule told slowly: who may act together, in words.
    fn may_act(modes: &[Option<Mode>], at: usize) -> bool {
        modes[..at].iter().all(|other| match (modes[at], other) {
            (Some(Mode::Read), Some(Mode::Read)) => true,
            (Some(Mode::Permit(_)), Some(Mode::Permit(_))) => modes[..=at]
                .iter()
                .flatten()
                .all(|mode| !matches!(mode, Mode::Permit(limit) if at >= limit.get() as usize)),
            _ => false,
        })
    }

    fn any_mode() -> impl Strategy<Value = Option<Mode>> {
        prop_oneof![
            Just(None),
            Just(Some(Mode::Write)),
            Just(Some(Mode::Read)),
            (1..4_u32).prop_map(|limit| Some(permit(limit)))
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn the_turn_is_what_the_slow_model_says(modes in prop::collection::vec(any_mode(), 1..9)) {
            let queue = queue(&modes);
            for at in 0..modes.len() {
                let turn = turn(&queue, &queue[at].id);
                prop_assert_eq!(turn == Turn::Mine, may_act(&modes, at), "{:?} at {}: {:?}", modes, at, turn);
            }
        }

        #[test]
        fn whoever_acts_together_is_allowed_to(modes in prop::collection::vec(any_mode(), 1..9)) {
            let queue = queue(&modes);
            let acting: Vec<_> = modes.iter().zip(&queue).filter(|(_, c)| turn(&queue, &c.id) == Turn::Mine).map(|(m, _)| *m).collect();
            prop_assert!(!acting.is_empty(), "the first may always act");
            let exclusive = acting.iter().filter(|mode| matches!(mode, None | Some(Mode::Write))).count();
            let readers = acting.iter().filter(|mode| **mode == Some(Mode::Read)).count();
            let smallest = acting.iter().flatten().filter_map(|mode| match mode { Mode::Permit(n) => Some(n.get() as usize), _ => None }).min();
            prop_assert!(match (exclusive, readers, smallest) {
                (1, ..) => acting.len() == 1,
                (0, n, None) => acting.len() == n,
                (0, 0, Some(smallest)) => acting.len() <= smallest,
                _ => false,
            }, "{:?}", acting);
        }

        #[test]
        fn a_turn_is_never_taken_back_and_the_blocker_is_a_real_one(modes in prop::collection::vec(any_mode(), 2..9), gone in any::<prop::sample::Index>()) {
            let queue = queue(&modes);
            let gone = gone.index(queue.len());
            let mut after = queue.clone();
            after.remove(gone);
            for (at, contender) in queue.iter().enumerate().filter(|(at, _)| *at != gone) {
                match turn(&queue, &contender.id) {
                    Turn::Mine => prop_assert_eq!(turn(&after, &contender.id), Turn::Mine),
                    // Whoever waits for one entry stays blocked while that one stays, whoever else leaves.
                    Turn::Behind(blocker) => prop_assert!(blocker < at && (blocker == gone || turn(&after, &contender.id) != Turn::Mine)),
                    Turn::Crowded => prop_assert!(gone < at || turn(&after, &contender.id) == Turn::Crowded),
                    Turn::Absent => prop_assert!(false, "it is there"),
                }
            }
        }
    }

    #[test]
    fn who_is_not_in_the_queue_is_absent() {
        assert_eq!(turn(&queue(&[Some(Mode::Read)]), &ContenderId::random(Mode::Read)), Turn::Absent);
    }
}
