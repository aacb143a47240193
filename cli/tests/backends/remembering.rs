//! What is remembered in the service, on every backend.

use tenure_conformance::server::Place;

use super::room;
use crate::support::text;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn once_and_histories_work_on_every_backend() {
    let _alone = crate::alone().await;
    for place in Place::shared().await {
        let room = room(&place);
        for words in [
            &["once", "key", "touch", "ran"][..],
            &["once", "key", "false"],
            &["once", "--status", "key"],
            &["once", "--forget", "key"],
            &["elect", "--history", "--once", "job", "touch", "ran"],
            &["observe", "--history", "job"],
        ] {
            let output = room.run(words);
            assert_eq!(output.status.code(), Some(0), "{} {words:?}: {}", place.label, text(&output.stderr));
        }
        assert!(room.path("ran").exists(), "{}", place.label);
        println!("{:8} remembers", place.label);
    }
}
