//! A small HTTP server in a thread and a runtime of its own: whatever clients do to it, keep-alives do not wait for it.
//!
//! It answers `GET` without a look at the body, one request per connection. A connection lasts a few seconds at most, and if there are too
//! many of them, the oldest one ends: those that send slowly, or nothing, keep nobody out.

use std::{collections::VecDeque, convert::Infallible, io, net, sync::Arc, thread, time::Duration};

use http_body_util::Full;
use hyper::{
    Method, Request, Response, StatusCode,
    body::{Bytes, Incoming},
    header::{CACHE_CONTROL, CONTENT_TYPE},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    net::{TcpListener, TcpStream},
    task::AbortHandle,
    time::{Instant, sleep, sleep_until, timeout},
};

use self::board::Board;

pub(crate) mod board;
mod metrics;

/// How long a connection may last.
const LIMIT: Duration = Duration::from_secs(5);
/// How many there may be: few enough to leave file descriptors to the election.
const MOST: usize = 128;
/// How long each of them may last at least. Whoever asks from this host has its answer by then.
const LEAST: Duration = Duration::from_millis(100);
/// How long a request may be, without its body.
const LONGEST: usize = 16 * 1024;

/// Answers from now on, until the process ends.
///
/// # Errors
/// What keeps the thread from being started.
pub(crate) fn serve(listener: net::TcpListener, board: Arc<Board>) -> io::Result<()> {
    rustix::net::listen(&listener, 1024)?; // again, so that more connections may wait than by default
    listener.set_nonblocking(true)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    thread::Builder::new().name("tenure-http".to_owned()).spawn(move || {
        runtime.block_on(async {
            match TcpListener::from_std(listener) {
                Ok(listener) => accept(listener, board).await,
                Err(error) => crate::say(&format!("HTTP cannot be served: {error}")),
            }
        });
    })?;
    Ok(())
}

async fn accept(listener: TcpListener, board: Arc<Board>) {
    let mut open = VecDeque::<(Instant, AbortHandle)>::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            sleep(Duration::from_millis(50)).await; // no file descriptors, say: some connections will be over
            continue;
        };
        open.push_back((Instant::now(), tokio::spawn(timeout(LIMIT, answer(stream, board.clone()))).abort_handle()));
        open.retain(|(_, connection)| !connection.is_finished());
        while open.len() >= MOST
            && let Some((since, oldest)) = open.pop_front()
        {
            sleep_until(since + LEAST).await;
            oldest.abort();
            open.retain(|(_, connection)| !connection.is_finished());
        }
    }
}

async fn answer(stream: TcpStream, board: Arc<Board>) {
    let service = service_fn(|request| std::future::ready(Ok::<_, Infallible>(respond(&request, &board))));
    let mut protocol = http1::Builder::new();
    protocol.timer(TokioTimer::new()).header_read_timeout(LIMIT).keep_alive(false).max_buf_size(LONGEST);
    let _ = protocol.serve_connection(TokioIo::new(stream), service).await; // a client that has gone is no trouble of ours
}

fn respond(request: &Request<Incoming>, board: &Board) -> Response<Full<Bytes>> {
    let text = "text/plain; charset=utf-8";
    let (status, kind, body) = match request.uri().path() {
        _ if ![Method::GET, Method::HEAD].contains(request.method()) => {
            (StatusCode::METHOD_NOT_ALLOWED, text, "write GET\n".to_owned())
        }
        "/leader" => {
            let view = board.promise();
            (ok_if(view.known), "application/json", view.to_json())
        }
        "/healthz" => {
            let view = board.view();
            (
                ok_if(view.session_held),
                text,
                if view.session_held { "ok\n" } else { "there is no session\n" }.to_owned(),
            )
        }
        "/metrics" => (StatusCode::OK, metrics::CONTENT_TYPE, metrics::text(&board.view())),
        _ => (StatusCode::NOT_FOUND, text, "there are /leader, /healthz and /metrics\n".to_owned()),
    };
    let response = Response::builder().status(status).header(CONTENT_TYPE, kind).header(CACHE_CONTROL, "no-store");
    response.body(Full::from(body)).unwrap_or_default()
}

fn ok_if(good: bool) -> StatusCode {
    if good { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }
}
