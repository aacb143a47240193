//! A leader that was stopped, and goes on while the others have another one. It reads from what it remembers.

use std::time::Duration;

use futures_util::StreamExt;
use tenure_conformance::{
    queue,
    server::{until, zookeeper::Zookeeper},
};
use tenure_core::{DataKey, Election, Leader};
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
/// Who holds is told as of a moment after the question, and so is whether a grant still stands. What was asked comes to a leader that does not
/// know yet that there is another one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deposed_leader_names_no_former_holder() {
    let (mut zookeeper, _alone) = ensemble().await;
    let (rounds, mut stale) = (rounds(5), 0);
    for round in 0..rounds {
        let leader = zookeeper.leader().await.expect("all serve");
        let address = |at: usize| zookeeper.nodes[at % 3].client.to_string();
        let others = format!("{},{}", address(leader + 1), address(leader + 2));
        let locking = coordinator(&others, "ttl=20s").await;
        let asking = coordinator(&address(leader), "ttl=20s&connect_timeout=15s").await;
        let before = locking.lock("x").await.expect("granted");
        assert_eq!(asking.holder("x").await.expect("asked").expect("held").token, before.token());
        let (kept, election) = (asking.lock("y").await.expect("granted"), asking.election("x"));
        let mut operator = zookeeper.nodes[leader].operator().await.expect("it serves");
        zookeeper.nodes[leader].process.stop();
        assert!(until(Duration::from_secs(20), || is_deposed(&zookeeper, leader)).await, "the others have no leader");
        before.release().await.expect("released");
        let now = locking.lock("x").await.expect("granted");
        let mut remover = zookeeper.nodes[(leader + 1) % 3].operator().await.expect("it serves");
        let entry = remover.list("/n/y").await.pop().expect("an entry");
        remover.delete(&format!("/n/y/{entry}")).await;
        let plain = async { operator.try_list("/n/y").await };
        let (holder, first, verified, plain, ()) =
            join!(asking.holder("x"), first(&election), kept.verify(), plain, async {
                sleep(Duration::from_millis(200)).await; // the requests are there
                zookeeper.nodes[leader].process.cont();
            });
        stale += usize::from(plain.is_some_and(|names| !names.is_empty()));
        for (what, answer) in [("holder", holder), ("observe", first)] {
            let token = answer.map(|leader| leader.map(|leader| leader.token));
            assert!(matches!(&token, Ok(Some(token)) if *token == now.token()), "round {round}, {what}: {token:?}");
        }
        verified.expect_err("its entry was removed before it asked");
        assert!(zookeeper.serves(Duration::from_secs(20)).await);
        now.release().await.expect("released");
    }
    println!("{rounds} rounds: nobody was named who held no more; plain lists were old in {stale}");
    assert!(stale * 2 > rounds, "nothing was tested: {stale} of {rounds}");
}

async fn first(election: &Election) -> tenure_core::Result<Option<Leader>> {
    election.observe().next().await.expect("it does not end")
}

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
