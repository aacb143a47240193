//! Work that is to succeed once.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use tenure_core::{
    Attempt, Begun, Call, Coordinator, ErrorKind, Fault, MemoryBackend, Once, Options, QueueName, Success, TestClock,
};
use tokio::time::{advance, sleep, timeout};

const HOUR: Duration = Duration::from_secs(3600);

struct World {
    backend: MemoryBackend,
    clock: TestClock,
}

impl World {
    fn new() -> Self {
        let clock = TestClock::new();
        Self { backend: MemoryBackend::with_clock(clock.clock()), clock }
    }

    /// Of a client of its own.
    fn once(&self) -> Once {
        once(&self.backend.other_client())
    }

    /// By what is another host from then on: sessions are lost, and no clock of before is known.
    fn reboot(&self) {
        self.clock.reboot();
    }
}

fn once(backend: &MemoryBackend) -> Once {
    Coordinator::new(backend.clone(), Options::default()).expect("good options").once("x").expect("a good key")
}

async fn begin(once: &Once) -> Begun {
    timeout(Duration::from_secs(60), once.begin()).await.expect("soon").expect("begun")
}

async fn attempt(once: &Once) -> Attempt {
    match begin(once).await {
        Begun::Now(attempt) => attempt,
        Begun::Before(success) => panic!("{success:?}"),
    }
}

async fn before(once: &Once) -> Success {
    match begin(once).await {
        Begun::Before(success) => success,
        Begun::Now(_) => panic!("it was forgotten"),
    }
}

async fn succeed(once: &Once) -> Success {
    let attempt = attempt(once).await;
    let success = attempt.record().await.expect("recorded");
    assert_eq!(success.token, attempt.token());
    attempt.release().await.expect("released");
    success
}

#[tokio::test(start_paused = true)]
async fn of_many_at_once_one_succeeds_and_the_others_are_told_of_it() {
    let world = World::new();
    let (runs, recorded) = (Arc::<AtomicU32>::default(), Arc::<AtomicU32>::default());
    let tasks = (0..20).map(|number| {
        let (once, runs, recorded) = (world.once(), runs.clone(), recorded.clone());
        tokio::spawn(async move {
            let Begun::Now(attempt) = begin(&once).await else { return };
            let run = runs.fetch_add(1, Ordering::SeqCst);
            sleep(Duration::from_millis(number)).await;
            if run >= 3 {
                attempt.record().await.expect("recorded");
                recorded.fetch_add(1, Ordering::SeqCst);
            } // else it has failed
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.expect("no panic");
    }
    assert_eq!((runs.load(Ordering::SeqCst), recorded.load(Ordering::SeqCst)), (4, 1));
    let remembered = world.once().success().await.expect("told").expect("remembered");
    assert_eq!(before(&world.once()).await, remembered);
    assert_eq!(remembered.by.pid, std::process::id());
}

#[tokio::test(start_paused = true)]
async fn a_try_does_not_wait_and_forgetting_does() {
    let world = World::new();
    let (first, second) = (world.once(), world.once());
    assert!(!first.forget().await.expect("nothing to forget"));
    let running = attempt(&first).await;
    assert!(second.try_begin().await.expect("asked").is_none());
    let forgetting = tokio::spawn(async move { second.forget().await });
    sleep(Duration::from_secs(1)).await;
    assert!(!forgetting.is_finished());
    running.record().await.expect("recorded");
    assert!(matches!(first.try_begin().await.expect("asked"), Some(Begun::Before(_))), "a look is enough");
    running.release().await.expect("released");
    assert!(forgetting.await.expect("no panic").expect("forgotten"));
    assert_eq!(first.success().await.expect("told"), None);
    succeed(&first).await;
}

#[tokio::test(start_paused = true)]
async fn what_is_forgotten_is_told_so_even_if_the_lock_is_lost_then() {
    for fault in [Fault::Deny, Fault::Hang] {
        let world = World::new();
        succeed(&world.once()).await;
        let backend = world.backend.other_client();
        backend.inject(Call::Leave, fault);
        let forgetting = once(&backend);
        let forgetting = tokio::spawn(async move { forgetting.forget().await });
        sleep(Duration::from_secs(1)).await;
        backend.expire_sessions();
        let forgotten = timeout(Duration::from_secs(60), forgetting).await.expect("soon").expect("no panic");
        assert!(forgotten.expect("it is done"), "{fault:?}");
        assert_eq!(world.once().success().await.expect("told"), None, "{fault:?}");
    }
}

/// The point of it all: whoever has lost the lock records nothing, and nobody else's success is replaced.
#[tokio::test(start_paused = true)]
async fn who_has_lost_the_lock_cannot_record() {
    let world = World::new();
    let late = attempt(&world.once()).await;
    let queue = QueueName::new("x").expect("a good name");
    let entry = world.backend.entries(&queue)[0].clone();
    assert!(world.backend.remove(&queue, &entry)); // it does not know yet
    assert_eq!(late.record().await.expect_err("refused").kind(), ErrorKind::Fenced);
    assert_eq!(world.once().success().await.expect("told"), None);
    let success = succeed(&world.once()).await;
    assert!(success.token > late.token());
    assert_eq!(late.record().await.expect_err("refused").kind(), ErrorKind::SessionLost);
    assert_eq!(before(&world.once()).await, success);
}

#[tokio::test(start_paused = true)]
async fn a_record_whose_answer_is_lost_is_made_once() {
    for fault in [Fault::LoseReply, Fault::LoseRequest, Fault::Hang] {
        let world = World::new();
        let backend = world.backend.other_client();
        let attempt = attempt(&once(&backend)).await;
        backend.inject(Call::Edit, fault);
        let success = attempt.record().await.expect("recorded");
        assert_eq!(attempt.record().await.expect("the same"), success, "{fault:?}");
        assert_eq!(before(&world.once()).await, success);
    }
}

#[tokio::test(start_paused = true)]
async fn while_nobody_answers_it_is_not_known_whether_it_is_recorded() {
    let world = World::new();
    let backend = world.backend.other_client();
    let attempt = attempt(&once(&backend)).await;
    backend.inject(Call::Edit, Fault::LoseReply);
    let recording = tokio::spawn(async move { attempt.record().await.map(drop) });
    sleep(Duration::from_millis(1)).await;
    backend.cut(true);
    assert_eq!(recording.await.expect("no panic").expect_err("cut off").kind(), ErrorKind::Unknown);
    before(&world.once()).await; // it was
}

#[tokio::test(start_paused = true)]
async fn it_is_forgotten_by_the_clock_of_the_host_and_never_sooner() {
    let world = World::new();
    let once = world.once().expires_after(HOUR);
    let first = succeed(&once).await;
    advance(HOUR - Duration::from_secs(1)).await;
    assert_eq!(before(&once).await, first);
    advance(Duration::from_secs(2)).await;
    assert_eq!(before(&world.once()).await, first, "who says nothing of expiry never forgets");
    let second = succeed(&once).await;
    assert!(second.token > first.token);
    world.clock.suspend(HOUR - Duration::from_secs(1));
    assert_eq!(before(&once).await, second);
    world.clock.suspend(Duration::from_secs(2));
    succeed(&once).await;
}

#[tokio::test(start_paused = true)]
async fn another_host_counts_from_its_own_first_sight() {
    let world = World::new();
    let first = succeed(&world.once().expires_after(HOUR)).await;
    world.reboot(); // its clock may show any time
    world.clock.suspend(100 * HOUR);
    let once = world.once().expires_after(HOUR);
    assert_eq!(before(&once).await, first, "it has just learnt of it");
    advance(HOUR - Duration::from_secs(1)).await;
    assert_eq!(before(&once).await, first);
    advance(Duration::from_secs(2)).await;
    assert!(succeed(&once).await.token > first.token);
}

#[tokio::test(start_paused = true)]
async fn a_first_sight_that_cannot_be_noted_is_late_and_no_failure() {
    let world = World::new();
    let first = succeed(&world.once()).await;
    world.reboot();
    let backend = world.backend.other_client();
    backend.inject(Call::Edit, Fault::Deny);
    let once = once(&backend).expires_after(HOUR);
    assert_eq!(before(&once).await, first);
    advance(HOUR + Duration::from_secs(1)).await;
    assert_eq!(before(&once).await, first, "it counts from now on");
    advance(HOUR + Duration::from_secs(1)).await;
    attempt(&once).await.release().await.expect("released");
}
