//! Cases on data as users have it: [`tenure_core::Fenced`] in the hands of a holder, and [`tenure_core::Data`] for anybody.

use std::time::Duration;

use tenure_core::{Coordinator, ErrorKind, LockGuard, MAX_VALUE, Stored, Version};
use tokio::time::timeout;

use crate::{
    Harness, HarnessExt,
    coordinators::{soon, until_queued},
    dice::Dice,
    flaky::{Flaky, Odds},
};

async fn read(coordinator: &Coordinator, name: &str, key: &str) -> Option<Stored> {
    coordinator.data(name).expect("a good name").get(key).await.expect("read")
}

async fn write(guard: &LockGuard, key: &str, value: &[u8]) -> Version {
    guard.fenced().expect("it keeps data").put(key, value).await.expect("written")
}

/// The holder writes, reads and deletes; everybody sees the last write, and who made it.
pub async fn a_holder_writes_and_anybody_reads(harness: &dyn Harness) {
    let (first, second) = (harness.coordinator().await, harness.coordinator().await);
    assert_eq!(read(&second, "x", "k").await, None);
    let mut tokens = Vec::new();
    for round in 0..3_u8 {
        let holder = if round % 2 == 0 { &first } else { &second };
        let guard = soon("in turn", holder.lock("x")).await;
        let data = guard.fenced().expect("it keeps data");
        for value in [&[round][..], &[round, 1]] {
            let version = data.put("k", value).await.expect("written");
            let stored = Stored { value: value.to_vec(), version, token: guard.token() };
            for found in
                [data.get("k").await.expect("read"), read(&first, "x", "k").await, read(&second, "x", "k").await]
            {
                assert_eq!(found.as_ref(), Some(&stored));
            }
        }
        tokens.push(guard.token());
        guard.release().await.expect("released");
    }
    assert!(tokens.is_sorted(), "{tokens:?}");
    let guard = soon("once more", first.lock("x")).await;
    let data = guard.fenced().expect("it keeps data");
    data.delete("k").await.expect("deleted");
    data.delete("k").await.expect("nothing to delete is no failure");
    assert_eq!(read(&second, "x", "k").await, None);
}

/// Conditional writes and deletions.
pub async fn a_version_that_does_not_match_changes_nothing(harness: &dyn Harness) {
    let coordinator = harness.coordinator().await;
    let guard = coordinator.lock("x").await.expect("granted");
    let data = guard.fenced().expect("it keeps data");
    assert_eq!(data.put_if("k", Some(Version(0)), b"0").await.expect("an answer"), None);
    assert!(!data.delete_if("k", Version(0)).await.expect("an answer"));
    let first = data.put_if("k", None, b"1").await.expect("an answer").expect("it was not there");
    assert_eq!(data.put_if("k", None, b"2").await.expect("an answer"), None, "it was there");
    let second = data.put_if("k", Some(first), b"2").await.expect("an answer").expect("as expected");
    for old in [first, Version(second.0 + 1), Version(0)] {
        assert_eq!(data.put_if("k", Some(old), b"3").await.expect("an answer"), None);
        assert!(!data.delete_if("k", old).await.expect("an answer"));
    }
    assert_eq!(read(&coordinator, "x", "k").await.map(|found| found.version), Some(second));
    assert!(data.delete_if("k", second).await.expect("an answer"));
    assert_eq!(read(&coordinator, "x", "k").await, None);
    guard.verify().await.expect("a conflict is no loss");
}

/// Clause 2: what was read before a deletion is not taken for what was written after it.
pub async fn versions_rise_and_are_never_used_again(harness: &dyn Harness) {
    let coordinator = harness.coordinator().await;
    let mut last = Version(0);
    for round in 0..6 {
        let guard = soon("in turn", coordinator.lock("x")).await;
        let data = guard.fenced().expect("it keeps data");
        let next = data.put("k", b"same").await.expect("written");
        assert!(next > last, "{next:?} after {last:?}");
        last = next;
        if round % 2 == 0 {
            data.delete("k").await.expect("deleted");
        }
        guard.release().await.expect("released");
    }
}

/// With its answers lost, a conditional write is repeated, and done once.
pub async fn a_conditional_write_whose_answer_is_lost_is_done_once(harness: &dyn Harness) {
    let client = Flaky::new(harness.client().await, 1, Odds::NONE);
    let coordinator = harness.coordinator_over(client.clone());
    let guard = coordinator.lock("x").await.expect("granted");
    let data = guard.fenced().expect("it keeps data");
    let mut seen = None;
    for round in 1..=3_u32 {
        client.lose_answers_to_edits(round);
        let (before, value) = (client.edits(), round.to_string());
        let written = data.put_if("k", seen, value.as_bytes()).await.expect("written").expect("as expected");
        assert_eq!(client.edits() - before, u64::from(round) + 1);
        let found = data.get("k").await.expect("read").expect("there");
        assert_eq!((found.value, found.version), (value.into_bytes(), written), "written twice");
        seen = Some(written);
    }
    client.lose_answers_to_edits(1);
    assert!(data.delete_if("k", seen.expect("written")).await.expect("deleted"));
    assert_eq!(data.get("k").await.expect("read"), None);
}

/// With its answer lost, a write that asks for nothing is unknown, and not sent again.
pub async fn a_write_whose_answer_is_lost_is_unknown_and_sent_once(harness: &dyn Harness) {
    let client = Flaky::new(harness.client().await, 1, Odds::NONE);
    let coordinator = harness.coordinator_over(client.clone());
    let guard = coordinator.lock("x").await.expect("granted");
    let data = guard.fenced().expect("it keeps data");
    client.lose_answers_to_edits(1);
    let error = data.put("k", b"1").await.expect_err("nobody knows");
    assert_eq!((error.kind(), client.edits()), (ErrorKind::Unknown, 1));
    assert_eq!(data.get("k").await.expect("read").expect("it was written").value, b"1");
    client.lose_answers_to_edits(1);
    assert_eq!(data.delete("k").await.expect_err("nobody knows").kind(), ErrorKind::Unknown);
    assert_eq!((data.get("k").await.expect("read"), client.edits()), (None, 2));
    data.put("k", b"2").await.expect("it goes on");
    guard.verify().await.expect("a doubt is no loss");
}

/// Once a loss is known here, nobody is asked.
pub async fn a_lost_guard_writes_nothing_and_asks_nobody(harness: &dyn Harness) {
    let client = Flaky::new(harness.client().await, 1, Odds::NONE);
    let (coordinator, other) = (harness.coordinator_over(client.clone()), harness.coordinator().await);
    let guard = coordinator.lock("x").await.expect("granted");
    write(&guard, "k", b"1").await;
    client.cut(true);
    timeout(harness.ttl() * 3, guard.lost()).await.expect("told");
    client.cut(false);
    let next = timeout(harness.ttl() * 4 + harness.expiry_slack(), other.lock("x")).await.expect("in time");
    let (next, edits) = (next.expect("granted"), client.edits());
    let data = guard.fenced().expect("it keeps data");
    for error in [
        data.put("k", b"stale").await.expect_err("lost"),
        data.put_if("k", None, b"stale").await.expect_err("lost"),
        data.delete("k").await.expect_err("lost"),
        data.get("k").await.expect_err("lost"),
    ] {
        assert_eq!(error.kind(), ErrorKind::SessionLost);
    }
    assert_eq!((client.edits(), read(&other, "x", "k").await.expect("there").value), (edits, b"1".to_vec()));
    write(&next, "k", b"2").await;
}

/// `a` and `a/b` are strangers, as names and as keys.
pub async fn data_of_names_and_keys_that_look_alike_do_not_meet(harness: &dyn Harness) {
    let coordinator = harness.coordinator().await;
    let long = "n".repeat(512);
    let texts =
        ["a", "a/b", "a/b/c", "a/", "ab", "A", "..", ".", "k", "%2F", "data", ".tenure", "é", "e\u{301}", &long];
    let mut held = Vec::new();
    for name in texts {
        let guard = soon("each is free", coordinator.lock(name)).await;
        for key in texts.into_iter().filter(|key| name.len() + key.len() < 600) {
            write(&guard, key, format!("{name} {key}").as_bytes()).await;
        }
        held.push(guard);
    }
    for name in texts {
        for key in texts.into_iter().filter(|key| name.len() + key.len() < 600) {
            let found = read(&coordinator, name, key).await.expect("there");
            assert_eq!(String::from_utf8_lossy(&found.value), format!("{name} {key}"));
        }
    }
}

/// Empty ones, binary ones, and up to 64 KiB.
pub async fn data_of_all_sizes(harness: &dyn Harness) {
    let coordinator = harness.coordinator().await;
    let guard = coordinator.lock("x").await.expect("granted");
    for size in [0, 1, 255, 4096, MAX_VALUE] {
        let value: Vec<_> = (0..size).map(|at| u8::try_from(at % 251).unwrap_or(0)).collect();
        write(&guard, "k", &value).await;
        assert_eq!(read(&coordinator, "x", "k").await.expect("there").value, value, "{size} bytes");
    }
    let error = guard.fenced().expect("it keeps data").put("k", &vec![0; MAX_VALUE + 1]).await.expect_err("too large");
    assert_eq!(error.kind(), ErrorKind::Config);
}

/// Data is no part of the queue, and outlives who wrote it.
pub async fn data_is_in_nobodys_way_and_outlives_its_writer(harness: &dyn Harness) {
    let (first, second) = (harness.coordinator().await, harness.coordinator().await);
    let guard = first.lock("x").await.expect("granted");
    write(&guard, "k", b"1").await;
    until_queued(harness, "x", 1).await;
    guard.release().await.expect("released");
    until_queued(harness, "x", 0).await;
    first.close().await.expect("closed");
    let next = soon("nothing is in the way", second.lock("x")).await;
    assert_eq!(read(&second, "x", "k").await.expect("there").value, b"1");
    write(&next, "k", b"2").await;
}

/// What it is for: to read and then to write loses nothing, whatever fails; and no doubt is left out.
pub async fn nothing_is_lost_while_calls_fail(harness: &dyn Harness) {
    let mut sum = Tally::default();
    // On a busy machine there may be too few calls for each fault to have been among them.
    for round in 0..4 {
        sum = sum.and(while_calls_fail(harness, round).await);
        if sum.done >= 10 && sum.unknown >= 1 && sum.faults >= 50 {
            break;
        }
    }
    let value = number(read(&harness.coordinator().await, "x", "k").await.as_ref());
    println!("{value} after {sum:?}");
    assert!((sum.done..=sum.done + sum.unknown).contains(&value), "{value} after {sum:?}");
    assert!(sum.done >= 10 && sum.unknown >= 1 && sum.faults >= 50, "nothing was tested: {sum:?}");
}

async fn while_calls_fail(harness: &dyn Harness, round: u64) -> Tally {
    let odds = Odds { hang: 2, lateness: harness.ttl() / 2, ..Odds::BAD };
    let mut tasks = Vec::new();
    for seed in 4 * round..4 * (round + 1) {
        let client = Flaky::new(harness.client().await, seed + 1, odds);
        let coordinator = harness.coordinator_over(client.clone());
        tasks.push(tokio::spawn(async move {
            let (dice, mut tally) = (Dice::new(seed + 100), Tally::default());
            let end = tokio::time::Instant::now() + Duration::from_secs(6);
            while tokio::time::Instant::now() < end {
                let patience = Duration::from_millis(50) + dice.time(Duration::from_secs(2));
                let Ok(Ok(guard)) = timeout(patience, coordinator.lock("x")).await else { continue };
                tally.add_one(&guard, dice.happens(500)).await;
            }
            tally.faults = client.faults();
            tally
        }));
    }
    let mut sum = Tally::default();
    for task in tasks {
        sum = sum.and(task.await.expect("no panic"));
    }
    sum
}

fn number(stored: Option<&Stored>) -> u64 {
    stored.map_or(0, |stored| String::from_utf8_lossy(&stored.value).parse().expect("a number"))
}

/// How additions ended.
#[derive(Debug, Default)]
struct Tally {
    done: u64,
    unknown: u64,
    refused: u64,
    faults: u64,
}

impl Tally {
    fn and(self, other: Self) -> Self {
        Self {
            done: self.done + other.done,
            unknown: self.unknown + other.unknown,
            refused: self.refused + other.refused,
            faults: self.faults + other.faults,
        }
    }

    async fn add_one(&mut self, guard: &LockGuard, by_version: bool) {
        let data = guard.fenced().expect("it keeps data");
        let Ok(seen) = data.get("k").await else { return };
        let next = (number(seen.as_ref()) + 1).to_string();
        let written = if by_version {
            let conflict = "nobody else writes while the lock is held";
            let version = seen.map(|seen| seen.version);
            data.put_if("k", version, next.as_bytes()).await.map(|version| version.expect(conflict))
        } else {
            data.put("k", next.as_bytes()).await
        };
        match written.map_err(|error| error.kind()) {
            Ok(_) => self.done += 1,
            Err(ErrorKind::Unknown) => self.unknown += 1,
            Err(ErrorKind::Fenced | ErrorKind::SessionLost | ErrorKind::Unavailable) => self.refused += 1,
            Err(other) => panic!("{other:?}"),
        }
    }
}
