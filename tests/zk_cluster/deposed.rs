//! A leader that was stopped, and goes on while the others have another one. It reads from what it remembers.

use std::time::Duration;

use tenure_conformance::{
    queue,
    server::{until, zookeeper::Zookeeper},
};
use tenure_core::DataKey;
use tenure_tests::{
    on_zk::{coordinator, session},
    rounds,
};
use tokio::{join, time::sleep};

use crate::ensemble;

/// Whether the server at `at` leads no more, as the others say.
async fn is_deposed(zookeeper: &Zookeeper, at: usize) -> bool {
    for (other, node) in zookeeper.nodes.iter().enumerate() {
        if other != at && node.state().await.as_deref() == Some("leader") {
            return true;
        }
    }
    false
}

/// What the other leader has confirmed is not missing from a read (clause 3 of `FencedStore`). Beside it a plain read after a `sync`, to see that
/// there is something to be seen.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deposed_leader_shows_no_old_data() {
    let (mut zookeeper, _alone) = ensemble().await;
    let (rounds, mut stale, mut read) = (rounds(5), 0, 0);
    for round in 0..rounds {
        let leader = zookeeper.leader().await.expect("all serve");
        let address = |at: usize| zookeeper.nodes[at % 3].client.to_string();
        let writer = coordinator(&format!("{},{}", address(leader + 1), address(leader + 2)), "ttl=20s").await;
        let guard = writer.lock("x").await.expect("granted");
        let data = guard.fenced().expect("it keeps data");
        data.put("k", format!("old {round}").as_bytes()).await.expect("written");
        let reader = session(&address(leader), Duration::from_secs(20)).await.session;
        let (store, name, key) =
            (reader.fenced().expect("it keeps data"), queue("x"), DataKey::new("k").expect("a key"));
        store.get(&name, &key).await.expect("read").expect("there");
        let mut operator = zookeeper.nodes[leader].operator().await.expect("it serves");
        zookeeper.nodes[leader].process.stop();
        assert!(until(Duration::from_secs(20), || is_deposed(&zookeeper, leader)).await, "the others have no leader");
        let value = format!("new {round}");
        let mut written = data.put("k", value.as_bytes()).await;
        while written.is_err() {
            written = data.put("k", value.as_bytes()).await;
        }
        let plain = async { operator.try_get("/n/.tenure/data/x/k").await };
        let (found, plain, ()) = join!(store.get(&name, &key), plain, async {
            sleep(Duration::from_millis(200)).await; // the requests are there
            zookeeper.nodes[leader].process.cont();
        });
        stale += usize::from(plain.is_some_and(|(found, _)| !found.ends_with(value.as_bytes())));
        if let Ok(found) = found {
            read += 1;
            assert_eq!(found.expect("there").stored.value, value.as_bytes(), "round {round}: an old value");
        }
        assert!(zookeeper.serves(Duration::from_secs(20)).await);
        guard.release().await.expect("released");
    }
    println!("{rounds} rounds: {read} answers, none old; of plain reads {stale} were old");
    assert!(stale * 2 > rounds, "nothing was tested: {stale} of {rounds}");
}
