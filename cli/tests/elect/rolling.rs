//! Hand-overs in good order: each body ends before the next one starts, and that soon.

use std::time::Duration;

use super::{
    replicas,
    replicas::{HAND_OVER, Replicas, rounds},
};
use crate::{
    ledger::longest_gap,
    support::{Room, found, text},
};

#[test]
fn asked_to_resign_it_hands_over_and_queues_up_again() {
    let mut replicas = replicas();
    for round in 0..rounds() {
        let (_, before, took) = replicas.resigns(None);
        println!("resigned, round {round}: {took:?}");
        assert!(before.stopped, "it was told, and had the time");
        replicas.until_candidates(3);
    }
    let terms = replicas.end();
    assert_eq!(terms.len(), usize::try_from(rounds()).expect("few") + 1);
    assert!(terms.iter().all(|term| term.stopped), "starts and stops are paired");
    assert!(longest_gap(&terms) < HAND_OVER, "{:?}", longest_gap(&terms));
}

/// With a ttl that nobody could wait for in a hand-over.
#[test]
fn replacing_three_replicas_one_by_one_lacks_a_leader_only_for_the_hand_overs() {
    Replicas::start(Room::with_ttl("15s"), Duration::from_secs(15), 3).rolls(rounds());
}

#[test]
fn the_chosen_one_leads_next() {
    let mut replicas = replicas();
    for _ in 0..rounds() {
        let [_, id, value] = found("three candidates", || replicas.candidates().into_iter().nth(2));
        let (_, before, _) = replicas.harm(|room, _| {
            let output = room.run(&["resign", "-w", "20", "--to", &id, "job"]);
            assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
            assert!(text(&output.stdout).ends_with(&format!(" {value}\n")), "{}", text(&output.stdout));
        });
        assert!(before.stopped);
        assert_eq!(replicas.terms().pop().expect("somebody leads").name, value);
        replicas.until_candidates(3);
    }
    replicas.end();
}
