//! Waits for a lock on etcd, says so, and holds it until its input ends: what `interop/mutex.go` does in Go.
//!
//!     etcd-holder ENDPOINTS NAME TTL

#![expect(clippy::print_stdout, reason = "its output is its report")]

use tenure_tests::on_etcd::coordinator;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let arguments: Vec<_> = std::env::args().collect();
    let [_, hosts, name, ttl] = &arguments[..] else { panic!("write etcd-holder ENDPOINTS NAME TTL") };
    let guard = coordinator(hosts, &format!("ttl={ttl}s")).await.lock(name).await.expect("granted");
    println!("locked {}", guard.token());
    tokio::io::copy(&mut tokio::io::stdin(), &mut tokio::io::sink()).await.expect("it can be read");
    guard.release().await.expect("released");
    println!("released");
}
