//! Another backend is another URL, and nothing else: one body, over every kind of backend, that must come out the same.

#![expect(clippy::print_stdout, reason = "the table of outcomes is to be seen beside the result of the test")]

mod body;
mod environment;
mod moving;

use body::{Outcomes, body};
use tenure_conformance::server::Place;
use tenure_core::{ErrorKind, Strength};
use tokio::sync::{Mutex, MutexGuard};

/// Servers of several tests beside each other would take each other's processor time.
async fn alone() -> MutexGuard<'static, ()> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::const_new(());
    ONE_AT_A_TIME.lock().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_body_comes_out_the_same_on_every_backend() {
    let _alone = alone().await;
    let mut all = Vec::new();
    for place in Place::all().await {
        let outcomes = body(&place.url("namespace=switch&ttl=10s")).await;
        all.push((place.label, place.strength, outcomes));
    }
    print_table(&all);
    let (first, _, expected) = &all[0];
    for (label, _, outcomes) in &all {
        assert_eq!(outcomes.rows(), expected.rows(), "{label} is not as {first}");
        assert!(outcomes.rows().iter().all(|(_, seen)| !seen.starts_with("NOT")), "{label}");
    }
}

fn print_table(all: &[(&str, Strength, Outcomes)]) {
    let line = |name: &str, cells: Vec<String>| println!("{name:15}| {}", cells.join(" | "));
    let cells =
        |of: &dyn Fn(&(&str, Strength, Outcomes)) -> String| all.iter().map(|one| format!("{:23}", of(one))).collect();
    line("", cells(&|(label, ..)| (*label).to_owned()));
    line("strength", cells(&|(_, strength, _)| strength.to_string()));
    for (at, (name, _)) in all[0].2.rows().iter().enumerate() {
        line(name, cells(&|(.., outcomes)| outcomes.rows()[at].1.clone()));
    }
    line("tokens seen", cells(&|(.., outcomes)| outcomes.tokens.clone()));
    line("hand-over", cells(&|(.., outcomes)| format!("{:.1?}", outcomes.handover)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_weaker_backend_than_required_is_refused() {
    let _alone = alone().await;
    let all = [Strength::Process, Strength::Host, Strength::SingleServer, Strength::Consensus];
    for place in Place::all().await {
        let mut line = Vec::new();
        for required in all {
            let connected = tenure::connect(&place.url(&format!("namespace=require&require={required}"))).await;
            line.push(format!("{required}: {}", if connected.is_ok() { "taken" } else { "refused" }));
            match connected {
                Ok(coordinator) => {
                    assert!(required <= place.strength, "{} was taken for {required}", place.label);
                    coordinator.close().await.expect("closed");
                }
                Err(error) => {
                    assert!(required > place.strength, "{}: {}", place.label, error.report());
                    let says = format!("write require = {}", place.strength);
                    assert!(error.kind() == ErrorKind::Config && error.to_string().contains(&says), "{error}");
                }
            }
        }
        println!("{:8} {}", place.label, line.join(", "));
    }
}
