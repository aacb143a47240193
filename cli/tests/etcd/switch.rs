//! Another backend is another configuration, and nothing else.

use std::{fs, os::unix::fs::PermissionsExt, process::Command, time::Duration};

use tenure_conformance::server::etcd::{Release, Setup};

use super::{start, until_queued};
use crate::support::{Room, Running, text, until};

#[derive(Clone, Copy, Debug)]
enum Way {
    Environment,
    File,
    Option,
}

/// `tenure lock` with these words, told in this way which backend to use; whatever comes second in rank is wrong.
fn lock(room: &Room, hosts: &str, way: Way, words: &[&str]) -> Command {
    let url = format!("etcd://{hosts}/n?ttl=10s");
    let _ = fs::remove_file(room.path("tenure.toml"));
    let mut command = match way {
        Way::Option => room.tenure(&[&["lock", "--url", &url], words].concat()),
        _ => room.tenure(&[&["lock"], words].concat()),
    };
    match way {
        Way::Environment => {
            room.write("tenure.toml", "backend = \"oracle\"\n");
            command.env("TENURE_URL", url)
        }
        Way::File => {
            let hosts = format!("hosts = [\"{hosts}\"]\nnamespace = \"n\"\nttl = \"10s\"\n");
            room.write("tenure.toml", &format!("backend = \"etcd\"\n{hosts}"));
            command.env_remove("TENURE_URL")
        }
        Way::Option => command.env("TENURE_URL", "oracle://h/n"),
    };
    command
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_ways_to_write_it_and_one_lock() {
    let etcd = start().await;
    let ways = [Way::Environment, Way::File, Way::Option];
    for holds in ways {
        let room = Room::new();
        let script = "touch ready; until [ -e go ]; do sleep 0.01; done";
        let mut holder = Running::start(&mut lock(&room, &etcd.hosts(), holds, &["job", "sh", "-c", script]));
        until("the command to be ready", || room.path("ready").exists());
        assert_eq!(etcd.keys("n/job/").len(), 1);
        let tried = |way| Running::start(&mut lock(&room, &etcd.hosts(), way, &["-n", "job", "true"])).code();
        for tries in ways {
            assert_eq!(tried(tries), 75, "{holds:?} and {tries:?} are strangers");
        }
        let _ = fs::remove_file(room.path("tenure.toml"));
        assert_eq!(room.run(&["lock", "-n", "job", "true"]).status.code(), Some(0), "SQLite is another world");
        room.write("go", "");
        assert_eq!(holder.code(), 0);
        until_queued(&etcd, 0);
        for tries in ways {
            assert_eq!(tried(tries), 0, "{tries:?}");
        }
    }
}

/// All in one line, the options after the name, on three servers; one of them dies meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_on_three_servers() {
    let mut etcd = Setup::cluster(Release::Packaged).start().await;
    let room = Room::new();
    room.write(
        "send-invoices",
        "#!/bin/sh\necho $TENURE_NAME $TENURE_TOKEN > sent\nuntil [ -e go ]; do sleep 0.01; done\n",
    );
    fs::set_permissions(room.path("send-invoices"), fs::Permissions::from_mode(0o755)).expect("set");
    let url = format!("etcd://{}/billing?ttl=10s", etcd.hosts());
    let mut command = room.tenure(&["lock", "nightly-invoices", "--url", &url, "--", "./send-invoices"]);
    let mut running = Running::start(command.env_remove("TENURE_URL"));
    until("the command", || room.read("sent").ends_with('\n'));
    let key = etcd.keys("billing/nightly-invoices/").pop().expect("the holder's");
    let fields = etcd.control(&["get", "--write-out=fields", &key]);
    let token = fields.lines().find_map(|line| line.strip_prefix("\"CreateRevision\" : ")).expect("a revision");
    assert_eq!(room.read("sent"), format!("nightly-invoices {token}\n"));
    etcd.nodes[0].process.kill();
    assert!(etcd.nodes[1].serves(Duration::from_secs(20)).await, "two of three do not serve");
    room.write("go", "");
    assert_eq!(running.code(), 0);
    let output = running.output();
    assert_eq!((text(&output.stdout), text(&output.stderr)), (String::new(), String::new()));
    etcd.nodes[0].process.restart().expect("it starts");
    until("the key to go", || etcd.keys("billing/nightly-invoices/").is_empty());
}
