//! Why the ZooKeeper backend does not stand on the client `zookeeper-async`: what `docs/decisions/0002-zookeeper-client.md` says about it, on a
//! real server. Once one of these fails with a newer release of it, the decision may be looked at again.

use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use tenure_conformance::{
    proxy::{Mode, Proxy},
    server::{
        until,
        zookeeper::{Operator, Setup, Zookeeper},
    },
};
use tokio::{
    runtime::Runtime,
    sync::mpsc,
    time::{sleep, timeout},
};
use zookeeper_async::{Acl, CreateMode, WatchedEvent, ZkError, ZkState, ZooKeeper};

/// It never recovers with less than 1.5 s.
const SESSION: Duration = Duration::from_secs(2);
const SOON: Duration = Duration::from_secs(10);

async fn connect(hosts: &str) -> ZooKeeper {
    let retry = Duration::from_millis(20); // with none, it tries thousands of times in a second
    let connecting = ZooKeeper::connect_with_retry_time(hosts, SESSION, |_: WatchedEvent| {}, retry);
    timeout(SOON, connecting).await.expect("in time").expect("connected")
}

/// Says the session that the node ends with.
async fn create_ephemeral(client: &ZooKeeper, path: &str) -> i64 {
    let acl = Acl::open_unsafe().clone();
    let creating = client.create2(path, Vec::new(), acl, CreateMode::Ephemeral);
    let (_, stat) = timeout(SOON, creating).await.expect("in time").expect("created");
    stat.ephemeral_owner
}

async fn is_there(operator: &mut Operator, path: &str) -> bool {
    operator.get(path).await.is_some()
}

/// Until a call succeeds again; says how it failed until then.
async fn until_connected(client: &ZooKeeper) -> Vec<ZkError> {
    let (mut errors, end) = (Vec::new(), Instant::now() + SOON);
    while let Err(error) = timeout(SOON, client.exists("/", false)).await.expect("in time") {
        assert!(Instant::now() < end, "never again: {errors:?}");
        errors.push(error);
        sleep(Duration::from_millis(20)).await;
    }
    errors
}

async fn server_and_proxy() -> (Zookeeper, Proxy) {
    let zookeeper = Setup::single().start().await;
    let proxy = Proxy::start(zookeeper.nodes[0].client).await.expect("a port");
    (zookeeper, proxy)
}

/// A lock that went with the session is believed to be held: whoever waits for an error waits for ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_has_expired_is_silently_replaced() {
    let (zookeeper, proxy) = server_and_proxy().await;
    let mut operator = zookeeper.operator().await;
    let client = connect(&proxy.address().to_string()).await;
    let states = Arc::new(Mutex::new(Vec::new()));
    let told = states.clone();
    client.add_listener(move |state| told.lock().expect("no panic").push(state));
    let session = create_ephemeral(&client, "/lock").await;
    proxy.set(Mode::Cut);
    let cut = Instant::now();
    while is_there(&mut operator, "/lock").await {
        assert!(cut.elapsed() < SOON, "it does not expire");
        sleep(Duration::from_millis(50)).await;
    }
    proxy.set(Mode::Pass);
    let errors = until_connected(&client).await;
    assert!(!errors.contains(&ZkError::SessionExpired), "{errors:?}");
    assert!(!states.lock().expect("no panic").contains(&ZkState::Closed), "{states:?}");
    // The same handle, as if nothing had been.
    let other = create_ephemeral(&client, "/lock").await;
    assert_ne!(session, other);
}

/// A waiter sleeps on, whatever becomes of the one before it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watches_do_not_outlive_a_connection() {
    let (zookeeper, proxy) = server_and_proxy().await;
    let mut operator = zookeeper.operator().await;
    operator.create("/before", b"").await;
    let client = connect(&proxy.address().to_string()).await;
    create_ephemeral(&client, "/own").await;
    let mut fired = Vec::new();
    for cut in [false, true] {
        let (say, mut hear) = mpsc::unbounded_channel();
        let watch = move |event: WatchedEvent| _ = say.send(event);
        client.exists_w("/before", watch).await.expect("connected");
        if cut {
            proxy.set(Mode::Cut);
            sleep(Duration::from_millis(100)).await;
            proxy.set(Mode::Pass);
            until_connected(&client).await;
            assert!(is_there(&mut operator, "/own").await, "the session has not ended");
        }
        operator.set("/before", b"x").await;
        fired.push(timeout(SESSION, hear.recv()).await.is_ok_and(|event| event.is_some()));
    }
    assert_eq!(fired, [true, false], "without a cut, and after one");
}

/// What was locked stays locked until the process ends.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_was_dropped_keeps_its_session() {
    let zookeeper = Setup::single().start().await;
    let mut operator = zookeeper.operator().await;
    let process = Runtime::new().expect("threads");
    let hosts = zookeeper.hosts();
    let working = process.spawn(async move {
        let client = connect(&hosts).await;
        create_ephemeral(&client, "/lock").await;
        drop(client);
    });
    working.await.expect("no panic");
    sleep(3 * SESSION).await;
    assert!(is_there(&mut operator, "/lock").await, "it has gone, three session timeouts after the drop");
    process.shutdown_background();
    let gone = || async { !is_there(&mut zookeeper.operator().await, "/lock").await };
    assert!(until(SOON, gone).await, "the runtime has ended, the session has not");
}
