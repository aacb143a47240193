//! What is remembered in the service, and what it knows of its holders, on every backend.

use tenure_conformance::server::Place;

use rustix::process::Signal;

use super::room;
use crate::support::{Room, found, send, text};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn once_and_histories_work_on_every_backend() {
    let _alone = crate::alone().await;
    for place in Place::shared().await {
        let room = room(&place);
        for words in [
            &["once", "key", "touch", "ran"][..],
            &["once", "key", "false"],
            &["once", "--status", "key"],
            &["once", "--forget", "key"],
            &["elect", "--history", "--once", "job", "touch", "ran"],
            &["observe", "--history", "job"],
        ] {
            let output = room.run(words);
            assert_eq!(output.status.code(), Some(0), "{} {words:?}: {}", place.label, text(&output.stderr));
        }
        assert!(room.path("ran").exists(), "{}", place.label);
        println!("{:8} remembers", place.label);
    }
}

/// Who asks is told of the holder, of nobody once that has expired, and of the next one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_token_of_the_holder_is_verified_on_every_backend_until_it_has_expired() {
    let _alone = crate::alone().await;
    let start = |room: &Room| {
        let holder = room.start_ready(&["job"], "echo $TENURE_TOKEN > token; touch ready; exec sleep 60");
        (holder, room.read("token").trim().parse::<u64>().expect("a token"))
    };
    let places = Place::shared().await;
    let mut held = Vec::new();
    for place in &places {
        let room = Room::on(place.url("namespace=verify&ttl=2s"));
        let (mut holder, token) = start(&room);
        for (asked, code) in [(token, 0), (token - 1, 1), (token + 1, 1)] {
            assert_eq!(verify(&room, asked), Some(code), "{}: {token} {asked}", place.label);
        }
        // Nobody releases: it is for the service to end it. Its watchdog ends the command.
        send(holder.pid(), Signal::KILL);
        holder.status();
        held.push((place.label, room, token));
    }
    for (label, room, token) in held {
        found("an expiry", || (verify(&room, token) == Some(1)).then_some(()));
        std::fs::remove_file(room.path("ready")).expect("it was there");
        let (_holder, next) = start(&room);
        assert!(next > token, "{label}");
        assert_eq!((verify(&room, token), verify(&room, next)), (Some(1), Some(0)), "{label}");
        println!("{label:8} {token} is over, {next} holds");
    }
}

fn verify(room: &Room, token: u64) -> Option<i32> {
    room.run(&["verify", "job", "--token", &token.to_string()]).status.code()
}
