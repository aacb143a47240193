//! The servers, one client each. A call goes to the current one; if that fails to serve, the next call goes to the next one, by a new
//! connection. The client library's own choice among several goes on to send a third of the calls to a server that is dead.

use std::{
    fmt,
    future::Future,
    sync::atomic::{AtomicU64, AtomicUsize, Ordering},
    time::Duration,
};

use etcd_client::{Client, ConnectOptions, Error as ClientError};
use tokio::{sync::Mutex, time::timeout};

use crate::{
    config::Settings,
    error::{Blame, Failure},
};

/// All servers of a cluster.
pub(crate) struct Endpoints {
    servers: Vec<Server>,
    options: ConnectOptions,
    current: AtomicUsize,
    connections: AtomicU64,
}

struct Server {
    host: String,
    url: String,
    /// The client, with the number of its connection.
    client: Mutex<Option<(u64, Client)>>,
}

/// A client of one server, for one call or stream.
#[derive(Clone)]
pub(crate) struct Link {
    pub(crate) client: Client,
    at: usize,
    connection: u64,
}

impl Endpoints {
    /// Nothing is sent yet.
    pub(crate) fn new(settings: &Settings) -> Self {
        let server = |host: &String| {
            let url = format!("{}://{host}", settings.scheme);
            Server { host: host.clone(), url, client: Mutex::new(None) }
        };
        Self {
            servers: settings.hosts.iter().map(server).collect(),
            options: settings.options.clone(),
            current: AtomicUsize::new(0),
            connections: AtomicU64::new(0),
        }
    }

    /// Whether a client of every server can be made: what is wrong with addresses and certificates as such is told before anything is
    /// sent.
    pub(crate) async fn check(&self, anonymous: &ConnectOptions) -> Result<(), Failure> {
        for server in &self.servers {
            let made = Client::connect([&server.url], Some(anonymous.clone())).await;
            made.map_err(|error| Failure::of(&error, &server.host))?;
        }
        Ok(())
    }

    pub(crate) fn count(&self) -> usize {
        self.servers.len()
    }

    pub(crate) fn has_tls(&self) -> bool {
        self.servers.iter().any(|server| server.url.starts_with("https:"))
    }

    /// All addresses, for messages.
    pub(crate) fn names(&self) -> String {
        self.servers.iter().map(|server| &*server.host).collect::<Vec<_>>().join(", ")
    }

    pub(crate) fn host(&self, link: &Link) -> &str {
        &self.servers[link.at].host
    }

    /// Whether calls still go to the server of this link.
    pub(crate) fn is_current(&self, link: &Link) -> bool {
        self.current.load(Ordering::Relaxed) == link.at
    }

    /// One attempt on the current server, within a limit. It is never repeated here: a repeat needs to know what it repeats.
    pub(crate) async fn attempt<T, F>(&self, limit: Duration, act: impl FnOnce(Link) -> F) -> Result<T, Failure>
    where
        F: Future<Output = Result<T, ClientError>>,
    {
        let at = self.current.load(Ordering::Relaxed);
        let mut connection = None;
        let work = async {
            let link = self.connect(at).await?;
            connection = Some(link.connection);
            act(link).await
        };
        let host = &self.servers[at].host;
        let failure = match timeout(limit, work).await {
            Ok(Ok(answer)) => return Ok(answer),
            Ok(Err(error)) => Failure::of(&error, host),
            Err(_) => Failure::silent(host, limit),
        };
        self.blame(at, connection, &failure);
        Err(failure)
    }

    /// What a stream of this link has failed by.
    pub(crate) fn suspect(&self, link: &Link, failure: &Failure) {
        self.blame(link.at, Some(link.connection), failure);
    }

    async fn connect(&self, at: usize) -> Result<Link, ClientError> {
        let mut slot = self.servers[at].client.lock().await;
        if let Some((connection, client)) = &*slot {
            return Ok(Link { client: client.clone(), at, connection: *connection });
        }
        // Opens no connection yet, but logs in if there is a user.
        let client = Client::connect([&self.servers[at].url], Some(self.options.clone())).await?;
        let connection = self.connections.fetch_add(1, Ordering::Relaxed);
        *slot = Some((connection, client.clone()));
        Ok(Link { client, at, connection })
    }

    /// Others are asked from now on, and this server by a new connection if the old one is to blame.
    fn blame(&self, at: usize, connection: Option<u64>, failure: &Failure) {
        if failure.blame == Blame::Request {
            return;
        }
        // Whoever has it locked is making a new connection already.
        if let (Blame::Connection, Ok(mut slot)) = (failure.blame, self.servers[at].client.try_lock()) {
            slot.take_if(|(known, _)| connection == Some(*known));
        }
        let next = (at + 1) % self.servers.len();
        let _ = self.current.compare_exchange(at, next, Ordering::Relaxed, Ordering::Relaxed);
        tracing::debug!(server = self.servers[at].host, ?failure, "turning to the next server");
    }
}

impl fmt::Debug for Endpoints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Endpoints").field(&self.names()).finish()
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").field("at", &self.at).field("connection", &self.connection).finish()
    }
}
