//! What clients see: the leader answers, the others say where it is.

use std::sync::Arc;

use axum::{
    Router,
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse, Redirect, Response},
    routing::get,
};
use tenure::FencingToken;
use tokio::{sync::watch, task::spawn_blocking};

use crate::store::{Stale, Store};

const NOTES: &str = "/notes";

/// One of the replicas.
#[derive(Clone, Debug)]
pub(crate) struct Replica {
    pub(crate) store: Arc<Store>,
    /// Ours, while we lead.
    pub(crate) token: watch::Receiver<Option<FencingToken>>,
    /// Where the leader is, as far as we have heard.
    pub(crate) leader: watch::Receiver<Option<String>>,
    pub(crate) address: String,
}

pub(crate) fn routes(replica: Replica) -> Router {
    Router::new().route(NOTES, get(read).post(write)).with_state(replica)
}

async fn read(State(replica): State<Replica>) -> Response {
    let Some(token) = replica.leads() else { return replica.elsewhere() };
    let read = spawn_blocking(move || replica.store.all(token)).await;
    match read {
        Ok(Ok(Ok(notes))) => {
            notes.iter().map(|(token, note)| format!("{token} {note}\n")).collect::<String>().into_response()
        }
        Ok(Ok(Err(Stale))) => deposed(),
        _ => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

async fn write(State(replica): State<Replica>, note: String) -> Response {
    let Some(token) = replica.leads() else { return replica.elsewhere() };
    let written = spawn_blocking(move || replica.store.add(token, &note)).await;
    match written {
        Ok(Ok(Ok(()))) => StatusCode::CREATED.into_response(),
        Ok(Ok(Err(Stale))) => deposed(),
        _ => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

impl Replica {
    /// It may be over before the write: the store decides.
    fn leads(&self) -> Option<FencingToken> {
        *self.token.borrow()
    }

    fn elsewhere(&self) -> Response {
        match self.leader.borrow().as_deref() {
            Some(leader) if leader != self.address => {
                Redirect::temporary(&format!("http://{leader}{NOTES}")).into_response()
            }
            _ => try_again("it is not known who leads\n"),
        }
    }
}

fn deposed() -> Response {
    try_again("somebody else leads since\n")
}

fn try_again(why: &'static str) -> Response {
    (StatusCode::SERVICE_UNAVAILABLE, [(header::RETRY_AFTER, "1")], why).into_response()
}
