//! Whatever happens to the leader: one body at a time, and the next one soon.

use std::{thread, time::Duration};

use rustix::process::Signal;

use super::{TTL, replicas, replicas::rounds};
use crate::support::{send, text};

#[test]
fn after_kill_9_the_next_one_leads_within_the_ttl() {
    let mut replicas = replicas();
    for round in 0..rounds() {
        let (position, _, took) = replicas.harm(|_, leader| leader.process.signal(Signal::KILL));
        println!("kill -9, round {round}: {took:?}");
        replicas.all.remove(position);
        replicas.add();
        replicas.until_candidates(3);
    }
    assert_eq!(replicas.end().len(), usize::try_from(rounds()).expect("few") + 1);
}

/// Its watchdog ends the body by the deadline. When it goes on, it queues up again.
#[test]
fn a_tenure_that_is_stopped_is_succeeded_and_queues_up_again() {
    let mut replicas = replicas();
    for round in 0..rounds() {
        let (position, _, took) = replicas.harm(|_, leader| leader.process.signal(Signal::STOP));
        println!("stopped, round {round}: {took:?}");
        replicas.all[position].process.signal(Signal::CONT);
        replicas.until_candidates(3);
        let name = &replicas.all[position].name;
        let said = replicas.room.read(&format!("{name}.err"));
        assert!(said.contains("leads 'job' no longer: it was lost: "), "{said}");
    }
    assert_eq!(replicas.end().len(), usize::try_from(rounds()).expect("few") + 1);
}

/// Asked to resign, `tenure` itself ends the body that its stopped watchdog does not end.
#[test]
fn a_watchdog_that_is_stopped_does_not_keep_the_leadership() {
    let mut replicas = replicas();
    replicas.slack += Duration::from_secs(1); // the watchdog's, after the drain time
    for round in 0..rounds() {
        let (_, before, took) = replicas.harm(|room, leader| {
            send(leader.process.watchdog(), Signal::STOP);
            let output = room.run(&["resign", "-w", "20", "job"]);
            assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        });
        println!("a stopped watchdog, round {round}: {took:?}");
        assert!(!before.stopped, "it was not told, and was killed after the drain time");
        replicas.until_candidates(3);
    }
    replicas.end();
}

#[test]
fn a_watchdog_that_is_killed_ends_the_term_and_no_more() {
    let mut replicas = replicas();
    for round in 0..rounds() {
        let (position, _, took) = replicas.harm(|_, leader| send(leader.process.watchdog(), Signal::KILL));
        println!("a killed watchdog, round {round}: {took:?}");
        assert!(took < TTL, "it resigns at once, not by the ttl");
        assert!(replicas.all[position].process.is_running());
        replicas.until_candidates(3);
    }
    replicas.end();
}

/// Both hear of it at the same time: the old one's command is killed within a second, and the next one's may have started by then.
#[test]
fn an_entry_that_an_operator_removes_ends_the_term() {
    let mut replicas = replicas();
    replicas.overlap = Duration::from_secs(1);
    for round in 0..rounds() {
        thread::sleep(Duration::from_millis(700)); // from then on the own entry is watched
        let (_, _, took) = replicas.harm(|room, _| {
            let first = "DELETE FROM entries WHERE token = (SELECT min(token) FROM entries)";
            assert_eq!(room.database().execute(first, []).expect("removed"), 1);
        });
        println!("removed, round {round}: {took:?}");
        replicas.until_candidates(3);
    }
    replicas.end();
}
