//! One server of etcd.

use std::{net::SocketAddr, time::Duration};

use crate::{
    netns::Host,
    server::{Process, http_get, until},
};

/// One server.
#[derive(Debug)]
pub struct Node {
    /// Its process, to stop and to kill.
    pub process: Process,
    /// Where clients connect to.
    pub client: SocketAddr,
    /// The URL for its peers.
    pub peer: String,
    pub(super) metrics: u16,
    /// Where it runs, if not on this machine itself.
    pub(super) host: Option<Host>,
}

impl Node {
    /// Waits until it has a leader and answers a linearizable read.
    pub async fn serves(&mut self, limit: Duration) -> bool {
        let (port, host, process) = (self.metrics, &self.host, &mut self.process);
        let healthy = || async {
            let body = get(host.as_ref(), port, "/health").await;
            body.is_some_and(|body| body.contains("\"health\":\"true\""))
        };
        tokio::select! {
            serves = until(limit, healthy) => serves,
            _ = until(limit, || std::future::ready(process.has_ended())) => false,
        }
    }

    /// One of its own counters; those with labels are added up.
    pub async fn metric(&self, name: &str) -> Option<f64> {
        let all = get(self.host.as_ref(), self.metrics, "/metrics").await?;
        let of_name = all
            .lines()
            .filter(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(' ') || rest.starts_with('{')));
        let values: Vec<f64> = of_name.filter_map(|line| line.rsplit_once(' ')?.1.parse().ok()).collect();
        (!values.is_empty()).then(|| values.iter().sum())
    }

    /// The requests of one method that it has begun to serve.
    pub async fn requests(&self, method: &str) -> u64 {
        let all = get(self.host.as_ref(), self.metrics, "/metrics").await.unwrap_or_default();
        let label = format!("grpc_method=\"{method}\"");
        let started =
            all.lines().filter(|line| line.starts_with("grpc_server_started_total{") && line.contains(&label));
        started.filter_map(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok()).sum()
    }
}

/// Asked at its own host, so that it can be asked while it is cut off.
async fn get(host: Option<&Host>, port: u16, path: &'static str) -> Option<String> {
    match host {
        Some(host) => host.run(http_get(port, path)).await,
        None => http_get(port, path).await,
    }
}
