//! The command line on every backend that processes can share, and every wrong configuration on every one that it can be written for.

#![expect(clippy::print_stdout, reason = "what people are told is to be seen beside the result of the test")]

#[path = "../support/mod.rs"]
mod support;

mod moving;
mod refused;
mod remembering;

use support::{Room, text};
use tenure_conformance::server::Place;
use tokio::sync::{Mutex, MutexGuard};

/// Servers of several tests beside each other would take each other's processor time.
async fn alone() -> MutexGuard<'static, ()> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::const_new(());
    ONE_AT_A_TIME.lock().await
}

fn room(place: &Place) -> Room {
    Room::on(place.url("namespace=backends&ttl=10s"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_runs_once_on_every_backend() {
    let _alone = alone().await;
    for place in Place::shared().await {
        let room = room(&place);
        let number = |output: std::process::Output| {
            assert_eq!(output.status.code(), Some(0), "{}: {}", place.label, text(&output.stderr));
            text(&output.stdout).trim().parse::<u64>().expect("a token")
        };
        let show = ["lock", "job", "sh", "-c", "echo $TENURE_TOKEN"];
        let first = number(room.run(&show));
        let mut holder = room.start_ready(&["job"], "touch ready; until [ -e go ]; do sleep 0.01; done; exit 3");
        assert_eq!(room.run(&["lock", "-n", "job", "touch", "ran"]).status.code(), Some(75), "{}", place.label);
        assert_eq!(room.run(&["lock", "-n", "other", "true"]).status.code(), Some(0), "{}", place.label);
        assert!(!room.path("ran").exists());
        room.write("go", "");
        assert_eq!(holder.code(), 3);
        let last = number(room.run(&show));
        assert!(last > first, "{}: {last} after {first}", place.label);
        // One in another, told by the same environment.
        let nested =
            room.run(&["lock", "outer", env!("CARGO_BIN_EXE_tenure"), "lock", "job", "sh", "-c", "echo $TENURE_TOKEN"]);
        println!("{:8} {first} {last} {}", place.label, number(nested));
    }
}
