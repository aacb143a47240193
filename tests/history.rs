//! Worker processes, a fenced store and a nemesis, over real backends; and the same with planted bugs, which the checker must report.
//!
//! `TENURE_HISTORY_SECONDS` says how long the nemesis strikes (20 unless set), `TENURE_HISTORY_SEED` repeats its choices.

use std::{
    hash::{BuildHasher, RandomState},
    path::Path,
    time::Duration,
};

use tenure_conformance::history::{
    Aim, Bug, Expectations, History, Nemesis, Pause, Summary, Trial, Violation, Violations, check,
};
use tokio::sync::Mutex;

/// Runs beside each other would take each other's processor time, and then show less.
static ONE_AT_A_TIME: Mutex<()> = Mutex::const_new(());

#[tokio::test]
async fn sqlite_keeps_its_word_whatever_is_killed_or_paused() {
    let folder = tempfile::tempdir().expect("a folder");
    keeps_its_word(&sqlite(folder.path())).await;
}

#[tokio::test]
async fn a_store_without_fence_and_workers_that_ignore_losses_are_reported() {
    let folder = tempfile::tempdir().expect("a folder");
    let quiet = Duration::from_secs(1);
    let wrong = planted(&sqlite(folder.path()), 6, |trial| {
        let nemesis = Nemesis::new(seed(), quiet).with(Pause::long(Aim::Holder, trial.ttl()));
        trial.without_fence().with_bug(Bug::IgnoreLoss).with_nemesis(nemesis)
    })
    .await;
    assert!(has(&wrong, |wrong| matches!(wrong, Violation::LostUpdate { .. })), "{wrong}");
    assert!(has(&wrong, |wrong| matches!(wrong, Violation::Overlap { .. })), "{wrong}");
    assert!(has(&wrong, |wrong| matches!(wrong, Violation::TokenFell { .. })), "{wrong}");
}

#[tokio::test]
async fn workers_that_ignore_losses_are_reported_behind_a_fence_too() {
    let folder = tempfile::tempdir().expect("a folder");
    let wrong = planted(&sqlite(folder.path()), 6, |trial| {
        let nemesis = Nemesis::new(seed(), Duration::from_secs(1)).with(Pause::long(Aim::Holder, trial.ttl()));
        trial.with_bug(Bug::IgnoreLoss).with_nemesis(nemesis)
    })
    .await;
    assert!(has(&wrong, |wrong| matches!(wrong, Violation::Overlap { .. })), "{wrong}");
    // This is what the fence is for: they overlap, and yet nothing is lost.
    assert!(
        !has(&wrong, |wrong| matches!(wrong, Violation::LostUpdate { .. } | Violation::WrongSum { .. })),
        "{wrong}"
    );
}

#[tokio::test]
async fn wrong_tokens_are_reported() {
    let folder = tempfile::tempdir().expect("a folder");
    let wrong = planted(&sqlite(folder.path()), 3, |trial| calmly(trial).with_bug(Bug::WrongToken)).await;
    assert!(has(&wrong, |wrong| matches!(wrong, Violation::UnknownToken { .. })), "{wrong}");
}

#[tokio::test]
async fn workers_that_never_lock_are_reported() {
    let folder = tempfile::tempdir().expect("a folder");
    let wrong = planted(&sqlite(folder.path()), 3, |trial| calmly(trial).with_bug(Bug::NoLock)).await;
    assert!(has(&wrong, |wrong| matches!(wrong, Violation::Overlap { .. })), "{wrong}");
    assert!(has(&wrong, |wrong| matches!(wrong, Violation::HolderRefused { .. })), "{wrong}");
}

/// The memory backend serves one process only. Used by several, it is a service that lets everybody hold.
#[tokio::test]
async fn a_backend_that_excludes_nobody_is_reported() {
    let wrong = planted("memory://history?ttl=2s", 3, calmly).await;
    assert!(has(&wrong, |wrong| matches!(wrong, Violation::TokenTwice { .. })), "{wrong}");
    assert!(has(&wrong, |wrong| matches!(wrong, Violation::OutOfOrder { .. })), "{wrong}");
    assert!(has(&wrong, |wrong| matches!(wrong, Violation::Overlap { .. })), "{wrong}");
}

fn sqlite(folder: &Path) -> String {
    format!("sqlite:{}?ttl=2s", folder.join("t.db").display())
}

/// The run that every backend must stand.
async fn keeps_its_word(url: &str) {
    let seconds = std::env::var("TENURE_HISTORY_SECONDS").map_or(20, |text| text.parse().expect("a number of seconds"));
    let (history, expected) = run(url, seconds, |trial| trial).await;
    let wrong = check(&history, &expected).err().unwrap_or_default();
    assert!(wrong.0.is_empty(), "{wrong}");
}

/// A run with something planted, of which only the planted may be asked.
async fn planted(url: &str, seconds: u64, plant: impl FnOnce(Trial) -> Trial) -> Violations {
    let (history, expected) = run(url, seconds, plant).await;
    check(&history, &expected).expect_err("the planted bug shows")
}

/// Hardly any faults.
fn calmly(trial: Trial) -> Trial {
    let nemesis = Nemesis::new(seed(), Duration::from_millis(100)).with(Pause::short(trial.ttl()));
    trial.with_nemesis(nemesis)
}

async fn run(url: &str, seconds: u64, change: impl FnOnce(Trial) -> Trial) -> (History, Expectations) {
    let _alone = ONE_AT_A_TIME.lock().await;
    let (folder, seed) = (tempfile::tempdir().expect("a folder"), seed());
    println!("{url}: seed {seed}, {seconds} s");
    let worker = env!("CARGO_BIN_EXE_tenure-worker");
    let trial = Trial::new(url, worker, folder.path(), seed, Duration::from_secs(seconds)).expect("a good URL");
    let trial = change(trial);
    let expected = trial.expectations();
    // Whatever hangs: a test that never ends tells nothing.
    let limit = Duration::from_secs(3 * seconds + 60);
    let history = tokio::time::timeout(limit, trial.run()).await.expect("it ends").expect("a run");
    println!("{}", Summary::of(&history));
    (history, expected)
}

fn seed() -> u64 {
    let chance = || RandomState::new().hash_one(0);
    std::env::var("TENURE_HISTORY_SEED").map_or_else(|_| chance(), |text| text.parse().expect("a number"))
}

fn has(wrong: &Violations, kind: impl Fn(&Violation) -> bool) -> bool {
    wrong.0.iter().any(kind)
}
