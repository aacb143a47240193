//! The servers, one client each. A call goes to the current one; if that fails to serve, the next call goes to the next one, by a new
//! connection. The client library's own choice among several goes on to send a third of the calls to a server that is dead.

use std::{
    fmt,
    future::Future,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use etcd_client::{Client, ConnectOptions, Error as ClientError};
use tokio::time::timeout;

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
    /// Held by whoever makes a new one.
    connecting: tokio::sync::Mutex<()>,
}

impl Server {
    fn client(&self) -> MutexGuard<'_, Option<(u64, Client)>> {
        self.client.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn link(&self, at: usize) -> Option<Link> {
        let client = self.client();
        client.as_ref().map(|(connection, client)| Link { client: client.clone(), at, connection: *connection })
    }
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
            Server { host: host.clone(), url, client: Mutex::default(), connecting: tokio::sync::Mutex::default() }
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
        let server = &self.servers[at];
        if let Some(link) = server.link(at) {
            return Ok(link);
        }
        let _alone = server.connecting.lock().await;
        if let Some(link) = server.link(at) {
            return Ok(link);
        }
        // Opens no connection yet, but logs in if there is a user.
        let client = Client::connect([&server.url], Some(self.options.clone())).await?;
        let connection = self.connections.fetch_add(1, Ordering::Relaxed);
        *server.client() = Some((connection, client.clone()));
        Ok(Link { client, at, connection })
    }

    /// Others are asked from now on, and this server by a new connection if the old one is to blame. What an older connection has failed
    /// by was told before, and says nothing about the present one.
    fn blame(&self, at: usize, connection: Option<u64>, failure: &Failure) {
        if failure.blame == Blame::Request {
            return;
        }
        {
            let mut client = self.servers[at].client();
            if client.as_ref().map(|(known, _)| *known) != connection {
                return;
            }
            client.take_if(|_| failure.blame == Blame::Connection);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_an_older_connection_fails_by_is_not_put_down_to_the_present_one() {
        let config = "etcd://127.0.0.1:1,127.0.0.1:2/x".parse().expect("a URL");
        let endpoints = Endpoints::new(&Settings::of(&config, false).expect("good settings"));
        let failure = Failure::silent("a host", Duration::ZERO);
        let current = || endpoints.current.load(Ordering::Relaxed);
        let first = endpoints.connect(0).await.expect("nothing is sent");
        endpoints.suspect(&first, &failure);
        assert_eq!(current(), 1);
        let other = endpoints.connect(1).await.expect("nothing is sent");
        endpoints.suspect(&other, &failure);
        endpoints.suspect(&first, &failure);
        assert_eq!(current(), 0, "its connection is gone already");
        let second = endpoints.connect(0).await.expect("nothing is sent");
        endpoints.suspect(&first, &failure);
        let again = endpoints.connect(0).await.expect("nothing is sent");
        assert_eq!((current(), again.connection), (0, second.connection), "it has another connection by now");
        endpoints.suspect(&second, &failure);
        assert_eq!(current(), 1);
    }
}
