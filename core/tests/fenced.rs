//! What core makes of the answers of a fenced store, and of answers that never come.

use std::time::Duration;

use tenure_core::{Call, Coordinator, ErrorKind, Fault, LockGuard, MemoryBackend, Options, QueueName, Version};
use tokio::time::{Instant, sleep};

const TTL: Duration = Duration::from_secs(3);

struct World {
    backend: MemoryBackend,
    guard: LockGuard,
    other: Coordinator,
}

fn coordinator(backend: &MemoryBackend) -> Coordinator {
    let mut options = Options::default();
    (options.ttl, options.token_base) = (TTL, 1000);
    Coordinator::new(backend.clone(), options).expect("good options")
}

impl World {
    async fn new() -> Self {
        let backend = MemoryBackend::new();
        let guard = coordinator(&backend).lock("x").await.expect("granted");
        let other = coordinator(&backend.other_client());
        Self { backend, guard, other }
    }

    async fn stored(&self) -> Option<Vec<u8>> {
        let found = self.other.data("x").expect("a good name").get("k").await.expect("read");
        found.map(|stored| stored.value)
    }

    async fn put(&self, value: &[u8]) -> Result<Version, ErrorKind> {
        self.guard.fenced().expect("it has data").put("k", value).await.map_err(|error| error.kind())
    }

    async fn put_if(&self, version: Option<Version>, value: &[u8]) -> Result<Option<Version>, ErrorKind> {
        self.guard.fenced().expect("it has data").put_if("k", version, value).await.map_err(|error| error.kind())
    }

    /// As an operator would.
    fn remove(&self) {
        let name = QueueName::new("x").expect("a good name");
        let first = self.backend.entries(&name)[0].clone();
        assert!(self.backend.remove(&name, &first));
    }
}

#[tokio::test(start_paused = true)]
async fn a_put_without_an_answer_is_unknown_and_sent_once() {
    for (fault, stored) in [(Fault::LoseReply, Some(&b"new"[..])), (Fault::LoseRequest, None), (Fault::Hang, None)] {
        let world = World::new().await;
        world.backend.inject(Call::Edit, fault);
        world.backend.inject(Call::Edit, Fault::Deny); // whoever repeats it is told so
        let start = Instant::now();
        assert_eq!(world.put(b"new").await, Err(ErrorKind::Unknown), "{fault:?}");
        assert!(start.elapsed() <= TTL / 3 + Duration::from_millis(50), "{fault:?}");
        assert_eq!(world.stored().await.as_deref(), stored, "{fault:?}");
        assert_eq!(world.put(b"next").await, Err(ErrorKind::Denied), "a refusal is no doubt");
    }
}

#[tokio::test(start_paused = true)]
async fn a_put_that_comes_late_overwrites_nothing_that_was_answered_after_it() {
    let late = Duration::from_secs(1);
    let world = World::new().await;
    world.backend.inject(Call::Edit, Fault::ApplyLate(late));
    assert_eq!(world.put(b"old").await, Err(ErrorKind::Unknown));
    world.put(b"new").await.expect("written");
    sleep(2 * late).await;
    assert_eq!(world.stored().await.as_deref(), Some(&b"new"[..]));
    world.backend.inject(Call::Edit, Fault::ApplyLate(late));
    assert_eq!(world.put(b"later").await, Err(ErrorKind::Unknown));
    let settled = world.guard.fenced().expect("it has data").get("k").await.expect("read").expect("there");
    assert_eq!(settled.value, b"new");
    sleep(2 * late).await;
    assert_eq!(world.stored().await.as_deref(), Some(&b"new"[..]), "a read has settled it");
    world.backend.inject(Call::Edit, Fault::ApplyLate(late));
    assert_eq!(world.put(b"seen").await, Err(ErrorKind::Unknown));
    sleep(2 * late).await;
    assert_eq!(world.stored().await.as_deref(), Some(&b"seen"[..]), "the fault does something");
}

#[tokio::test(start_paused = true)]
async fn a_conditional_put_is_repeated_and_takes_effect_once() {
    for fault in [Fault::LoseReply, Fault::LoseRequest, Fault::Hang, Fault::ApplyLate(Duration::from_secs(1))] {
        let world = World::new().await;
        world.backend.inject(Call::Edit, fault);
        let first = world.put_if(None, b"1").await.expect("written").expect("it was not there");
        world.backend.inject(Call::Edit, fault);
        let second = world.put_if(Some(first), b"2").await.expect("written").expect("as expected");
        sleep(Duration::from_secs(2)).await;
        let found = world.other.data("x").expect("a name").get("k").await.expect("read").expect("there");
        assert_eq!((found.value, found.version), (b"2".to_vec(), second), "{fault:?}");
        assert_eq!(world.put_if(Some(first), b"3").await, Ok(None), "an old version");
        assert_eq!(world.put_if(None, b"3").await, Ok(None), "it is there");
        world.backend.inject(Call::Edit, fault);
        let data = world.guard.fenced().expect("it has data");
        assert!(data.delete_if("k", second).await.expect("deleted"), "{fault:?}");
        assert!(!data.delete_if("k", second).await.expect("an answer"), "it was deleted before");
    }
}

#[tokio::test(start_paused = true)]
async fn the_winner_is_named_with_the_token_base() {
    let world = World::new().await;
    world.put(b"1").await.expect("written");
    world.remove();
    let next = world.other.lock("x").await.expect("granted");
    let error = world.guard.fenced().expect("it has data").put("k", b"2").await.expect_err("refused");
    assert_eq!((error.kind(), error.winner()), (ErrorKind::Fenced, Some(next.token())));
    assert!(!error.is_retryable() && next.token().get() > 1000, "{error}");
    assert!(!world.guard.is_held(), "a refusal ends the guard");
    assert_eq!(world.put(b"2").await, Err(ErrorKind::SessionLost), "and from then on nobody is asked");
    drop(next);
    let world = World::new().await;
    world.remove();
    let _reader = world.other.read("x").await.expect("granted");
    let error = world.guard.fenced().expect("it has data").delete("k").await.expect_err("refused");
    assert_eq!((error.kind(), error.winner()), (ErrorKind::Fenced, None), "readers have no tokens");
}

#[tokio::test(start_paused = true)]
async fn who_wrote_and_released_is_named_as_the_winner_too() {
    let world = World::new().await;
    world.put(b"1").await.expect("written");
    world.remove();
    let next = world.other.lock("x").await.expect("granted");
    next.fenced().expect("it has data").put("k", b"2").await.expect("the holder");
    let winner = next.token();
    next.release().await.expect("released");
    let error = world.guard.fenced().expect("it has data").put("k", b"3").await.expect_err("refused");
    assert_eq!((error.kind(), error.winner()), (ErrorKind::Fenced, Some(winner)), "{error}");
    assert!(error.to_string().contains(&winner.to_string()), "{error}");
    // What is there is our own.
    let world = World::new().await;
    world.put(b"1").await.expect("written");
    world.remove();
    let error = world.guard.fenced().expect("it has data").put("k", b"3").await.expect_err("refused");
    assert_eq!((error.kind(), error.winner()), (ErrorKind::Fenced, None), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_refusal_after_a_doubt_says_no_more_than_is_known() {
    let world = World::new().await;
    let version = world.put(b"1").await.expect("written");
    // It has taken effect before the entry went: that is success.
    world.backend.inject(Call::Edit, Fault::LoseReply);
    let (done, ()) = tokio::join!(world.put_if(Some(version), b"2"), async {
        sleep(Duration::from_millis(5)).await;
        world.remove();
    });
    assert!(done.expect("written").is_some());
    assert!(!world.guard.is_held());
    // It has not, and what is there shows it.
    let world = World::new().await;
    let version = world.put(b"1").await.expect("written");
    world.backend.inject(Call::Edit, Fault::LoseRequest);
    let refused = tokio::join!(world.put_if(Some(version), b"2"), async {
        sleep(Duration::from_millis(5)).await;
        world.remove();
    });
    assert_eq!(refused.0, Err(ErrorKind::Fenced));
    // Nobody can tell: it may have been written, and deleted by the next holder.
    let world = World::new().await;
    world.backend.inject(Call::Edit, Fault::LoseRequest);
    let unknown = tokio::join!(world.put_if(None, b"2"), async {
        sleep(Duration::from_millis(5)).await;
        world.remove();
    });
    assert_eq!(unknown.0, Err(ErrorKind::Unknown));
}

#[tokio::test(start_paused = true)]
async fn a_repeat_that_finds_somebody_elses_write_is_unknown() {
    let world = World::new().await;
    let version = world.put(b"1").await.expect("written");
    world.backend.inject(Call::Edit, Fault::LoseReply);
    let (done, sibling) = tokio::join!(world.put_if(Some(version), b"2"), async {
        sleep(Duration::from_millis(5)).await;
        world.put(b"3").await
    });
    sibling.expect("written");
    assert_eq!(done, Err(ErrorKind::Unknown), "it was written, and overwritten since");
}

#[tokio::test(start_paused = true)]
async fn a_lost_guard_asks_nobody_and_a_loss_on_the_way_is_unknown() {
    let world = World::new().await;
    let version = world.put(b"1").await.expect("written");
    world.backend.cut(true);
    let start = Instant::now();
    assert_eq!(world.put_if(Some(version), b"2").await, Err(ErrorKind::Unknown));
    assert!(start.elapsed() <= TTL + TTL / 3, "{:?}", start.elapsed());
    world.guard.lost().await;
    for answer in [world.put(b"2").await.map(Some), world.put_if(Some(version), b"2").await] {
        assert_eq!(answer, Err(ErrorKind::SessionLost));
    }
    let read = world.guard.fenced().expect("it has data").get("k").await;
    assert_eq!(read.expect_err("lost").kind(), ErrorKind::SessionLost);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_stored_is_refused_with_a_sentence() {
    let world = World::new().await;
    let data = world.guard.fenced().expect("it has data");
    for (error, says) in [
        (data.put("", b"").await.expect_err("no key"), "empty"),
        (data.put("k", &[0; 64 * 1024 + 1]).await.expect_err("too large"), "65537 bytes for 'k' of 'x'"),
        (data.get(&"k".repeat(513)).await.expect_err("too long"), "513 bytes"),
        (world.other.data("").expect_err("no name"), "empty"),
    ] {
        assert!(error.kind() == ErrorKind::Config && error.to_string().contains(says), "{error}");
    }
    data.put("k", &[0; 64 * 1024]).await.expect("it fits");
}

#[tokio::test(start_paused = true)]
async fn reading_without_the_lock_ends_within_the_connect_timeout() {
    let world = World::new().await;
    let cut = world.backend.other_client();
    let reader = coordinator(&cut);
    reader.data("x").expect("a name").get("k").await.expect("read");
    cut.cut(true);
    let start = Instant::now();
    let error = reader.data("x").expect("a name").get("k").await.expect_err("cut off");
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(start.elapsed() <= Duration::from_secs(5), "{:?}", start.elapsed());
}
