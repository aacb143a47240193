//! `tenure once` on etcd.

use super::{room, start};
use crate::{
    fleet,
    runs::remembered,
    support::{Room, until},
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn at_most_one_success_whoever_is_killed_or_cut_off() {
    let etcd = start().await;
    let hosts = etcd.hosts();
    let server = &etcd.nodes[0].process;
    fleet::at_most_one_success(server, |round| Room::on(format!("etcd://{hosts}/n{round}?ttl=2s")));
}

/// The entry, and with it the right to record, goes while the command runs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_lost_its_key_records_nothing() {
    let etcd = start().await;
    let room = room(&etcd.hosts(), "ttl=30s");
    let script = "touch ready; until [ -e go ]; do sleep 0.01; done";
    let mut late = room.start(&["once", "job", "sh", "-c", script]);
    until("the command", || room.path("ready").exists());
    etcd.control(&["del", "--prefix", "n/job/"]);
    room.write("go", "");
    assert_eq!(late.code(), 76);
    assert_eq!(remembered(&room), None);
    assert_eq!(room.run(&["once", "job", "sh", "-c", "echo $TENURE_TOKEN > token"]).status.code(), Some(0));
    assert_eq!(remembered(&room), room.read("token").trim().parse().ok());
    assert_eq!(etcd.keys("n/job/").len(), 0, "nothing of it stands in the queue");
}
