//! Users, passwords, logins that expire; servers that are not there, or do not answer.

use std::time::{Duration, Instant};

use tenure_conformance::{
    proxy::{Mode, Proxy},
    queue,
    server::etcd::{Etcd, Release, Setup},
};
use tenure_core::{Backend, Clock, ContenderId, Error, ErrorKind, Mode::Write as Exclusive, Wake};
use tenure_etcd::EtcdBackend;
use tenure_tests::on_etcd::{config, connect, coordinator, session_by};
use tokio::time::{sleep, timeout};

use super::waiters::{Served, all_served, waiters};

/// Users are `root`, `clerk` (who may use the namespace, and nothing else) and `guest` (who may do nothing).
async fn with_users(login_seconds: u32) -> Etcd {
    let etcd = Setup::single(Release::Packaged).with(&[&format!("--auth-token-ttl={login_seconds}")]).start().await;
    for user in ["root", "clerk", "guest"] {
        etcd.control(&["user", "add", &format!("{user}:secret")]);
    }
    etcd.control(&["user", "grant-role", "root", "root"]);
    etcd.control(&["role", "add", "clerks"]);
    etcd.control(&["role", "grant-permission", "clerks", "--prefix=true", "readwrite", "n/"]);
    etcd.control(&["user", "grant-role", "clerk", "clerks"]);
    etcd.control(&["auth", "enable"]);
    etcd
}

/// One sentence of the right kind, within the limit.
async fn refused(hosts: &str, settings: &str, limit: Duration) -> Error {
    let start = Instant::now();
    let error = timeout(limit, connect(hosts, settings)).await.expect("within the limit").expect_err("it cannot work");
    let report = error.report();
    println!("{:?} after {:?}: {report}", error.kind(), start.elapsed());
    assert!(!report.contains('\n') && !report.contains("secret") && report.len() < 300, "{report}");
    error
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn users_and_passwords_are_checked_with_a_sentence() {
    let etcd = with_users(300).await;
    let soon = Duration::from_secs(5);
    for (settings, kind, says) in [
        ("user=clerk&password=wrong", ErrorKind::Denied, "refuses user and password"),
        ("user=nobody&password=secret", ErrorKind::Denied, "refuses user and password"),
        ("", ErrorKind::Denied, "write user and password"),
        ("user=guest&password=secret", ErrorKind::Denied, "grant the user a role"),
    ] {
        let error = refused(&etcd.hosts(), settings, soon).await;
        assert_eq!(error.kind(), kind, "{settings}");
        assert!(error.to_string().contains(says), "{settings}: {error}");
    }
    let clerk = coordinator(&etcd.hosts(), "user=clerk&password=secret").await;
    clerk.lock("x").await.expect("granted").release().await.expect("released");
    let open = Setup::single(Release::Packaged).start().await;
    let error = refused(&open.hosts(), "user=clerk&password=secret", soon).await;
    assert!(error.kind() == ErrorKind::Config && error.to_string().contains("leave out user"), "{error}");
}

/// The login lasts for two seconds, and a keep-alive is due every ten. A watch that is opened with the old login is refused in a way of its
/// own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn logins_that_expire_while_twenty_wait_are_renewed_and_the_order_stays() {
    let etcd = with_users(2).await;
    let (login, mut coordinators) = ("user=root&password=secret", Vec::new());
    for _ in 0..4 {
        coordinators.push(coordinator(&etcd.hosts(), &format!("{login}&ttl=30s")).await);
    }
    let look = session_by(&etcd.hosts(), login, Duration::from_secs(60)).await.session;
    let guard = coordinators[0].lock("x").await.expect("granted");
    let (first, served) = (guard.token(), Served::default());
    let waiters = waiters(&*look, &coordinators, &served).await;
    sleep(Duration::from_secs(5)).await;
    assert!(served.lock().expect("no panic").is_empty());
    guard.release().await.expect("released, with a new login");
    let order = all_served(waiters, &served).await;
    assert!(order.is_sorted(), "first in, first out: {order:?}");
    assert!(served.lock().expect("no panic").iter().all(|(_, token)| *token > first));
}

/// A login that fails in the middle of a session is told at once: no other try would do better.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_that_is_removed_during_the_session_is_denied() {
    let etcd = with_users(1).await;
    let clerk = coordinator(&etcd.hosts(), "user=clerk&password=secret&ttl=30s&connect_timeout=2s").await;
    etcd.control(&["--user=root:secret", "user", "delete", "clerk"]);
    let start = Instant::now();
    let error = clerk.try_lock("x").await.expect_err("there is no such user any more");
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
    assert!(error.kind() == ErrorKind::Denied && error.to_string().contains("refuses user and password"), "{error}");
}

/// The first thing that is asked with the old login is a watch: it is refused in a way of its own, which no library renews.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_with_an_expired_login_is_opened_again() {
    let etcd = with_users(2).await;
    let config = config(&etcd.hosts(), "user=clerk&password=secret");
    let (mut sessions, name) = (Vec::new(), queue("x"));
    for _ in 0..2 {
        let backend = EtcdBackend::connect(&config, &Clock::system(), false).await.expect("good settings");
        sessions.push(backend.open(Duration::from_secs(60)).await.expect("a session").session);
    }
    let (waiter, holder) = (sessions.pop().expect("two"), sessions.pop().expect("two"));
    let [first, second] = [ContenderId::random(Exclusive), ContenderId::random(Exclusive)];
    holder.enter(&name, &first, b"").await.expect("entered");
    let seen = waiter.enter(&name, &second, b"").await.expect("entered").snapshot;
    sleep(Duration::from_millis(3500)).await;
    let refused = waiter.wait(&name, &seen, Wake::Gone(&seen.queue[0])).await.expect_err("the login has expired");
    println!("{}", refused.report());
    assert_eq!(refused.kind(), ErrorKind::Unavailable);
    let leaves = async {
        sleep(Duration::from_millis(300)).await;
        holder.leave(&name, &first).await
    };
    let (woken, left) = tokio::join!(waiter.wait(&name, &seen, Wake::Gone(&seen.queue[0])), leaves);
    woken.expect("woken");
    left.expect("left");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_that_are_not_there_or_do_not_answer_are_told_within_the_limit() {
    let etcd = Setup::single(Release::Packaged).start().await;
    let silent = Proxy::start(etcd.nodes[0].client).await.expect("a proxy");
    silent.set(Mode::Blackhole);
    let (silent, nobody) = (silent.address().to_string(), "127.0.0.1:9");
    for hosts in [silent.clone(), nobody.to_owned(), format!("{nobody},{silent}"), format!("{nobody},127.0.0.1:10")] {
        let error = refused(&hosts, "connect_timeout=2s", Duration::from_millis(2500)).await;
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{hosts}");
        assert!(error.report().contains("127.0.0.1:"), "{hosts}: {}", error.report());
        assert!(error.report().contains("write hosts that serve, or a longer connect_timeout"), "{}", error.report());
    }
    let error = tenure::connect("etcd:").await.expect_err("no server is named");
    assert!(error.kind() == ErrorKind::Config && error.to_string().contains("write etcd://host"), "{error}");
    // One that serves is enough, wherever it stands.
    for hosts in [format!("{silent},{}", etcd.hosts()), format!("{nobody},{silent},{}", etcd.hosts())] {
        let start = Instant::now();
        coordinator(&hosts, "connect_timeout=4s")
            .await
            .lock("x")
            .await
            .expect("granted")
            .release()
            .await
            .expect("released");
        assert!(start.elapsed() < Duration::from_secs(4), "{hosts}: {:?}", start.elapsed());
    }
}
