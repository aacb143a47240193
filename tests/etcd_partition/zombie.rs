//! A leader that is stopped while the others elect another one, and goes on when its clients have been succeeded.

use std::time::Duration;

use etcd_client::Client;
use tenure_conformance::{netns::Cut, server::etcd::Release};
use tenure_core::{LossReason, State};
use tokio::time::{sleep, timeout};

use super::{World, plain::Plain};

const TTL: Duration = Duration::from_secs(3);
const MANY: usize = 8;

async fn revoke(server: String, leases: Vec<i64>) {
    let client = Client::connect([server], None).await.expect("a client");
    for lease in leases {
        client.lease_client().revoke(lease).await.expect("revoked");
    }
}

/// It hears nothing of the others, and answers from what it remembers; the holder knows no other server.
async fn revives_nothing(release: Release) {
    let mut world = World::start(release).await;
    let leader = world.leader().await;
    let holder = world.client_of(0, &[leader], "ttl=3s").await;
    let others = world.client_of(1, &[(leader + 1) % 3, (leader + 2) % 3], "ttl=3s").await;
    let host = world.net.hosts[3].clone();
    let plain =
        host.run(Plain::start(world.etcd.nodes[leader].client.to_string(), MANY, Duration::from_secs(60))).await;
    let guard = holder.lock("x", TTL).await;
    world.etcd.nodes[leader].process.stop();
    world.server(leader).cut(Cut::Off, &world.others(leader));
    let loss = timeout(TTL, guard.lost()).await.expect("told before the ttl is over");
    assert_eq!(loss, LossReason::Expired);
    let next = others.lock("x", TTL * 5).await;
    assert!(next.token() > guard.token());
    let other = world.etcd.nodes[(leader + 1) % 3].client.to_string();
    host.run(revoke(other, plain.leases.clone())).await;
    let going_on = async {
        sleep(Duration::from_millis(100)).await;
        world.etcd.nodes[leader].process.cont();
    };
    let (good, ()) = tokio::join!(host.run(plain.told(TTL)), going_on);
    println!("{release:?}: of {MANY} keep-alives of leases that were revoked {good} were told good by the old leader");
    for _ in 0..20 {
        assert_eq!(guard.state(), State::Lost(LossReason::Expired), "revived");
        sleep(Duration::from_millis(50)).await;
    }
    assert!(next.is_held(), "the next one has lost it");
    assert!(good > 0, "nothing was tested: the old leader has answered nobody");
    world.server(leader).heal();
    assert!(world.etcd.serves(Duration::from_secs(20)).await, "it does not heal");
    assert_eq!(guard.state(), State::Lost(LossReason::Expired), "revived");
    others.release(next, TTL).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_deposed_leader_answers_revives_no_lock() {
    revives_nothing(Release::Packaged).await;
}
