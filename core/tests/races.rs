//! Moments between two looks at the clock, and runtimes that come and go: what a pause of a thread at the worst time can do.

use std::{
    cell::Cell,
    fmt,
    future::Future,
    pin::pin,
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc,
    },
    task::{Context, Waker},
    time::{Duration, Instant},
};

use tenure_core::{
    Backend, BootId, Call, Clock, Contender, ContenderId, Coordinator, Entered, Error, ErrorKind, Fault, MemoryBackend,
    Moment, Opened, Options, QueueName, Record, Result, Session, Snapshot, Strength, TimeSource, Version, Wake,
    async_trait,
};
use tokio::{
    runtime::{Builder, Runtime},
    time::timeout,
};

const SECOND: Duration = Duration::from_secs(1);

thread_local! {
    /// After so many looks at the clock, this thread is paused.
    static ARMED: Cell<u32> = const { Cell::new(0) };
}

/// A clock that jumps right after the look that a thread was armed for: as if the thread had been paused there.
#[derive(Clone, Default)]
struct Pausing(Arc<PausingState>);

#[derive(Default)]
struct PausingState {
    start: OnceLock<Instant>,
    offset: Mutex<Duration>,
    pause: Mutex<Duration>,
    meanwhile: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl fmt::Debug for Pausing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pausing")
    }
}

impl TimeSource for Pausing {
    fn now(&self) -> Moment {
        let offset = *self.0.offset.lock().expect("no panic");
        let since_boot = self.0.start.get_or_init(Instant::now).elapsed() + offset;
        let left = ARMED.get();
        ARMED.set(left.saturating_sub(1));
        if left == 1 {
            *self.0.offset.lock().expect("no panic") += *self.0.pause.lock().expect("no panic");
            if let Some(meanwhile) = self.0.meanwhile.get() {
                meanwhile();
            }
        }
        Moment { boot: BootId::new(1), since_boot }
    }
}

impl Pausing {
    fn pause(&self, span: Duration) {
        *self.0.pause.lock().expect("no panic") = span;
    }
}

type Act = Arc<dyn Fn(Call) -> Option<Error> + Send + Sync>;

/// The memory backend with something done at some calls.
struct Hooked<T> {
    inner: T,
    act: Act,
}

impl<T> fmt::Debug for Hooked<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hooked")
    }
}

impl<T> Hooked<T> {
    fn before(&self, call: Call) -> Result<()> {
        (self.act)(call).map_or(Ok(()), Err)
    }
}

#[async_trait]
impl Backend for Hooked<MemoryBackend> {
    fn strength(&self) -> Strength {
        self.inner.strength()
    }

    fn clock(&self) -> &Clock {
        self.inner.clock()
    }

    async fn open(&self, ttl: Duration) -> Result<Opened> {
        self.before(Call::Open)?;
        let Opened { session, ttl, deadline } = self.inner.open(ttl).await?;
        let session = Box::new(Hooked { inner: session, act: self.act.clone() });
        Ok(Opened { session, ttl, deadline })
    }
}

#[async_trait]
impl Session for Hooked<Box<dyn Session>> {
    async fn keep_alive(&self) -> Result<Moment> {
        let answer = self.inner.keep_alive().await;
        self.before(Call::KeepAlive)?;
        answer
    }

    async fn enter(&self, queue: &QueueName, id: &ContenderId, value: &[u8]) -> Result<Entered> {
        self.before(Call::Enter)?;
        self.inner.enter(queue, id, value).await
    }

    async fn list(&self, queue: &QueueName) -> Result<Snapshot> {
        self.inner.list(queue).await
    }

    async fn list_now(&self, queue: &QueueName) -> Result<Snapshot> {
        self.inner.list_now(queue).await
    }

    async fn wait(&self, queue: &QueueName, seen: &Snapshot, wake: Wake<'_>) -> Result<()> {
        self.inner.wait(queue, seen, wake).await
    }

    async fn leave(&self, queue: &QueueName, id: &ContenderId) -> Result<()> {
        self.inner.leave(queue, id).await
    }

    async fn read(&self, queue: &QueueName, who: &Contender) -> Result<Option<Record>> {
        self.inner.read(queue, who).await
    }

    async fn write(&self, queue: &QueueName, id: &ContenderId, version: Version, value: &[u8]) -> Result<Version> {
        self.inner.write(queue, id, version, value).await
    }

    async fn settle_token_base(&self, base: u64) -> Result<u64> {
        self.inner.settle_token_base(base).await
    }

    async fn close(&self) -> Result<()> {
        self.inner.close().await
    }
}

fn coordinator(backend: impl Backend, ttl: Duration) -> Coordinator {
    let mut options = Options::default();
    options.ttl = ttl;
    Coordinator::new(backend, options).expect("good options")
}

fn one_thread() -> Runtime {
    Builder::new_current_thread().enable_time().build().expect("a runtime")
}

fn threads(count: usize) -> Runtime {
    Builder::new_multi_thread().worker_threads(count).enable_time().build().expect("a runtime")
}

#[test]
fn a_deadline_that_passes_between_two_looks_does_not_hang_the_runtime() {
    let (done, finished) = mpsc::channel();
    std::thread::spawn(move || {
        one_thread().block_on(async move {
            for look in 1..6 {
                let clock = Pausing::default();
                let backend = MemoryBackend::with_clock(Clock::new(clock.clone()));
                let guard = coordinator(backend, 2 * SECOND).lock("x").await.expect("granted");
                clock.pause(10 * SECOND);
                let mut lost = pin!(guard.lost());
                ARMED.set(look);
                let _ = lost.as_mut().poll(&mut Context::from_waker(Waker::noop()));
                ARMED.set(0);
            }
            done.send(()).expect("somebody waits");
        });
    });
    finished.recv_timeout(10 * SECOND).expect("a poll of lost() that does not return");
}

#[test]
fn a_loss_is_told_though_the_deadline_passes_between_two_looks() {
    for look in 1..6 {
        let (runtime, clock) = (threads(3), Pausing::default());
        let backend = MemoryBackend::with_clock(Clock::new(clock.clone()));
        let guard = runtime.block_on(coordinator(backend, 2 * SECOND).lock("x")).expect("granted");
        clock.pause(10 * SECOND);
        let (told, telling) = mpsc::channel();
        let mut lost = Box::pin(guard.lost());
        runtime.spawn(async move {
            let mut first = true;
            let reason = std::future::poll_fn(|context| {
                if std::mem::take(&mut first) {
                    ARMED.set(look);
                }
                lost.as_mut().poll(context)
            });
            told.send(reason.await).expect("somebody waits");
        });
        telling.recv_timeout(6 * SECOND).expect("told");
        assert!(!guard.is_held());
        runtime.shutdown_background();
    }
}

#[test]
fn a_deadline_that_anybody_saw_pass_is_not_revived() {
    let (runtime, clock) = (threads(2), Pausing::default());
    let armed = AtomicBool::new(true);
    let act: Act = Arc::new(move |call| {
        if call == Call::KeepAlive && armed.swap(false, Ordering::SeqCst) {
            ARMED.set(1);
        }
        None
    });
    let inner = MemoryBackend::with_clock(Clock::new(clock.clone()));
    let guard = Arc::new(runtime.block_on(coordinator(Hooked { inner, act }, 3 * SECOND).lock("x")).expect("granted"));
    // Held until 2.7 s; renewed at 1 s; the keeper's thread is paused right after its look at the clock.
    clock.pause(Duration::from_millis(1720));
    let (ask, asked) = mpsc::channel::<()>();
    let (answer, answered) = mpsc::channel();
    let looker = std::thread::spawn({
        let guard = guard.clone();
        move || {
            asked.recv().expect("asked");
            answer.send(guard.is_held()).expect("somebody waits");
        }
    });
    let seen = Arc::new(OnceLock::new());
    let (ask, answered) = (Mutex::new(ask), Mutex::new(answered));
    let meanwhile = {
        let seen = seen.clone();
        move || {
            ask.lock().expect("no panic").send(()).expect("the looker lives");
            // Whoever looks has to wait if the keeper decides just now: no answer is an answer too.
            let answer = answered.lock().expect("no panic").recv_timeout(Duration::from_millis(100));
            let _ = seen.set(answer.unwrap_or(true));
        }
    };
    assert!(clock.0.meanwhile.set(Box::new(meanwhile)).is_ok());
    std::thread::sleep(Duration::from_millis(1400));
    let was_held = *seen.get().expect("the pause happened");
    looker.join().expect("no panic");
    assert!(was_held || !guard.is_held(), "it was seen as lost, and is held again");
}

#[test]
fn a_coordinator_whose_runtime_has_ended_opens_a_session_in_the_next_one() {
    let backend = MemoryBackend::new();
    let coordinator = coordinator(backend.clone(), 10 * SECOND);
    let first = one_thread();
    let held = first.block_on(coordinator.lock("old")).expect("granted");
    drop(first);
    let second = one_thread();
    let guard = second.block_on(async { timeout(3 * SECOND, coordinator.lock("x")).await.expect("in time") });
    assert!(guard.expect("granted").is_held());
    let released = second.block_on(async { timeout(3 * SECOND, held.release()).await.expect("in time") });
    assert_eq!(released.expect_err("nobody is there to do it").kind(), ErrorKind::Unavailable);
}

#[test]
fn a_coordinator_whose_runtime_is_not_driven_goes_on_after_the_ttl() {
    let coordinator = coordinator(MemoryBackend::new(), SECOND);
    let first = one_thread();
    first.block_on(coordinator.connect()).expect("connected");
    let second = one_thread();
    let guard = second.block_on(async { timeout(5 * SECOND, coordinator.lock("x")).await.expect("in time") });
    assert!(guard.expect("granted").is_held());
    drop(first);
}

/// Whoever began to open a session keeps all others from that, and may never go on.
#[test]
fn a_session_that_is_opened_in_a_runtime_that_is_not_driven_is_not_waited_for() {
    let backend = MemoryBackend::new();
    let mut options = Options::default();
    options.connect_timeout = SECOND / 5;
    let coordinator = Coordinator::new(backend.clone(), options).expect("good options");
    backend.inject(Call::Open, Fault::DelayReply(SECOND / 10));
    let first = one_thread();
    first.block_on(async { timeout(SECOND / 50, coordinator.lock("x")).await.expect_err("it takes longer") });
    let second = one_thread();
    let closed = second.block_on(async { timeout(5 * SECOND, coordinator.close()).await.expect("in time") });
    closed.expect("there is no session yet");
    let guard = second.block_on(async { timeout(5 * SECOND, coordinator.lock("x")).await.expect("in time") });
    let guard = guard.expect("granted");
    drop(first);
    second.block_on(guard.verify()).expect("it stands");
}

#[test]
fn close_does_not_claim_what_nobody_has_done() {
    let coordinator = coordinator(MemoryBackend::new(), 10 * SECOND);
    let first = one_thread();
    let guard = first.block_on(coordinator.lock("x")).expect("granted");
    drop(first);
    let closed = one_thread().block_on(async { timeout(3 * SECOND, coordinator.close()).await.expect("in time") });
    assert_eq!(closed.expect_err("the guard is still held").kind(), ErrorKind::Unavailable);
    assert!(guard.is_held());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn sessions_that_are_lost_at_once_are_not_opened_without_a_pause() {
    let opened = Arc::new(AtomicU64::new(0));
    let counter = opened.clone();
    let act: Act = Arc::new(move |call| match call {
        Call::Open => {
            counter.fetch_add(1, Ordering::SeqCst);
            None
        }
        Call::Enter => Some(Error::new(ErrorKind::SessionLost, "not found")),
        _ => None,
    });
    let coordinator = coordinator(Hooked { inner: MemoryBackend::new(), act }, 10 * SECOND);
    assert!(timeout(SECOND, coordinator.lock("x")).await.is_err());
    let opened = opened.load(Ordering::SeqCst);
    assert!((2..20).contains(&opened), "{opened} sessions in a second");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_backend_that_panics_is_an_error_not_a_loop() {
    for call in [Call::Open, Call::Enter] {
        let act: Act = Arc::new(move |now| {
            assert!(now != call, "a bug of the backend, on purpose");
            None
        });
        let coordinator = coordinator(Hooked { inner: MemoryBackend::new(), act }, 10 * SECOND);
        let error = timeout(SECOND, coordinator.lock("x")).await.expect("in time").expect_err("it panicked");
        assert_eq!(error.kind(), ErrorKind::Unexpected, "{error}");
    }
}

/// Those who look are in each other's way at most for a moment: none is told that there is no session.
#[test]
fn how_the_session_stands_is_known_however_many_ask() {
    let runtime = threads(2);
    let coordinator = coordinator(MemoryBackend::new(), 10 * SECOND);
    let _guard = runtime.block_on(coordinator.lock("x")).expect("granted");
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for look in 0..50_000 {
                    assert!(coordinator.session_state().is_some(), "look {look}");
                }
            });
        }
    });
}
