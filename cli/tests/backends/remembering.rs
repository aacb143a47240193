//! What is remembered in the service: on every backend it works, or is refused with what to use instead, before anything runs.

use tenure_conformance::server::Place;

use super::room;
use crate::support::{assert_one_line, text};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn once_and_histories_work_or_are_refused() {
    let _alone = crate::alone().await;
    for place in Place::shared().await {
        let room = room(&place);
        let keeps_data = !place.label.starts_with("zk");
        for (words, code) in [
            (&["once", "key", "touch", "ran"][..], 0),
            (&["once", "key", "false"], 0),
            (&["once", "--status", "key"], 0),
            (&["once", "--forget", "key"], 0),
            (&["elect", "--history", "--once", "job", "touch", "ran"], 0),
            (&["observe", "--history", "job"], 0),
        ] {
            let output = room.run(words);
            let said = text(&output.stderr);
            let expected = if keeps_data { code } else { 78 };
            assert_eq!(output.status.code(), Some(expected), "{} {words:?}: {said}", place.label);
            if !keeps_data {
                assert_one_line(&output, "this backend keeps no data behind a fence");
                assert!(said.contains("use etcd or sqlite"), "{said}");
            }
        }
        assert_eq!(room.path("ran").exists(), keeps_data, "{}", place.label);
        println!("{:8} {}", place.label, if keeps_data { "remembers" } else { "refuses" });
    }
}
