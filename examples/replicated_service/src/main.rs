//! Replicas of a service: one leads, and writes with its token; the others send clients to it.
//!
//! `replicated-service ADDRESS FILE`; the backend is what `TENURE_URL` says.

use std::{env, error::Error, sync::Arc, time::Duration};

use futures_util::StreamExt;
use tenure::{Coordinator, Election, FencingToken, State, Term};
use tokio::{
    net::TcpListener,
    signal::unix::{SignalKind, signal},
    sync::watch,
    time::sleep,
};
use tokio_util::sync::CancellationToken;

use crate::{store::Store, web::Replica};

mod store;
mod web;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = env::args().skip(1).collect();
    let [address, file] = &words[..] else { return Err("write: replicated-service ADDRESS FILE".into()) };
    let listener = TcpListener::bind(address).await?;
    let address = listener.local_addr()?.to_string();
    say(&format!("answers on {address}"));

    let coordinator = tenure::connect_env().await?;
    let election = coordinator.election("notes");
    let (lead, token) = watch::channel(None);
    let (see, leader) = watch::channel(None);
    let observing = tokio::spawn(observe(coordinator.clone(), election.clone(), see));
    let replica = Replica { store: Arc::new(Store::open(file)?), token, leader, address: address.clone() };

    let stop = CancellationToken::new();
    let serving = tokio::spawn({
        let stop = stop.clone();
        async move { axum::serve(listener, web::routes(replica)).with_graceful_shutdown(stop.cancelled_owned()).await }
    });
    let mut term = signal(SignalKind::terminate())?;
    let told = stop.clone();
    tokio::spawn(async move {
        term.recv().await;
        told.cancel();
    });
    election.run(&address, stop, |term| serve_as_leader(term, lead.clone())).await?;
    serving.await??;
    observing.abort(); // it would open another session
    coordinator.close().await?; // the next one leads at once
    Ok(())
}

/// Says that we lead, for as long as this future is alive: it is dropped before anybody else can lead.
async fn serve_as_leader(term: Term, lead: watch::Sender<Option<FencingToken>>) {
    struct Office(watch::Sender<Option<FencingToken>>);
    impl Drop for Office {
        fn drop(&mut self) {
            self.0.send_replace(None);
        }
    }
    lead.send_replace(Some(term.token()));
    let _office = Office(lead);
    term.ended().await;
}

/// Notes the leader's address, whenever it changes. While the session is not held it is not known: then it looks anew, since one who still
/// leads is not told again.
async fn observe(coordinator: Coordinator, election: Election, see: watch::Sender<Option<String>>) {
    loop {
        let mut leaders = election.observe();
        let mut next = leaders.next().await;
        while let Some(Ok(leader)) = next {
            see.send_replace(leader.and_then(|leader| String::from_utf8(leader.value).ok()));
            next = tokio::select! {
                leader = leaders.next() => leader,
                () = loss(&coordinator) => None,
            };
        }
        see.send_replace(None);
        sleep(Duration::from_millis(500)).await;
    }
}

async fn loss(coordinator: &Coordinator) {
    while let Some(State::Held { .. } | State::InJeopardy { .. }) = coordinator.session_state() {
        sleep(Duration::from_millis(100)).await;
    }
}

fn say(line: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stdout(), "{line}");
}
