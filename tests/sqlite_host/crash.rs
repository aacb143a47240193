//! Processes that are killed.

use std::{
    io::{BufRead, BufReader},
    time::{Duration, Instant},
};

use tenure_core::FencingToken;
use tenure_tests::on_sqlite::{Killed, TTL, coordinator, within};

use crate::process;

fn tokens(child: &mut Killed) -> impl Iterator<Item = FencingToken> + use<> {
    let lines = BufReader::new(child.0.stdout.take().expect("piped")).lines();
    lines.map_while(Result::ok).filter_map(|line| line.strip_prefix("token ")?.parse().ok())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_at_any_point_loses_no_token_and_blocks_nobody_beyond_the_ttl() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("x.db");
    let mut highest = FencingToken::new(0);
    for round in 0..8 {
        let mut child = Killed(process(&[], "churn", &path).spawn().expect("it starts"));
        let mut said = tokens(&mut child);
        let first = said.next().expect("it works");
        assert!(first > highest, "{first} after {highest}");
        tokio::time::sleep(Duration::from_millis(13 * round)).await;
        drop(child);
        highest = said.last().unwrap_or(first).max(highest);
    }
    let started = Instant::now();
    let coordinator = coordinator(&path, TTL).await;
    let guard = within(coordinator.lock("q")).await.expect("granted");
    assert!(guard.token() > highest);
    assert!(started.elapsed() < TTL + Duration::from_secs(2), "{:?}", started.elapsed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_holder_is_succeeded_after_its_deadline_and_a_stopped_one_too() {
    for signal in ["-KILL", "-STOP"] {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("x.db");
        let mut child = Killed(process(&[], "hold", &path).spawn().expect("it starts"));
        let token = tokens(&mut child).next().expect("it holds");
        let coordinator = coordinator(&path, TTL).await;
        assert!(within(coordinator.try_lock("q")).await.expect("answered").is_none());
        let number = child.0.id().to_string();
        assert!(std::process::Command::new("kill").args([signal, &number]).status().expect("kill").success());
        let started = Instant::now();
        let guard = within(coordinator.lock("q")).await.expect("granted");
        assert!(guard.token() > token);
        // Up to a third of the ttl was over at the last keep-alive.
        assert!(started.elapsed() > TTL / 2, "{:?}", started.elapsed());
        assert!(started.elapsed() < TTL + Duration::from_secs(2), "{:?}", started.elapsed());
    }
}

#[test]
fn forty_processes_may_start_at_once_on_a_file_that_does_not_exist_yet() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("x.db");
    let start = |_| Killed(process(&[], "once", &path).spawn().expect("it starts"));
    let children: Vec<_> = (0..40).map(start).collect();
    let mut said: Vec<_> = children.into_iter().flat_map(|mut child| tokens(&mut child).collect::<Vec<_>>()).collect();
    said.sort();
    said.dedup();
    assert_eq!(said.len(), 40);
}
