//! HTTP services.

use std::{
    fmt,
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
};

use axum::{
    Router,
    extract::State as Shared,
    http::{HeaderValue, StatusCode},
    routing::get,
};
use tempfile::TempDir;
use tenure_conformance::proxy::Proxy;
use tenure_core::{FencingToken, async_trait};
use tenure_fence::{
    Fenced,
    http::{FENCING_TOKEN, FenceLayer, SqliteMarks},
};
use tokio::{net::TcpListener, task::JoinHandle};

use crate::{
    crew::loses_nothing,
    resource::{Client, Resource, State, Wrong, cut, proxy, unknown, web},
};

mod layer;

/// A service that keeps one text.
struct Service {
    server: JoinHandle<()>,
    proxy: Proxy,
    _folder: TempDir,
}

impl fmt::Debug for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Http")
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.server.abort();
    }
}

type Text = Arc<Mutex<String>>;

fn texts(text: Text) -> Router {
    let read = async |Shared(text): Shared<Text>| text.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let write = async |Shared(text): Shared<Text>, body: String| {
        tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        *text.lock().unwrap_or_else(PoisonError::into_inner) = body;
    };
    Router::new().route("/state", get(read).put(write)).with_state(text)
}

async fn serve(app: Router) -> (SocketAddr, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("bound");
    (address, tokio::spawn(async move { axum::serve(listener, app).await.expect("it serves") }))
}

pub(crate) async fn service(fence: bool) -> Arc<dyn Resource> {
    let folder = tempfile::tempdir().expect("a folder");
    let marks = SqliteMarks::open(folder.path().join("marks.db")).expect("it opens");
    let app = texts(Text::default());
    let (address, server) = serve(if fence { app.layer(FenceLayer::new(marks)) } else { app }).await;
    Arc::new(Service { server, proxy: proxy(address).await, _folder: folder })
}

struct Own {
    client: reqwest::Client,
    url: String,
}

#[async_trait]
impl Resource for Service {
    async fn client(&self) -> Result<Box<dyn Client>, String> {
        let url = format!("http://{}/state", self.proxy.address());
        Ok(Box::new(Own { client: web().build().expect("a client"), url }))
    }

    fn cut(&self, cut: bool) {
        self::cut(&self.proxy, cut);
    }
}

impl Own {
    async fn send(&self, token: FencingToken, request: reqwest::RequestBuilder) -> Result<String, Wrong> {
        let response = request.header(FENCING_TOKEN, HeaderValue::from(token.get())).send().await.map_err(unknown)?;
        let (status, headers) = (response.status(), response.headers().clone());
        let text = response.text().await.map_err(unknown)?;
        match status {
            StatusCode::OK => Ok(text),
            StatusCode::PRECONDITION_FAILED => {
                let winner = tenure_fence::http::token(&headers).expect("a number").expect("it is told");
                Err(Wrong::Fenced(Fenced { resource: self.url.clone(), token, winner }))
            }
            other => panic!("{other}: {text}"),
        }
    }
}

#[async_trait]
impl Client for Own {
    async fn read(&mut self, token: FencingToken) -> Result<State, Wrong> {
        let text = self.send(token, self.client.get(&self.url)).await?;
        Ok(if text.is_empty() { State::default() } else { State::parse(text) })
    }

    async fn write(&mut self, token: FencingToken, state: &State) -> Result<(), Wrong> {
        self.send(token, self.client.put(&self.url).body(state.text())).await.map(drop)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn eight_workers_lose_nothing_in_a_service() {
    loses_nothing(service(true).await).await;
}
