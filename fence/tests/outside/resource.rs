//! What the tests see of a resource: a small state that is read and written as a whole.

use std::{collections::BTreeMap, fmt::Debug, net::SocketAddr};

use serde::{Deserialize, Serialize};
use tenure_conformance::proxy::{Mode, Proxy};
use tenure_core::{FencingToken, async_trait};
use tenure_fence::Fenced;

/// What is stored. Each write adds one, to what the writer has read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct State {
    /// All writes.
    pub(crate) count: u64,
    /// Those of each worker.
    pub(crate) by: BTreeMap<usize, u64>,
    /// The token of the last one.
    pub(crate) token: u64,
    /// How often that was lower than the one before.
    pub(crate) fell: u64,
}

impl State {
    /// With one more write.
    pub(crate) fn after(mut self, worker: usize, token: FencingToken) -> Self {
        self.count += 1;
        *self.by.entry(worker).or_default() += 1;
        self.fell += u64::from(token.get() < self.token);
        self.token = token.get();
        self
    }

    pub(crate) fn text(&self) -> String {
        serde_json::to_string(self).expect("plain data")
    }

    pub(crate) fn parse(text: impl AsRef<[u8]>) -> Self {
        serde_json::from_slice(text.as_ref()).expect("what a client has written")
    }
}

/// Why a client did nothing, or does not know.
#[derive(Debug)]
pub(crate) enum Wrong {
    /// A newer holder was there.
    Fenced(Fenced),
    /// What was read is not there any more.
    Changed,
    /// It may have been done.
    Unknown(String),
}

/// A resource, with its fence or without.
#[async_trait]
pub(crate) trait Resource: Debug + Send + Sync {
    /// A client with a connection of its own.
    async fn client(&self) -> Result<Box<dyn Client>, String>;
    /// Breaks the connections, if there are any, or lets them be.
    fn cut(&self, cut: bool);
}

#[async_trait]
pub(crate) trait Client: Send {
    async fn read(&mut self, token: FencingToken) -> Result<State, Wrong>;
    /// Writes what is based on the last read.
    async fn write(&mut self, token: FencingToken, state: &State) -> Result<(), Wrong>;
}

pub(crate) fn cut(proxy: &Proxy, cut: bool) {
    proxy.set(if cut { Mode::Cut } else { Mode::Pass });
}

pub(crate) async fn proxy(server: SocketAddr) -> Proxy {
    Proxy::start(server).await.expect("a port")
}

pub(crate) fn unknown(error: impl Debug) -> Wrong {
    Wrong::Unknown(format!("{error:?}"))
}

/// A client for HTTP. It is built with TLS, and does without.
pub(crate) fn web() -> reqwest::ClientBuilder {
    provide();
    reqwest::Client::builder()
}

/// What clients with TLS are not built without.
pub(crate) fn provide() {
    let _ = rustls::crypto::ring::default_provider().install_default(); // or it is there
}
