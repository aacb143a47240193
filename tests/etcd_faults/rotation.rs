//! Servers that are slow: others get their time, and nobody is blamed for the slowness of another one.

use std::time::{Duration, Instant};

use tenure_conformance::{
    proxy::{Mode, Proxy},
    server::etcd::{Release, Setup},
};
use tenure_core::ErrorKind;
use tenure_tests::on_etcd::{connect, session};
use tokio::time::{sleep, timeout};

/// The first server falls silent, and the second one answers slowly: when its stream stands, there is no time left for a keep-alive. It is
/// asked by the next one, by the same stream.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_was_asked_too_late_is_not_taken_for_a_silent_one() {
    let etcd = Setup::single(Release::Packaged).start().await;
    let [first, second] = [
        Proxy::start(etcd.nodes[0].client).await.expect("a proxy"),
        Proxy::start(etcd.nodes[0].client).await.expect("a proxy"),
    ];
    // A try takes a seventh of the ttl at most: a second.
    let session = session(&format!("{},{}", first.address(), second.address()), Duration::from_secs(7)).await.session;
    session.keep_alive().await.expect("kept alive");
    first.set(Mode::Blackhole);
    second.set(Mode::DelayReplies(Duration::from_millis(850)));
    let error = session.keep_alive().await.expect_err("one is silent, the other slow");
    println!("{}", error.report());
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    session.keep_alive().await.expect("kept alive by the second one");
    session.close().await.expect("closed by the second one");
}

/// Each of three servers grants a lease slowly, and then falls silent.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn opening_ends_within_the_connect_timeout_whatever_is_slow() {
    let etcd = Setup::single(Release::Packaged).start().await;
    let (mut proxies, mut hosts) = (Vec::new(), Vec::new());
    for _ in 0..3 {
        let proxy = Proxy::start(etcd.nodes[0].client).await.expect("a proxy");
        proxy.set(Mode::DelayReplies(Duration::from_millis(450)));
        hosts.push(proxy.address().to_string());
        proxies.push(proxy);
    }
    let falling_silent = tokio::spawn(async move {
        for proxy in &proxies {
            while proxy.connections() == 0 {
                sleep(Duration::from_millis(5)).await;
            }
            sleep(Duration::from_millis(200)).await; // the grant was answered, and is on its way
            proxy.set(Mode::Blackhole);
        }
        proxies
    });
    let start = Instant::now();
    let tried = timeout(Duration::from_secs(10), connect(&hosts.join(","), "connect_timeout=2s")).await;
    let error = tried.expect("it ends").expect_err("nobody serves");
    println!("after {:?}: {}", start.elapsed(), error.report());
    assert!(start.elapsed() < Duration::from_millis(2200), "{:?}", start.elapsed());
    assert!(error.report().contains(hosts[2].as_str()), "the last one was not asked: {}", error.report());
    falling_silent.await.expect("all have been tried");
}
