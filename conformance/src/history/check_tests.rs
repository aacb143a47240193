//! The checker on histories written by hand: a good one, and one for everything that can be wrong.

use std::time::Duration;

use tenure_core::FencingToken;

use super::{Answer, Event, Expectations, History, Request, Strike, Violation, What, check};

const SECOND: u64 = 1_000_000;

/// A good history: worker 0 holds from 1 s to 2 s with token 3, is paused from 1.8 s to 5 s, and comes too late; worker 1 holds from 4 s
/// to 5.5 s with token 5.
fn good() -> History {
    let (three, five) = (token(3), token(5));
    let events = [
        (500, 0, What::Asking),
        (1000, 0, What::Granted { token: three }),
        (1001, 0, What::Holding { token: three }),
        (1002, 0, What::Read { token: three, answer: Answer::Accepted(0) }),
        (1500, 0, What::Wrote { token: three, answer: Answer::Accepted(1) }),
        (1799, 0, What::Holding { token: three }),
        (5001, 0, What::Lost { token: three, reason: "late".to_owned() }),
        (5002, 0, What::Wrote { token: three, answer: Answer::Refused(five) }),
        (700, 1, What::Asking),
        (4000, 1, What::Granted { token: five }),
        (4001, 1, What::Holding { token: five }),
        (4002, 1, What::Read { token: five, answer: Answer::Accepted(1) }),
        (5500, 1, What::Holding { token: five }),
        (5502, 1, What::Wrote { token: five, answer: Answer::Accepted(2) }),
        (5503, 1, What::Released { token: five }),
    ];
    let store = [
        (1002, three, None, Answer::Accepted(0)),
        (1500, three, Some(1), Answer::Accepted(1)),
        (4002, five, None, Answer::Accepted(1)),
        (5002, three, Some(2), Answer::Refused(five)),
        (5501, five, Some(2), Answer::Accepted(2)),
    ];
    History {
        events: events.map(|(at, worker, what)| Event { at: at * 1000, worker, life: 0, what }).into(),
        store: store.map(|(at, token, write, answer)| Request { at: at * 1000, token, write, answer }).into(),
        value: 2,
        strikes: vec![Strike { fault: "long pause".to_owned(), from: 1_800_000, to: 5_000_000 }],
        until: 8 * SECOND,
    }
}

fn token(number: u64) -> FencingToken {
    FencingToken::new(number)
}

fn expected() -> Expectations {
    let mut expected = Expectations::new(Duration::from_secs(2));
    (expected.grants, expected.losses, expected.refused) = (2, 1, 1);
    expected.strikes.insert("long pause".to_owned(), 1);
    expected
}

/// What is reported after a change to the good history.
fn reported(change: impl FnOnce(&mut History)) -> Vec<Violation> {
    let mut history = good();
    change(&mut history);
    check(&history, &expected()).err().unwrap_or_default().0
}

fn note(history: &mut History, at: u64, worker: usize, what: What) {
    history.events.push(Event { at, worker, life: 0, what });
}

#[test]
fn a_good_history_is_good_and_counted() {
    let summary = check(&good(), &expected()).unwrap_or_else(|wrong| panic!("{wrong}"));
    assert_eq!((summary.grants, summary.losses, summary.writes, summary.refused), (2, 1, 2, 1));
    assert_eq!(summary.longest_gap, Duration::from_secs(4));
    assert_eq!(
        summary.to_string(),
        "2 grants, 1 losses, 0 given up, 0 failures, 2 writes, 1 refused, longest time without a grant 4.0s, faults: 1 x long pause"
    );
}

#[test]
fn a_token_that_falls_at_the_store_is_reported() {
    let wrong = reported(|history| history.store.insert(4, Request { write: None, ..history.store[0] }));
    assert_eq!(wrong, [Violation::TokenFell { request: 4, highest: token(5), token: token(3) }]);
}

#[test]
fn a_token_of_two_grants_is_reported() {
    let again = What::Granted { token: token(5) };
    let wrong = reported(|history| note(history, 7 * SECOND, 0, again));
    assert!(wrong.contains(&Violation::TokenTwice { token: token(5), owners: ["1.0".to_owned(), "0.0".to_owned()] }));
}

#[test]
fn a_token_of_nobody_is_reported() {
    let wrong = reported(|history| history.store.push(Request { token: token(6), ..history.store[2] }));
    assert_eq!(wrong, [Violation::UnknownToken { request: 5, token: token(6) }]);
}

#[test]
fn a_later_grant_with_a_lower_token_is_reported() {
    let wrong = reported(|history| {
        note(history, 6 * SECOND, 1, What::Asking);
        note(history, 7 * SECOND, 1, What::Granted { token: token(4) });
    });
    let owners = ["1.0".to_owned(), "1.0".to_owned()];
    assert_eq!(wrong, [Violation::OutOfOrder { older: token(5), newer: token(4), owners }]);
}

#[test]
fn grants_asked_for_at_one_time_may_come_in_either_order() {
    let wrong = reported(|history| {
        history.events.insert(8, Event { at: 3_999_000, worker: 2, life: 0, what: What::Asking });
        note(history, 7 * SECOND, 2, What::Granted { token: token(4) });
    });
    assert_eq!(wrong, []);
}

#[test]
fn a_lost_update_and_a_wrong_sum_are_reported() {
    let wrong = reported(|history| history.store[4].write = Some(1));
    assert_eq!(wrong, [Violation::LostUpdate { request: 4, expected: 2, value: 1 }]);
    let wrong = reported(|history| history.value = 1);
    assert_eq!(wrong, [Violation::WrongSum { writes: 2, value: 1 }]);
}

#[test]
fn two_holders_at_one_time_are_reported() {
    let wrong = reported(|history| history.events[6] = Event { at: 4_501_000, ..history.events[5].clone() });
    let overlap = Violation::Overlap {
        tokens: [token(3), token(5)],
        owners: ["0.0".to_owned(), "1.0".to_owned()],
        length: 500_000,
    };
    assert!(wrong.contains(&overlap), "{wrong:?}");
}

#[test]
fn an_overlap_is_found_behind_one_that_lasts_longer() {
    let wrong = reported(|history| {
        history.events[6] = Event { at: 7 * SECOND, ..history.events[5].clone() };
        note(history, 6 * SECOND, 2, What::Granted { token: token(6) });
        note(history, 6 * SECOND, 2, What::Holding { token: token(6) });
    });
    assert_eq!(wrong.iter().filter(|wrong| matches!(wrong, Violation::Overlap { .. })).count(), 2, "{wrong:?}");
}

#[test]
fn a_holder_that_is_refused_is_reported() {
    let wrong = reported(|history| {
        history.events[13].what = What::Wrote { token: token(5), answer: Answer::Refused(token(6)) };
        note(history, 5_600_000, 1, What::Holding { token: token(5) });
    });
    assert_eq!(wrong, [Violation::HolderRefused { token: token(5), owner: "1.0".to_owned() }]);
}

#[test]
fn a_lock_that_nobody_gets_is_reported_but_a_pause_excuses() {
    let wrong = reported(|history| history.strikes[0].to = 1_900_000);
    assert_eq!(wrong, []);
    // Counted from the end of the pause, which is later than the last grant.
    let wrong = reported(|history| history.until = 12 * SECOND);
    assert_eq!(wrong, [Violation::NoProgress { waited: 7 * SECOND, until: 12 * SECOND }]);
    let wrong = reported(|history| {
        history.until = 12 * SECOND;
        history.strikes.push(Strike { fault: "long pause".to_owned(), from: 6 * SECOND, to: 9 * SECOND });
    });
    assert_eq!(wrong, []);
}

#[test]
fn a_failure_that_no_fault_explains_is_reported() {
    let grave = |grave| What::Failed { error: "a bug".to_owned(), grave };
    assert_eq!(reported(|history| note(history, SECOND, 3, grave(false))), []);
    let wrong = reported(|history| note(history, SECOND, 3, grave(true)));
    assert_eq!(wrong, [Violation::Failure { owner: "3.0".to_owned(), error: "a bug".to_owned() }]);
}

#[test]
fn a_history_in_which_too_little_happens_is_reported() {
    let wrong = check(&History::default(), &expected()).expect_err("it is empty").0;
    let kinds: Vec<_> = wrong
        .iter()
        .map(|wrong| match wrong {
            Violation::Vacuous { what, found: 0, wanted } => (what.as_str(), *wanted),
            other => panic!("{other}"),
        })
        .collect();
    assert_eq!(kinds, [("granted", 2), ("lost", 1), ("refused", 1), ("long pause", 1)]);
}
