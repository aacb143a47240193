//! TLS, with an authority of our own.

use std::{path::Path, time::Duration};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, date_time_ymd};
use tenure_conformance::server::{
    free_port,
    zookeeper::{Setup, Zookeeper},
};
use tenure_core::{Error, ErrorKind};
use tenure_tests::on_zk::{connect, coordinator};
use tokio::time::timeout;

type Authority = CertifiedIssuer<'static, KeyPair>;

fn authority(folder: &Path, name: &str) -> Authority {
    let mut params = CertificateParams::new(Vec::new()).expect("good names");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(rcgen::DnType::CommonName, name);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key")).expect("signed");
    std::fs::write(folder.join(format!("{name}.pem")), authority.pem()).expect("written");
    authority
}

/// A certificate for the server or a client, as `name.pem` and `name.key`.
fn certificate(folder: &Path, authority: &Authority, name: &str, host: &str, last_year: i32) {
    let mut params = CertificateParams::new(vec![host.to_owned()]).expect("good names");
    params.not_before = date_time_ymd(2020, 1, 1);
    params.not_after = date_time_ymd(last_year, 1, 1);
    params.distinguished_name.push(rcgen::DnType::CommonName, name);
    let key = KeyPair::generate().expect("a key");
    let certificate = params.signed_by(&key, authority).expect("signed");
    std::fs::write(folder.join(format!("{name}.pem")), certificate.pem()).expect("written");
    std::fs::write(folder.join(format!("{name}.key")), key.serialize_pem()).expect("written");
    std::fs::write(folder.join(format!("{name}-both.pem")), key.serialize_pem() + &certificate.pem()).expect("written");
}

/// Certificates of every kind, and a server that wants one of its clients (`need`) or not (`none`); with the address where it does.
async fn start(folder: &Path, server: &str, of_clients: &str) -> (Zookeeper, String) {
    let (ours, foreign) = (authority(folder, "ours"), authority(folder, "foreign"));
    certificate(folder, &ours, "server", "127.0.0.1", 2100);
    certificate(folder, &ours, "old-server", "127.0.0.1", 2021);
    certificate(folder, &ours, "client", "client", 2100);
    certificate(folder, &ours, "old-client", "client", 2021);
    certificate(folder, &foreign, "foreign-client", "client", 2100);
    let (path, port) = (|name: &str| folder.join(name).display().to_string(), free_port());
    let setup = Setup::single().with(&[
        &format!("secureClientPort={port}"),
        "secureClientPortAddress=127.0.0.1",
        "serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory",
        &format!("ssl.keyStore.location={}", path(&format!("{server}-both.pem"))),
        "ssl.keyStore.type=PEM",
        &format!("ssl.trustStore.location={}", path("ours.pem")),
        "ssl.trustStore.type=PEM",
        &format!("ssl.clientAuth={of_clients}"),
    ]);
    (setup.start().await, format!("127.0.0.1:{port}"))
}

async fn refused(hosts: &str, settings: &str) -> Error {
    let limit = Duration::from_secs(5);
    let error = timeout(limit, connect(hosts, settings)).await.expect("within the limit").expect_err("it cannot work");
    println!("{:?}: {}", error.kind(), error.report());
    assert!(!error.report().contains('\n'));
    error
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn certificates_are_verified_both_ways_with_a_sentence() {
    let folder = tempfile::tempdir().expect("a directory");
    let (zookeeper, secure) = start(folder.path(), "server", "need").await;
    let files = |ca: &str, client: &str| {
        let path = |name: String| folder.path().join(name).display().to_string();
        let [ca, cert, key] = [format!("{ca}.pem"), format!("{client}.pem"), format!("{client}.key")].map(path);
        format!("ca={ca}&cert={cert}&key={key}&connect_timeout=3s")
    };
    drop(zookeeper.operator().await); // it serves
    let good = coordinator(&secure, &files("ours", "client")).await;
    good.lock("x").await.expect("granted").release().await.expect("released");
    let foreign = refused(&secure, &files("foreign", "client")).await;
    assert!(foreign.kind() == ErrorKind::Config && foreign.to_string().contains("write ca"), "{foreign}");
    for client in ["old-client", "foreign-client"] {
        // Whether the server's alert arrives before its end of the connection is a matter of luck.
        let error = refused(&secure, &files("ours", client)).await;
        assert!(matches!(error.kind(), ErrorKind::Denied | ErrorKind::Unavailable), "{client}: {error:?}");
        assert!(
            error.report().contains("write cert and key of one that it trusts and that has not expired"),
            "{error}"
        );
    }
    let plain = refused(&secure, "connect_timeout=2s").await;
    assert!(plain.kind() == ErrorKind::Unavailable && plain.report().contains("write zks://"), "{plain}");
    let wrong_name = secure.replace("127.0.0.1", "localhost");
    assert!(refused(&wrong_name, &files("ours", "client")).await.to_string().contains("other names"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_expired_certificate_of_the_server_is_told_in_one_sentence() {
    let folder = tempfile::tempdir().expect("a directory");
    let (zookeeper, secure) = start(folder.path(), "old-server", "need").await;
    let path = |name: &str| folder.path().join(name).display().to_string();
    let settings = format!("ca={}&cert={}&key={}", path("ours.pem"), path("client.pem"), path("client.key"));
    let error = refused(&secure, &settings).await;
    assert!(error.kind() == ErrorKind::Config && error.to_string().contains("has expired: renew it"), "{error}");
    assert!(refused(&zookeeper.hosts(), &settings).await.report().contains("write zk://"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_authority_is_all_that_is_written_where_clients_have_no_certificates() {
    let folder = tempfile::tempdir().expect("a directory");
    let (zookeeper, secure) = start(folder.path(), "server", "none").await;
    drop(zookeeper.operator().await); // it serves
    let ca = |name: &str| folder.path().join(name).display().to_string();
    for scheme in ["zks", "zk"] {
        let url = format!("{scheme}://{secure}/n?ca={}&connect_timeout=3s", ca("ours.pem"));
        let coordinator = tenure::connect(&url).await.unwrap_or_else(|error| panic!("{url}: {}", error.report()));
        coordinator.lock("x").await.expect("granted").release().await.expect("released");
        let error = tenure::connect(&url.replace("ours", "foreign")).await.expect_err("not its authority");
        assert!(error.kind() == ErrorKind::Config && error.to_string().contains("write ca"), "{error}");
    }
    // The system's authorities do not know it.
    let error = tenure::connect(&format!("zks://{secure}/n?connect_timeout=3s")).await.expect_err("unknown");
    assert!(error.kind() == ErrorKind::Config && error.to_string().contains("write ca"), "{error}");
}
