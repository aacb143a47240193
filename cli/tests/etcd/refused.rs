//! Credentials and certificates that cannot work are told in one sentence, in time, with the code for it.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, date_time_ymd};
use tenure_conformance::server::etcd::{Etcd, Release, Setup};

use super::{room, start};
use crate::support::{Room, assert_one_line, text};

const LIMIT: Duration = Duration::from_secs(2);
const DENIED_OR_CONFIG: i32 = 78;
const UNAVAILABLE: i32 = 69;

/// The command is not run; there is one sentence, with neither the right password in it nor the wrong one.
fn refused(hosts: &str, settings: &str, code: i32, says: &str) {
    let room = room(hosts, &format!("connect_timeout=2s&{settings}"));
    refused_in(&room, code, says);
}

fn refused_in(room: &Room, code: i32, says: &str) {
    let start = Instant::now();
    let output = room.run(&["lock", "--result-file", "result.json", "job", "touch", "ran"]);
    let took = start.elapsed();
    let said = text(&output.stderr);
    println!("{code} after {took:?}: {}", said.trim());
    assert_eq!(output.status.code(), Some(code), "{said}");
    assert_one_line(&output, says);
    assert!(took < LIMIT + Duration::from_millis(500), "{took:?}: {said}");
    assert!(!room.path("ran").exists(), "{said}");
    for secret in ["hunter2", "swordfish"] {
        assert!(!said.contains(secret) && !room.read("result.json").contains(secret), "{said}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_password() {
    let etcd = start().await;
    for user in ["root", "clerk"] {
        etcd.control(&["user", "add", &format!("{user}:hunter2")]);
    }
    etcd.control(&["user", "grant-role", "root", "root"]);
    etcd.control(&["auth", "enable"]);
    let hosts = etcd.hosts();
    refused(&format!("root:swordfish@{hosts}"), "", DENIED_OR_CONFIG, "refuses user and password");
    refused(&hosts, "user=root&password=swordfish", DENIED_OR_CONFIG, "refuses user and password");
    refused(&hosts, "", DENIED_OR_CONFIG, "write user and password");
    refused(&hosts, "user=clerk&password=hunter2", DENIED_OR_CONFIG, "grant the user a role");
    let file = room(&hosts, "connect_timeout=2s&user=root&password_file=secret");
    file.write("secret", "swordfish\n");
    refused_in(&file, DENIED_OR_CONFIG, "refuses user and password");
    file.write("secret", "hunter2\n");
    assert_eq!(file.run(&["lock", "job", "true"]).status.code(), Some(0), "or the others show nothing");
}

/// A server whose certificate is good until this year, by the authority in `ours.pem`; `foreign.pem` is another one.
async fn with_certificate(folder: &Path, last_year: i32) -> Etcd {
    let [ours, _] = ["ours", "foreign"].map(|name| {
        let mut params = CertificateParams::new(Vec::new()).expect("good names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(rcgen::DnType::CommonName, name);
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key")).expect("signed");
        std::fs::write(folder.join(format!("{name}.pem")), authority.pem()).expect("written");
        authority
    });
    let mut params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).expect("good names");
    (params.not_before, params.not_after) = (date_time_ymd(2020, 1, 1), date_time_ymd(last_year, 1, 1));
    let key = KeyPair::generate().expect("a key");
    let certificate = params.signed_by(&key, &ours).expect("signed");
    let [cert_file, key_file] = ["server.pem", "server.key"].map(|name| folder.join(name).display().to_string());
    std::fs::write(&cert_file, certificate.pem()).expect("written");
    std::fs::write(&key_file, key.serialize_pem()).expect("written");
    let arguments = [format!("--cert-file={cert_file}"), format!("--key-file={key_file}")];
    let setup = Setup::single(Release::Packaged).with_tls();
    setup.with(&arguments.each_ref().map(String::as_str)).start().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn certificates_that_cannot_be_trusted() {
    let folder = tempfile::tempdir().expect("a folder");
    let ca = |name: &str| format!("ca={}", folder.path().join(name).display());
    let old = with_certificate(folder.path(), 2021).await;
    refused(&old.hosts(), &ca("ours.pem"), DENIED_OR_CONFIG, "has expired: renew it");
    drop(old);
    let good = with_certificate(folder.path(), 2100).await;
    refused(&good.hosts(), &ca("foreign.pem"), DENIED_OR_CONFIG, "write ca");
    refused(&good.hosts(), &ca("missing.pem"), DENIED_OR_CONFIG, "missing.pem");
    refused(&good.hosts(), "", UNAVAILABLE, "write etcds://");
    let room = room(&good.hosts(), &ca("ours.pem"));
    assert_eq!(room.run(&["lock", "job", "true"]).status.code(), Some(0), "or the others show nothing");
}
