//! What guards promise apart from loss: dropping them is harmless anywhere, they can be sent, and settings that cannot work are refused.

use std::{num::NonZeroU32, time::Duration};

use tenure_core::{
    Call, Config, Coordinator, Drivers, ErrorKind, Fault, LockGuard, MemoryBackend, MemoryDriver, Options, Permit,
    ReadGuard,
};
use tokio::{
    runtime::{Builder, Runtime},
    time::{Instant, timeout},
};

const TTL: Duration = Duration::from_secs(1);

fn coordinator(backend: &MemoryBackend) -> Coordinator {
    let mut options = Options::default();
    options.ttl = TTL;
    Coordinator::new(backend.other_client(), options).expect("good options")
}

fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).enable_time().build().expect("a runtime")
}

fn gets_in(runtime: &Runtime, backend: &MemoryBackend, limit: Duration) {
    let newcomer = async { timeout(limit, coordinator(backend).lock("x")).await.expect("in time").expect("granted") };
    drop(runtime.block_on(newcomer));
}

#[test]
fn a_guard_may_be_dropped_outside_of_any_runtime() {
    let (runtime, backend) = (runtime(), MemoryBackend::new());
    let guard = runtime.block_on(coordinator(&backend).lock("x")).expect("granted");
    std::thread::spawn(move || drop(guard)).join().expect("no panic");
    gets_in(&runtime, &backend, Duration::from_secs(1));
}

#[test]
fn a_guard_may_be_dropped_in_a_panic() {
    let (runtime, backend) = (runtime(), MemoryBackend::new());
    let held = coordinator(&backend);
    let work = runtime.spawn(async move {
        let _guard = held.lock("x").await.expect("granted");
        panic!("on purpose");
    });
    assert!(runtime.block_on(work).expect_err("it panicked").is_panic());
    gets_in(&runtime, &backend, Duration::from_secs(1));
}

#[test]
fn a_guard_may_outlive_its_runtime_and_holds_no_longer_than_the_ttl() {
    let backend = MemoryBackend::new();
    for background in [true, false] {
        let first = runtime();
        let held = coordinator(&backend);
        let guard = first.block_on(held.lock("x")).expect("granted");
        if background {
            first.shutdown_background()
        } else {
            drop(first)
        }
        let second = runtime();
        let lost = async { timeout(TTL * 2, guard.lost()).await };
        second.block_on(lost).expect("told although nobody renews any more");
        drop(guard);
        drop(held);
        gets_in(&second, &backend, TTL * 2);
    }
}

#[test]
fn dropped_while_the_runtime_shuts_down() {
    let (first, backend) = (runtime(), MemoryBackend::new());
    let held = coordinator(&backend);
    first.spawn(async move {
        let _guard = held.lock("x").await.expect("granted");
        std::future::pending::<()>().await;
    });
    std::thread::sleep(Duration::from_millis(100));
    drop(first); // drops the task and the guard in it, maybe after the keeper
    gets_in(&runtime(), &backend, TTL * 2);
}

#[test]
fn guards_and_futures_can_be_sent_and_kept() {
    fn sendable<T: Send + 'static>(_: &T) {}
    fn shareable<T: Send + Sync + 'static>() {}
    shareable::<Coordinator>();
    shareable::<LockGuard>();
    shareable::<ReadGuard>();
    shareable::<Permit>();
    let runtime = runtime();
    let coordinator = coordinator(&MemoryBackend::new());
    let owned = coordinator.clone();
    sendable(&async move { owned.lock("x").await });
    let guard = runtime.block_on(coordinator.lock("x")).expect("granted");
    sendable(&guard.lost());
    sendable(&guard.states());
    let run = async move { guard.run(async {}).await.map(|()| guard) };
    sendable(&run);
    let guard = runtime.block_on(run).expect("held");
    let release = guard.release();
    sendable(&release);
    runtime.block_on(release).expect("released");
}

#[tokio::test]
async fn settings_that_cannot_work_are_refused_with_what_to_write() {
    let drivers = Drivers::new().with(MemoryDriver);
    let cases = [
        ("memory://s?ttl=0s", "ttl = 0s is out of range: write 1s to 24h"),
        ("memory://s?ttl=1ns", "write 1s to 24h"),
        ("memory://s?ttl=999ms", "write 1s to 24h"),
        ("memory://s?ttl=9000000001s", "write 1s to 24h"),
        ("memory://s?connect_timeout=0s", "connect_timeout = 0s"),
        ("memory://s?connect_timeout=25h", "is too long: write 24h or less"),
        ("memory://s?connect_timeout=584542046090years", "is too long: write 24h or less"),
        ("memory://s?require=consensus", "only as strong as 'process'"),
        ("memory://s?tll=5s", "memory has no setting 'tll': write one of backend, hosts, namespace"),
        ("memory://s?ca=/x.pem", "memory has no setting 'ca'"),
        ("zk://h", "there is no backend 'zk' in this program: write one of memory"),
    ];
    for (url, says) in cases {
        let config: Config = url.parse().expect(url);
        let error = drivers.connect(&config).await.expect_err(url);
        assert_eq!(error.kind(), ErrorKind::Config, "{url}");
        assert!(error.to_string().contains(says), "{url}: {error}");
    }
    for name in ["", &"x".repeat(513), "a\0b"] {
        let refused = coordinator(&MemoryBackend::new()).lock(name).await.expect_err("a bad name");
        assert_eq!(refused.kind(), ErrorKind::Config);
    }
}

#[tokio::test]
async fn token_base_raises_every_token_and_a_replica_with_another_one_is_refused() {
    let backend = MemoryBackend::new();
    let with_base = |base| {
        let mut options = Options::default();
        options.token_base = base;
        Coordinator::new(backend.other_client(), options).expect("good options")
    };
    let first = with_base(1_000_000);
    assert!(first.lock("x").await.expect("granted").token().get() > 1_000_000);
    for (base, says) in [(0, "write token_base = 1000000"), (2_000_000, "stop the others first")] {
        let error = with_base(base).lock("x").await.expect_err("another base");
        assert_eq!(error.kind(), ErrorKind::Config);
        assert!(error.to_string().contains(says), "{error}");
    }
    first.close().await.expect("closed");
    assert!(with_base(2_000_000).lock("x").await.expect("raised while alone").token().get() > 2_000_000);
    let huge = with_base(u64::MAX);
    assert_eq!(huge.lock("x").await.expect_err("no room for a token").kind(), ErrorKind::Config);
}

#[tokio::test]
async fn permits_of_different_limits_share_one_queue_with_locks() {
    let backend = MemoryBackend::new();
    let coordinator = coordinator(&backend);
    let of = |n| NonZeroU32::new(n).expect("not zero");
    let first = coordinator.permit("x", of(3)).await.expect("granted");
    let second = coordinator.permit("x", of(2)).await.expect("granted");
    assert!(coordinator.try_permit("x", of(3)).await.expect("an answer").is_none(), "the second asked for at most 2");
    assert!(coordinator.try_lock("x").await.expect("an answer").is_none());
    second.release().await.expect("released");
    let third = coordinator.try_permit("x", of(3)).await.expect("an answer").expect("granted");
    drop((first, third));
    assert!(coordinator.lock("x").await.expect("granted").is_held());
}

#[tokio::test(start_paused = true)]
async fn a_try_that_runs_out_of_time_tells_what_the_backend_said_last() {
    for call in [Call::List, Call::Enter] {
        let backend = MemoryBackend::new();
        let coordinator = Coordinator::new(backend.clone(), Options::default()).expect("good options");
        coordinator.connect().await.expect("connected");
        (0..100).for_each(|_| backend.inject(call, Fault::LoseRequest));
        let start = Instant::now();
        let error = coordinator.try_lock("x").await.expect_err("it is refused all the time");
        assert_eq!(start.elapsed(), coordinator.options().connect_timeout);
        assert!(error.kind() == ErrorKind::Unavailable && error.to_string().contains("as injected"), "{error}");
        backend.heal();
        let granted = coordinator.try_lock("x").await.expect("an answer");
        // What failed before is not told again when nothing answers at all.
        drop(granted);
        backend.cut(true);
        let error = coordinator.try_lock("x").await.expect_err("nobody answers");
        assert!(error.kind() == ErrorKind::Unavailable && error.to_string().contains("did not answer"), "{error}");
    }
}
