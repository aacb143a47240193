//! What cannot work is told in one sentence that says what to write, with the code for it, within the time that is set.

use std::{
    any::Any,
    net::TcpListener,
    time::{Duration, Instant},
};

use tenure_conformance::server::{
    Place,
    etcd::{Release, Setup},
    free_port, zookeeper,
};

use crate::support::{Room, Running, assert_one_line, text};

const CONFIG: i32 = 78;
const UNAVAILABLE: i32 = 69;
const LIMIT: Duration = Duration::from_secs(2);

/// The command is not run; no password is shown, neither the right one nor the wrong one.
fn refused(url: &str, variables: &[(&str, &str)], code: i32, says: &str) {
    let room = Room::on(url.to_owned());
    let mut command = room.tenure(&["lock", "--result-file", "result.json", "job", "touch", "ran"]);
    command.env("TENURE_CONNECT_TIMEOUT", "2s").envs(variables.iter().copied());
    let start = Instant::now();
    let output = Running::start(&mut command).output();
    let (took, said) = (start.elapsed(), text(&output.stderr));
    println!("{code} after {took:?}: {}", said.trim());
    assert_eq!(output.status.code(), Some(code), "{url}: {said}");
    assert_one_line(&output, says);
    let helps = ["write ", "leave one out"].iter().any(|what| said.contains(what));
    assert!(helps || code == UNAVAILABLE, "it does not say what to write: {said}");
    assert!(took < LIMIT + Duration::from_secs(1), "{took:?}: {said}");
    assert!(!room.path("ran").exists(), "{said}");
    for secret in ["hunter2", "swordfish"] {
        assert!(!said.contains(secret) && !room.read("result.json").contains(secret), "{said}");
    }
}

/// What can be written wrong wherever it is; most of it is refused before anybody is asked.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_words() {
    let _alone = crate::alone().await;
    for place in Place::shared().await {
        let url = |settings: &str| place.url(settings);
        let scheme = url("").split(':').next().unwrap_or_default().to_owned();
        for (settings, says) in [
            ("tll=5s", format!("{scheme} has no setting 'tll': write one of")),
            ("ttl=5", "ttl = '5' is no duration: write it like 10s".to_owned()),
            ("ttl=0s", "write 1s to 24h".to_owned()),
            ("ttl=soon", "write it like 10s".to_owned()),
            ("ttl", "write them like ttl=10s".to_owned()),
            ("ttl=5s&ttl=6s", "'ttl' is written twice: leave one out".to_owned()),
            ("require=iron", "write one of process, host, single-server, consensus".to_owned()),
            ("token_base=-1", "write 0 or more".to_owned()),
        ] {
            refused(&url(settings), &[], CONFIG, &says);
        }
        refused(&format!("x{}", url("ttl=5s")), &[], CONFIG, &format!("there is no backend 'x{scheme}'"));
        refused(&url("ttl=5s"), &[("TENURE_TLL", "5s")], CONFIG, "write TENURE_TTL");
        refused(&url("ttl=5s"), &[("TENURE_REQUIRE", "iron")], CONFIG, "TENURE_REQUIRE: ");
        another_token_base(&place);
    }
}

fn another_token_base(place: &Place) {
    let room = super::room(place);
    let _user = room.start_ready(&["job"], "touch ready; sleep 60");
    refused(&room.url(), &[("TENURE_TOKEN_BASE", "7")], CONFIG, "token_base = 7, but this namespace has 0");
}

/// Only the servers know that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_ttl_that_the_servers_do_not_grant() {
    let _alone = crate::alone().await;
    let zookeeper = zookeeper::Setup::single().start().await;
    let (url, says) = (format!("zk://{}/n?ttl=1h", zookeeper.hosts()), "grants sessions of 1m at most");
    refused(&url, &[], CONFIG, says);
    refused(&url, &[], CONFIG, "write ttl = 42s or less, or raise its maxSessionTimeout");
    let room = Room::on(url.replace("1h", "42s"));
    assert_eq!(room.run(&["lock", "job", "true"]).status.code(), Some(0), "what is to be written does not work");
}

/// Schemes of backends over a network. A new one is a line here.
const NETWORKED: [&str; 2] = ["etcd", "zk"];

#[test]
fn nobody_answers_and_nobody_is_there() {
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port"); // the kernel accepts, and that is all
    let silent = silent.local_addr().expect("an address").to_string();
    let nobody = format!("127.0.0.1:{}", free_port());
    for scheme in NETWORKED {
        for hosts in [&silent, &nobody, &format!("{nobody},{silent}")] {
            refused(&format!("{scheme}://{hosts}/n"), &[], UNAVAILABLE, "127.0.0.1:");
            let user = [("TENURE_USER", "root"), ("TENURE_PASSWORD", "hunter2")];
            refused(&format!("{scheme}://{hosts}/n"), &user, UNAVAILABLE, "127.0.0.1:");
        }
    }
}

#[test]
fn files_that_are_not_there() {
    for scheme in NETWORKED {
        let url = format!("{scheme}://127.0.0.1:{}/n", free_port());
        refused(&url, &[("TENURE_CA", "missing.pem")], CONFIG, "ca = missing.pem cannot be read");
        let user = [("TENURE_USER", "root"), ("TENURE_PASSWORD_FILE", "missing")];
        refused(&url, &user, CONFIG, "password_file = missing cannot be read");
        refused(&url, &[("TENURE_PATH", "x.db")], CONFIG, &format!("TENURE_PATH: {scheme} has no setting 'path'"));
    }
    refused("sqlite:x.db", &[("TENURE_CA", "missing.pem")], CONFIG, "TENURE_CA: sqlite has no setting 'ca'");
    refused("sqlite:x.db", &[("TENURE_HOSTS", "h")], CONFIG, "sqlite has no host");
}

/// Servers that want the user `root` with the password `hunter2`. A new backend is a line here. ZooKeeper takes any password: what it refuses
/// is access to what another one has made.
async fn guarded() -> Vec<(String, Box<dyn Any>)> {
    let etcd = Setup::single(Release::Packaged).start().await;
    etcd.control(&["user", "add", "root:hunter2"]);
    etcd.control(&["user", "grant-role", "root", "root"]);
    etcd.control(&["auth", "enable"]);
    let zookeeper = zookeeper::Setup::single().start().await;
    let theirs = format!("zk://{}/n?acl=creator", zookeeper.hosts());
    assert_eq!(as_root(&theirs), 0);
    vec![(format!("etcd://{}/n", etcd.hosts()), Box::new(etcd)), (theirs, Box::new(zookeeper))]
}

fn as_root(url: &str) -> i32 {
    let room = Room::on(url.to_owned());
    let mut command = room.tenure(&["lock", "job", "true"]);
    Running::start(command.env("TENURE_USER", "root").env("TENURE_PASSWORD", "hunter2")).code()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_password() {
    let _alone = crate::alone().await;
    for (url, _servers) in guarded().await {
        refused(&url, &[("TENURE_USER", "root"), ("TENURE_PASSWORD", "swordfish")], CONFIG, "user and password");
        refused(&url, &[("TENURE_USER", "root")], CONFIG, "write password_file");
        refused(&url, &[("TENURE_PASSWORD", "hunter2")], CONFIG, "write user");
        refused(&url, &[], CONFIG, "write user and password");
        assert_eq!(as_root(&url), 0, "or the others show nothing");
    }
}
