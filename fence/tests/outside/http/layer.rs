//! What the layer answers, and in which order it lets in.

use std::{
    future::poll_fn,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use axum::{
    Router,
    http::{HeaderMap, HeaderValue, StatusCode},
    routing::{any, put},
};
use tenure_core::{Error, ErrorKind, FencingToken, async_trait};
use tenure_fence::{
    Refusal,
    http::{FENCING_TOKEN, FenceLayer, FencedRequest, Marks, MemoryMarks, SqliteMarks, token},
};
use tokio::{
    sync::{Notify, Semaphore},
    time::Instant,
};
use tower_service::Service;

use super::serve;
use crate::{
    lock::{coordinator, sqlite, within},
    resource::web,
};

async fn app(layer: FenceLayer) -> String {
    let app = Router::new().route("/{*any}", any(async || "done")).layer(layer);
    format!("http://{}", serve(app).await.0)
}

fn numbers(values: &[&str]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for value in values {
        headers.append(FENCING_TOKEN, value.parse().expect("a header"));
    }
    headers
}

/// The status, the winner, and the text.
async fn send(client: &reqwest::Client, request: (&str, &str, &[&str])) -> (u16, Option<u64>, String) {
    let (method, url, values) = request;
    let method = method.parse().expect("a method");
    let response = client.request(method, url).headers(numbers(values)).send().await.expect("an answer");
    let winner = token(response.headers()).expect("a number").map(FencingToken::get);
    (response.status().as_u16(), winner, response.text().await.expect("a text"))
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_are_those_of_the_standard_in_http_1_and_2() {
    let http2 = web().http2_prior_knowledge().build().expect("a client");
    for client in [web().build().expect("a client"), http2] {
        let url = app(FenceLayer::new(MemoryMarks::new())).await;
        let (a, b) = (format!("{url}/a?x=1"), format!("{url}/b"));
        let max = u64::MAX.to_string();
        for (request, expected) in [
            (("PUT", &*a, &["5"][..]), (200, None)),
            (("PUT", &*a, &["5"]), (200, None)),
            (("PUT", &*a, &["4"]), (412, Some(5))),
            (("GET", &*a, &["4"]), (412, Some(5))),
            (("PUT", &*b, &["4"]), (200, None)),
            (("GET", &*b, &["7"]), (200, None)), // a read raises too
            (("DELETE", &*b, &["6"]), (412, Some(7))),
            (("GET", &*a, &[]), (200, None)), // somebody who only looks
            (("PUT", &*a, &[]), (428, None)),
            (("POST", &*a, &[]), (428, None)),
            (("DELETE", &*a, &[]), (428, None)),
            (("PUT", &*a, &["x"]), (400, None)),
            (("PUT", &*a, &[""]), (400, None)),
            (("PUT", &*a, &["-1"]), (400, None)),
            (("PUT", &*a, &["18446744073709551616"]), (400, None)),
            (("PUT", &*a, &["6", "6"]), (400, None)),
            (("GET", &*a, &["6, 6"]), (400, None)),
            (("PUT", &*a, &[&max]), (200, None)),
            (("PUT", &*a, &["6"]), (412, Some(u64::MAX))),
        ] {
            let (status, winner, text) = send(&client, request).await;
            assert_eq!((status, winner), expected, "{request:?}: {text}");
            assert!(status == 200 || text.len() > 30, "a sentence: {text}");
        }
    }
}

/// The first server is gone for good, with all that it had in its memory.
#[tokio::test(flavor = "multi_thread")]
async fn marks_survive_a_restart_of_the_service() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("marks.db");
    let client = web().build().expect("a client");
    let app = || {
        let layer = FenceLayer::new(SqliteMarks::open(&path).expect("it opens"));
        Router::new().route("/a", any(async || "done")).layer(layer)
    };
    let first = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    let url = format!("http://{}/a", first.spawn(serve(app())).await.expect("no panic").0);
    assert_eq!(send(&client, ("PUT", &url, &["8"])).await.0, 200);
    tokio::task::spawn_blocking(|| drop(first)).await.expect("no panic");
    assert!(client.put(&url).send().await.is_err(), "nobody is there");
    let url = format!("http://{}/a", serve(app()).await.0);
    let (status, winner, text) = send(&client, ("PUT", &url, &["7"])).await;
    assert_eq!((status, winner), (412, Some(8)), "{text}");
    assert_eq!(send(&client, ("PUT", &url, &["8"])).await.0, 200, "it is no higher than it was");
}

#[derive(Debug)]
struct Broken;

#[async_trait]
impl Marks for Broken {
    async fn raise(&self, _: &str, _: FencingToken) -> Result<(), Refusal<Error>> {
        Err(Error::new(ErrorKind::Unavailable, "the disk of the marks is full").into())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_passes_while_marks_cannot_be_stored() {
    let url = app(FenceLayer::new(Broken)).await;
    assert_eq!(send(&web().build().expect("a client"), ("PUT", &format!("{url}/a"), &["8"])).await.0, 503);
}

#[tokio::test(flavor = "multi_thread")]
async fn resources_are_what_the_service_says() {
    let layer = FenceLayer::new(MemoryMarks::new())
        .with_resource(|parts| (!parts.uri.path().starts_with("/open")).then(|| "all".to_owned()));
    let (client, url) = (web().build().expect("a client"), app(layer).await);
    assert_eq!(send(&client, ("PUT", &format!("{url}/a"), &["8"])).await.0, 200);
    assert_eq!(send(&client, ("PUT", &format!("{url}/b"), &["7"])).await.0, 412);
    assert_eq!(send(&client, ("PUT", &format!("{url}/open"), &[])).await.0, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_sends_the_token_of_its_lock() {
    let folder = tempfile::tempdir().expect("a folder");
    let guard = coordinator(&sqlite(folder.path())).await.lock("a").await.expect("granted");
    let mut request = http::Request::put("/a").body(()).expect("a request");
    request.set_token(&guard).expect("held");
    assert_eq!(token(request.headers()), Ok(Some(guard.token())));
}

/// A service in which requests stay until they are let go.
struct Held {
    url: String,
    inside: Arc<Notify>,
    go: Arc<Semaphore>,
}

async fn held(patience: Duration) -> Held {
    let (inside, go) = (Arc::new(Notify::new()), Arc::new(Semaphore::new(0)));
    let (entered, leave) = (inside.clone(), go.clone());
    let stay = async move |headers: HeaderMap| {
        entered.notify_one();
        if headers.contains_key("stay") {
            leave.acquire().await.expect("it is open").forget();
        }
        StatusCode::NO_CONTENT
    };
    let app = Router::new().route("/a", put(stay)).layer(FenceLayer::new(MemoryMarks::new()).with_patience(patience));
    Held { url: format!("http://{}/a", serve(app).await.0), inside, go }
}

fn request(held: &Held, number: u64, stay: bool) -> tokio::task::JoinHandle<(u16, Option<u64>)> {
    let mut request = web().build().expect("a client").put(&held.url).header(FENCING_TOKEN, HeaderValue::from(number));
    if stay {
        request = request.header("stay", "yes");
    }
    tokio::spawn(async move {
        let response = request.send().await.expect("an answer");
        (response.status().as_u16(), token(response.headers()).expect("a number").map(FencingToken::get))
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_newer_request_waits_for_an_older_one_that_is_inside() {
    let held = held(Duration::from_secs(60)).await;
    let older = request(&held, 7, true);
    within(held.inside.notified()).await;
    // Of the same holder: beside it.
    assert_eq!(within(request(&held, 7, false)).await.expect("no panic"), (204, None));
    within(held.inside.notified()).await;
    let newer = request(&held, 8, false);
    assert!(tokio::time::timeout(Duration::from_millis(300), held.inside.notified()).await.is_err(), "it waits");
    // The mark is up already.
    assert_eq!(within(request(&held, 7, false)).await.expect("no panic"), (412, Some(8)));
    held.go.add_permits(1);
    assert_eq!(within(older).await.expect("no panic"), (204, None));
    assert_eq!(within(newer).await.expect("no panic"), (204, None));
}

/// Inside the service it may have done something: that is another answer than that of one who was not let in.
#[tokio::test(flavor = "multi_thread")]
async fn an_older_request_that_does_not_end_is_dropped_and_not_told_that_nothing_was_done() {
    let held = held(Duration::from_millis(200)).await;
    let older = request(&held, 7, true);
    within(held.inside.notified()).await;
    assert_eq!(within(request(&held, 8, false)).await.expect("no panic"), (204, None));
    assert_eq!(within(older).await.expect("no panic"), (500, Some(8)));
}

/// It is looked at once more when it has to leave, and has its answer then.
#[tokio::test(start_paused = true)]
async fn an_answer_that_is_there_is_given_though_a_newer_request_has_waited_long_enough() {
    let (patience, inside) = (Duration::from_secs(5), Arc::new(Notify::new()));
    let entered = inside.clone();
    let work = async move |headers: HeaderMap| {
        entered.notify_one();
        let end = Instant::now() + patience;
        let done = |_: &mut Context<'_>| if Instant::now() >= end { Poll::Ready(()) } else { Poll::Pending };
        if headers.contains_key("stay") {
            poll_fn(done).await;
        }
        StatusCode::NO_CONTENT
    };
    let app = Router::new().route("/a", put(work)).layer(FenceLayer::new(MemoryMarks::new()).with_patience(patience));
    let send = |number: u64, header: &str| {
        let request = http::Request::put("/a").header(FENCING_TOKEN, number).header(header, "yes");
        let request = request.body(axum::body::Body::empty()).expect("a request");
        let answer = app.clone().call(request);
        tokio::spawn(async move { answer.await.expect("infallible").status() })
    };
    let older = send(7, "stay");
    inside.notified().await;
    assert_eq!(send(8, "go").await.expect("no panic"), StatusCode::NO_CONTENT);
    assert_eq!(older.await.expect("no panic"), StatusCode::NO_CONTENT, "it was done");
}
