//! Keep-alives without anything of ours, by somebody who believes what is answered.

use std::time::Duration;

use etcd_client::{Client, LeaseKeepAliveStream, LeaseKeeper};
use futures_util::future::join_all;
use tokio::time::timeout;

/// Each for a lease of its own.
pub(super) struct Plain {
    pub(super) leases: Vec<i64>,
    streams: Vec<(LeaseKeeper, LeaseKeepAliveStream)>,
}

impl Plain {
    pub(super) async fn start(server: String, count: usize, ttl: Duration) -> Self {
        let client = Client::connect([server], None).await.expect("a client");
        let (mut leases, mut streams) = (Vec::new(), Vec::new());
        for _ in 0..count {
            let lease = client.lease_client().grant(ttl.as_secs().cast_signed(), None).await.expect("granted").id();
            streams.push(client.lease_client().keep_alive(lease).await.expect("kept alive"));
            leases.push(lease);
        }
        Self { leases, streams }
    }

    /// How many are told within the limit that their lease was extended.
    pub(super) async fn told(mut self, limit: Duration) -> usize {
        let asked = self.streams.iter_mut().map(|(requests, answers)| async {
            requests.keep_alive().await.ok()?;
            timeout(limit, answers.message()).await.ok()?.ok()?.filter(|answer| answer.ttl() > 0)
        });
        join_all(asked).await.iter().flatten().count()
    }
}
