//! `etcdctl lock` and ours on one name.

use std::{env, process::Stdio, thread, time::Duration};

use tenure_conformance::server::etcd::{Etcd, Release, Setup};

use super::{room, until_queued};
use crate::support::{Room, Running, until};

/// Says that it began, and ends when it is told to.
fn script(name: &str) -> String {
    format!("touch {name}-began; until [ -e {name}-go ]; do sleep 0.01; done")
}

fn began(room: &Room, name: &str) -> bool {
    room.path(&format!("{name}-began")).exists()
}

fn foreign(etcd: &Etcd, room: &Room) -> Running {
    let mut command = etcd.etcdctl(&["lock", "--ttl=10", "n/job", "--", "sh", "-c", &script("foreign")]);
    Running::start(command.current_dir(room.path("")).stdin(Stdio::null()).stdout(Stdio::null()))
}

/// Whoever stands second does not begin before the first one goes.
fn one_after_the_other(etcd: &Etcd, room: &Room, [first, second]: [&str; 2]) {
    until_queued(etcd, 2);
    thread::sleep(Duration::from_millis(200));
    assert!(began(room, first) && !began(room, second), "{second} does not wait for {first}");
    room.write(&format!("{first}-go"), "");
    until("the second one", || began(room, second));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn etcdctl_and_ours_exclude_each_other_both_ways() {
    let rounds = env::var("TENURE_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(3);
    for release in [Release::Packaged, Release::V3_5] {
        let etcd = Setup::single(release).start().await;
        for _ in 0..rounds {
            let room = room(&etcd.hosts(), "ttl=10s");
            let mut ours = room.start(&["lock", "job", "sh", "-c", &script("ours")]);
            until("ours", || began(&room, "ours"));
            let mut theirs = foreign(&etcd, &room);
            one_after_the_other(&etcd, &room, ["ours", "foreign"]);
            assert_eq!(ours.code(), 0);
            for way in ["-n", "-ns", "-nx"] {
                assert_eq!(room.run(&["lock", way, "job", "true"]).status.code(), Some(75), "{way}");
            }
            let mut again = room.start(&["lock", "job", "sh", "-c", &script("again")]);
            one_after_the_other(&etcd, &room, ["foreign", "again"]);
            assert!(theirs.status().success());
            room.write("again-go", "");
            assert_eq!(again.code(), 0);
            until_queued(&etcd, 0);
        }
    }
}
