//! Who may do what; servers that are not there, do not answer, or have no majority.

use std::time::{Duration, Instant};

use tenure_conformance::{
    proxy::{Mode, Proxy},
    server::{until, zookeeper::Setup},
};
use tenure_core::{Error, ErrorKind};
use tenure_tests::on_zk::{connect, coordinator};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
    task::JoinSet,
    time::{sleep, timeout},
};

/// One sentence of the right kind, within the limit.
async fn refused(hosts: &str, settings: &str, limit: Duration) -> Error {
    let start = Instant::now();
    let error = timeout(limit, connect(hosts, settings)).await.expect("within the limit").expect_err("it cannot work");
    let report = error.report();
    println!("{:?} after {:?}: {report}", error.kind(), start.elapsed());
    assert!(!report.contains('\n') && !report.contains("secret") && report.len() < 300, "{report}");
    error
}

/// What is made with `acl=creator` is for nobody else: not with another password, and not without.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_of_a_creator_are_for_nobody_else() {
    let zookeeper = Setup::single().start().await;
    let hosts = zookeeper.hosts();
    let clerk = coordinator(&hosts, "user=clerk&password=secret&acl=creator&ttl=4s").await;
    let guard = clerk.lock("x").await.expect("granted");
    for settings in ["user=clerk&password=wrong-secret", "user=nobody&password=secret&acl=creator", ""] {
        let error = refused(&hosts, settings, Duration::from_secs(5)).await;
        assert_eq!(error.kind(), ErrorKind::Denied, "{settings}");
        assert!(error.to_string().contains("write user and password of one who has it"), "{settings}: {error}");
    }
    let other = coordinator(&hosts, "user=clerk&password=secret&acl=creator&ttl=4s").await;
    assert!(other.try_lock("x").await.expect("an answer").is_none());
    guard.release().await.expect("released");
    other.lock("x").await.expect("granted").release().await.expect("released");
    let error = refused(&hosts, "acl=creator", Duration::from_secs(5)).await;
    assert!(error.kind() == ErrorKind::Config && error.to_string().contains("write user and password"), "{error}");
}

/// Whoever is nobody reads nothing at all of what is made with `acl=creator`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_node_of_a_creator_is_closed_to_others() {
    const NO_RIGHT: [i32; 2] = [-102; 2];
    let zookeeper = Setup::single().start().await;
    let clerk = coordinator(&zookeeper.hosts(), "user=clerk&password=secret&acl=creator&ttl=10s&token_base=5").await;
    let guard = clerk.lock("x").await.expect("granted");
    guard.fenced().expect("it keeps data").put("k", b"v").await.expect("written");
    let [mut insider, mut nobody] = [zookeeper.operator().await, zookeeper.operator().await];
    insider.login("clerk", "secret").await;
    let (mut unseen, mut all) = (vec!["/n".to_owned()], Vec::new());
    while let Some(path) = unseen.pop() {
        unseen.extend(insider.list(&path).await.into_iter().map(|name| format!("{path}/{name}")));
        assert_eq!(insider.codes(&path).await, [0; 2], "{path}");
        assert_eq!(nobody.codes(&path).await, NO_RIGHT, "{path} is open");
        all.push(path);
    }
    println!("closed: {all:?}");
    for kind in ["/n/.tenure/sessions/", "/n/.tenure/token_base", "/n/.tenure/data/x/k", "/n/x/_c_"] {
        assert!(all.iter().any(|path| path.starts_with(kind)), "no {kind}: {all:?}");
    }
    let open = tenure::connect(&format!("zk://{}/open?ttl=10s", zookeeper.hosts())).await.expect("connected");
    let _held = open.lock("x").await.expect("granted");
    assert_eq!(nobody.codes("/open/x").await, [0; 2], "or the above shows nothing");
}

/// All levels of a namespace are made; those that are there, whoever owns them, are left as they are.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_namespace_of_several_levels_is_made_below_what_others_own() {
    let zookeeper = Setup::single().start().await;
    let (hosts, mut operator) = (zookeeper.hosts(), zookeeper.operator().await);
    let at = |namespace: &str, settings: &str| format!("zk://{hosts}/{namespace}?ttl=4s&{settings}");
    operator.create("/shop", b"theirs").await;
    operator.create("/shop/orders", b"").await;
    for namespace in ["a/b/c", "shop/billing/eu"] {
        let coordinator = tenure::connect(&at(namespace, "")).await.expect("connected");
        let _held = coordinator.lock("x").await.expect("granted");
        assert_eq!(operator.list(&format!("/{namespace}/x")).await.len(), 1, "{namespace}");
    }
    let (value, stat) = operator.get("/shop").await.expect("it is there");
    assert_eq!((value.as_slice(), stat.version), (&b"theirs"[..], 0));
    assert_eq!(operator.list("/shop").await, ["billing", "orders"]);
    let boss = tenure::connect(&at("closed", "acl=creator&user=boss&password=secret")).await.expect("connected");
    let error = tenure::connect(&at("closed/mine", "")).await.expect_err("nobody may make anything there");
    let says = "write user and password of one who has it, or change its ACL";
    assert!(error.kind() == ErrorKind::Denied && error.to_string().contains(says), "{error}");
    operator.login("boss", "secret").await;
    operator.create("/closed/mine", b"").await; // for everybody
    let mine = tenure::connect(&at("closed/mine", "")).await.expect("no right to the parent is needed any more");
    mine.lock("x").await.expect("granted").release().await.expect("released");
    boss.close().await.expect("closed");
}

/// The login goes with the session, to every connection.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_login_is_renewed_with_every_connection() {
    let zookeeper = Setup::single().start().await;
    let proxy = Proxy::start(zookeeper.nodes[0].client).await.expect("a proxy");
    let settings = "user=clerk&password=secret&acl=creator&ttl=8s";
    let clerk = coordinator(&proxy.address().to_string(), settings).await;
    let guard = clerk.lock("x").await.expect("granted");
    for _ in 0..tenure_tests::rounds(10) {
        proxy.set(Mode::Cut);
        proxy.set(Mode::Pass);
        clerk.lock("y").await.expect("granted").release().await.expect("released");
    }
    guard.verify().await.expect("it stands");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_that_are_not_there_or_do_not_answer_are_told_within_the_limit() {
    let zookeeper = Setup::single().start().await;
    let silent = Proxy::start(zookeeper.nodes[0].client).await.expect("a proxy");
    silent.set(Mode::Blackhole);
    let (silent, nobody) = (silent.address().to_string(), "127.0.0.1:9");
    for hosts in [silent.clone(), nobody.to_owned(), format!("{nobody},{silent}"), format!("{nobody},127.0.0.1:10")] {
        let error = refused(&hosts, "connect_timeout=2s", Duration::from_millis(2500)).await;
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{hosts}");
        assert!(error.report().contains("127.0.0.1:"), "{hosts}: {}", error.report());
        assert!(error.report().contains("write hosts that serve, or a longer connect_timeout"), "{}", error.report());
    }
    let error = tenure::connect("zk:").await.expect_err("no server is named");
    assert!(error.kind() == ErrorKind::Config && error.to_string().contains("write zk://host"), "{error}");
    // One that serves is enough, wherever it stands.
    for hosts in [format!("{silent},{}", zookeeper.hosts()), format!("{nobody},{silent},{}", zookeeper.hosts())] {
        let start = Instant::now();
        let coordinator = coordinator(&hosts, "connect_timeout=4s").await;
        coordinator.lock("x").await.expect("granted").release().await.expect("released");
        assert!(start.elapsed() < Duration::from_secs(4), "{hosts}: {:?}", start.elapsed());
    }
}

/// Lets everybody in, so late, and never says another word.
async fn slow_and_then_silent(late: Duration) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut asked = [0; 20];
                stream.read_exact(&mut asked).await?; // a length, a version, a zxid, and a session timeout
                sleep(late).await;
                let mut answer = [0; 41];
                answer[3] = 37;
                answer[8..12].copy_from_slice(&asked[16..]);
                (answer[19], answer[23]) = (7, 16); // a session, and the length of its password
                stream.write_all(&answer).await?;
                let pong = [0, 0, 0, 16, 0xff, 0xff, 0xff, 0xfe, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
                stream.write_all(&pong).await?; // to the ping with which a client begins
                stream.read_to_end(&mut Vec::new()).await
            });
        }
    });
    address
}

/// However long each step with one of them takes, within the limits: what is left is enough for the last one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_that_are_slow_and_then_silent_leave_time_for_one_that_serves() {
    let zookeeper = Setup::single().start().await;
    let mut hosts = Vec::new();
    for _ in 0..4 {
        hosts.push(slow_and_then_silent(Duration::from_millis(900)).await);
    }
    hosts.push(zookeeper.hosts());
    let (hosts, mut connecting) = (hosts.join(","), JoinSet::new());
    for _ in 0..12 {
        // Each begins at one of the five, whichever; and has a second for it.
        let hosts = hosts.clone();
        connecting.spawn(async move {
            let start = Instant::now();
            let coordinator = coordinator(&hosts, "connect_timeout=6s&ttl=10s").await;
            (start.elapsed(), coordinator)
        });
    }
    let slowest = connecting.join_all().await.iter().map(|(took, _)| *took).max();
    println!("connected by way of four that are silent after {slowest:?} at most");
}

/// A server that is cut off from the majority may answer reads, if it is told to. Whatever it says is not used.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_only_server_is_not_used() {
    let mut zookeeper = Setup::cluster().with_properties(&["readonlymode.enabled=true"]).start().await;
    let holder = coordinator(&zookeeper.hosts(), "ttl=3s").await;
    let guard = holder.lock("x").await.expect("granted");
    for lost in [1, 2] {
        zookeeper.nodes[lost].process.kill();
    }
    let last = &zookeeper.nodes[0];
    let read_only = || async { last.ask("isro").await.as_deref() == Some("ro") };
    assert!(until(Duration::from_secs(20), read_only).await, "it is not read-only");
    timeout(Duration::from_secs(3), guard.lost()).await.expect("a read-only server keeps nothing alive");
    let error = refused(&last.client.to_string(), "connect_timeout=2s", Duration::from_secs(3)).await;
    assert!(error.kind() == ErrorKind::Unavailable && error.report().contains("read-only"), "{}", error.report());
    for node in &mut zookeeper.nodes[1..] {
        node.process.restart().expect("it starts");
    }
    let next = timeout(Duration::from_secs(30), holder.lock("x")).await.expect("it goes on").expect("granted");
    assert!(next.token() > guard.token());
}
