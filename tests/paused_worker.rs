//! A worker that is stopped between its read and its write: `paused-worker URL MODE`. It takes the lock that is called as the mode, says
//! which number it has read, waits for a line, adds one, and says how that ended.
//!
//! MODE is `guard` (as a user writes), `service` (as a request that had left the process before it was stopped: only the service can
//! refuse it) or `raw` (without any fence).

use std::io;

use tenure_core::{
    ContenderId, DataKey, Edit, EditId, Error, ErrorKind, Expect, Fence, Mode, Outcome, QueueName, Session,
};
use tenure_tests::raw;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let words: Vec<_> = std::env::args().skip(1).collect();
    let [url, mode] = &words[..] else { panic!("paused-worker URL MODE") };
    let config = url.parse().expect("a URL");
    let coordinator = tenure::drivers().connect(&config).await.expect("connected");
    if mode == "service" {
        let session = coordinator.backend().open(config.ttl).await.expect("a session").session;
        return bare(&*session).await;
    }
    let guard = coordinator.lock(mode).await.expect("granted");
    let data = guard.fenced().expect("it keeps data");
    let seen = raw::number(data.get("k").await.expect("read").as_ref());
    wait(seen);
    if mode == "raw" {
        raw::put(url, mode, "k", guard.token(), raw::text(seen + 1).as_bytes()).await;
        return println!("accepted");
    }
    match data.put("k", raw::text(seen + 1).as_bytes()).await {
        Ok(_) => println!("accepted"),
        Err(error) => told(&error),
    }
}

/// Here the test stops the process. No keep-alive is sent meanwhile.
fn wait(seen: u64) {
    println!("read {seen}");
    io::stdin().read_line(&mut String::new()).expect("a line");
}

fn told(error: &Error) {
    println!("refused {:?} {}", error.kind(), error.winner().map_or(0, |winner| winner.get()));
}

/// The same without a guard that knows the time.
async fn bare(session: &dyn Session) {
    let (name, id) = (QueueName::new("service").expect("a name"), ContenderId::random(Mode::Write));
    let (key, store) = (DataKey::new("k").expect("a key"), session.fenced().expect("it keeps data"));
    let entered = session.enter(&name, &id, b"").await.expect("entered");
    let entry = entered.snapshot.queue.iter().find(|entry| entry.id == id).expect("it is there");
    assert_eq!(entered.snapshot.queue[0].id, id, "somebody is ahead");
    let seen = store.get(&name, &key).await.expect("read").map(|datum| datum.stored);
    let seen = raw::number(seen.as_ref());
    wait(seen);
    let fence = Fence { queue: &name, entry, token: entered.token, raised: entered.token };
    let text = raw::text(seen + 1);
    let edit = Edit { key: &key, expect: Expect::Anything, value: Some(text.as_bytes()), id: &EditId::random() };
    match store.edit(fence, edit).await {
        Ok(Outcome::Done(_)) => println!("accepted"),
        Ok(Outcome::Fenced { first, .. }) => {
            println!("refused {:?} {}", ErrorKind::Fenced, first.map_or(0, |(_, token)| token.get()));
        }
        Ok(other) => println!("refused {other:?}"),
        Err(error) => told(&error),
    }
}
