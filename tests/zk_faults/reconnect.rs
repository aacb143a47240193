//! Coming back after the connection broke: from far away, in a crowd, and to a server that grants less.

use std::{
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use tenure_conformance::{
    proxy::{Mode as Proxied, Proxy},
    queue,
    server::zookeeper::Setup,
};
use tenure_core::Session;
use tenure_tests::on_zk::{coordinator, session};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, copy},
    net::{TcpListener, TcpStream},
    time::{sleep, timeout},
};

/// Taking up a session is a dozen messages, more than a single call may take in all.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_far_away_outlives_a_broken_connection() {
    let zookeeper = Setup::single().start().await;
    let proxy = Proxy::start(zookeeper.nodes[0].client).await.expect("a proxy");
    let far = Proxied::Delay(Duration::from_millis(60));
    proxy.set(far);
    let holder = coordinator(&proxy.address().to_string(), "ttl=3500ms").await;
    let guard = holder.lock("x").await.expect("granted");
    sleep(Duration::from_secs(4)).await;
    proxy.set(Proxied::Cut);
    sleep(Duration::from_millis(60)).await;
    proxy.set(far);
    let lost = timeout(Duration::from_secs(8), guard.lost()).await;
    assert!(lost.is_err(), "{lost:?}");
    guard.verify().await.expect("it stands");
}

/// Whoever finds the connection broken begins to take the session up, and may be in a runtime that nobody drives from then on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_whose_runtime_stops_does_not_keep_the_session_from_coming_back() {
    let zookeeper = Setup::single().start().await;
    let proxy = Proxy::start(zookeeper.nodes[0].client).await.expect("a proxy");
    let holder = coordinator(&proxy.address().to_string(), "ttl=6s").await;
    let guard = holder.lock("x").await.expect("granted");
    proxy.set(Proxied::Cut);
    sleep(Duration::from_millis(50)).await;
    proxy.set(Proxied::Delay(Duration::from_millis(200)));
    let (guard, stopped) = tokio::task::spawn_blocking(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let verified = runtime.block_on(async { timeout(Duration::from_millis(100), guard.verify()).await });
        verified.expect_err("it takes longer to come back");
        (guard, runtime)
    })
    .await
    .expect("no panic");
    proxy.set(Proxied::Pass);
    let lost = timeout(Duration::from_secs(10), guard.lost()).await;
    assert!(lost.is_err(), "{lost:?}");
    guard.verify().await.expect("it stands");
    stopped.shutdown_background();
}

/// None of them undoes what another has begun.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crowd_comes_back_by_one_connection() {
    const CROWD: u32 = 600;
    let zookeeper = Setup::single().start().await;
    let proxy = Proxy::start(zookeeper.nodes[0].client).await.expect("a proxy");
    let session: Arc<dyn Session> = session(&proxy.address().to_string(), Duration::from_secs(12)).await.session.into();
    session.keep_alive().await.expect("kept");
    proxy.set(Proxied::Stall);
    let mut calls = Vec::new();
    for _ in 0..CROWD {
        let session = session.clone();
        calls.push(tokio::spawn(async move {
            let mut pause = Duration::from_millis(20);
            loop {
                match session.list(&queue("x")).await {
                    Err(error) if error.is_retryable() => sleep(pause).await,
                    answer => return answer.map(drop),
                }
                pause = (pause * 2).min(Duration::from_secs(1));
            }
        }));
        sleep(Duration::from_millis(3500) / CROWD).await;
    }
    let before = proxy.connections();
    proxy.set(Proxied::Delay(Duration::from_millis(20)));
    let healed = Instant::now();
    for call in calls {
        let answer = timeout(Duration::from_secs(20), call).await.expect("in time").expect("no panic");
        answer.unwrap_or_else(|error| panic!("{} after {:?}", error.report(), healed.elapsed()));
    }
    let connections = proxy.connections() - before;
    println!("{CROWD} calls were answered {:?} after the heal, by {connections} connections", healed.elapsed());
    assert!(connections < 50, "{connections} connections");
}

/// Whoever takes up a session here comes to a server that grants a second, and answers late.
async fn balancer(to: SocketAddr, late: Duration) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("bound");
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            tokio::spawn(between(client, to, late));
        }
    });
    address
}

async fn packet(from: &mut TcpStream) -> std::io::Result<Vec<u8>> {
    let mut packet = vec![0; 4];
    from.read_exact(&mut packet).await?;
    let length = u32::from_be_bytes([packet[0], packet[1], packet[2], packet[3]]);
    packet.resize(4 + length as usize, 0);
    from.read_exact(&mut packet[4..]).await?;
    Ok(packet)
}

async fn between(mut client: TcpStream, to: SocketAddr, late: Duration) -> std::io::Result<()> {
    let mut server = TcpStream::connect(to).await?;
    let hello = packet(&mut client).await?;
    let takes_up = hello[20..28] != [0; 8]; // the number of a session, if there is one
    server.write_all(&hello).await?;
    let mut answer = packet(&mut server).await?;
    if takes_up {
        answer[8..12].copy_from_slice(&1000_u32.to_be_bytes()); // what it grants
    }
    client.write_all(&answer).await?;
    let ((mut from_client, mut to_client), (mut from_server, mut to_server)) =
        (client.into_split(), server.into_split());
    tokio::spawn(async move { copy(&mut from_client, &mut to_server).await });
    let mut buffer = [0; 4096];
    loop {
        let count = from_server.read(&mut buffer).await?;
        if count == 0 {
            return Ok(());
        }
        if takes_up {
            sleep(late).await;
        }
        to_client.write_all(&buffer[..count]).await?;
    }
}

/// Its entries must not be gone before it is told that they will be.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_was_shortened_is_told_before_another_is_granted() {
    let zookeeper = Setup::single().start().await;
    let proxy = Proxy::start(zookeeper.nodes[0].client).await.expect("a proxy");
    let address = balancer(proxy.address(), Duration::from_millis(300)).await;
    let holder = coordinator(&address.to_string(), "ttl=10s").await;
    let other = coordinator(&zookeeper.hosts(), "ttl=10s").await;
    let guard = holder.lock("x").await.expect("granted");
    sleep(Duration::from_secs(4)).await;
    let waits = tokio::spawn(async move {
        let guard = other.lock("x").await.expect("granted");
        (guard, Instant::now())
    });
    sleep(Duration::from_millis(500)).await;
    let lost = guard.lost();
    let told = tokio::spawn(async move {
        lost.await;
        Instant::now()
    });
    proxy.set(Proxied::Cut);
    sleep(Duration::from_millis(60)).await;
    proxy.set(Proxied::Pass);
    let (_next, granted) = timeout(Duration::from_secs(20), waits).await.expect("in time").expect("no panic");
    assert!(!guard.is_held(), "two holders");
    assert!(told.await.expect("no panic") <= granted, "told too late");
}
