//! Tells other programs of this host who leads, by HTTP.

use std::{net::TcpListener, sync::Arc, time::Duration};

use futures_util::StreamExt;
use tenure::{Clock, Coordinator, Election, Leadership};
use tokio::{task::JoinHandle, time::sleep};

use crate::{
    args::Elect,
    http::{
        self,
        board::{Board, Office},
    },
    outcome::{Outcome, code},
    say,
    show::Shown,
};

/// How often the session is looked at: less than a keep-alive at the shortest ttl takes.
const CONFIRMATION: Duration = Duration::from_millis(100);
/// How long before who leads is looked for again.
const AGAIN: Duration = Duration::from_millis(500);

/// The address, before anything can be told.
#[derive(Debug)]
pub(super) struct Bound(Option<TcpListener>);

/// What tells, if it was asked for. Dropping it ends what it does in the runtime of the election.
#[derive(Debug)]
pub(super) struct Sidecar(Option<(Arc<Board>, Follower)>);

#[derive(Debug)]
struct Follower(JoinHandle<()>);

impl Drop for Follower {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// For as long as it leads.
#[derive(Debug)]
pub(super) struct Told(Option<(Arc<Board>, Follower)>);

impl Drop for Told {
    fn drop(&mut self) {
        if let Some((board, _)) = &self.0 {
            board.leads(None);
        }
    }
}

impl Bound {
    /// Begins to answer.
    pub(super) fn serve(self, elect: &Elect, backend: &str, coordinator: &Coordinator) -> Result<Sidecar, Outcome> {
        let Self(Some(listener)) = self else { return Ok(Sidecar(None)) };
        let board = Arc::new(Board::new(&elect.name, backend, coordinator.clone()));
        http::serve(listener, board.clone()).map_err(|error| Outcome::failed("HTTP cannot be served", &error))?;
        let follower = tokio::spawn(follow(coordinator.election(&elect.name), board.clone()));
        Ok(Sidecar(Some((board, Follower(follower)))))
    }
}

/// Notes who leads. After a loss of the session it looks anew: whoever led may lead no more, and one who still does is not told again.
async fn follow(election: Election, board: Arc<Board>) {
    let mut said = None;
    loop {
        let mut leaders = election.observe();
        let mut next = leaders.next().await; // opens a session if there is none
        while let Some(Ok(leader)) = next {
            board.sees(Some(leader.map(Shown::from)));
            said = None;
            next = tokio::select! {
                leader = leaders.next() => leader,
                () = gap(&board) => None,
            };
        }
        board.sees(None);
        if let Some(Err(error)) = next
            && said.replace(error.kind()) != Some(error.kind())
        {
            say(&format!("who leads cannot be seen, and is looked for again: {}", error.report()));
        }
        sleep(AGAIN).await;
    }
}

/// Returns once the session is not held, or was not for a while.
async fn gap(board: &Board) {
    while board.confirms() {
        sleep(CONFIRMATION).await;
    }
}

impl Sidecar {
    /// Takes the address before there is a session: an address that is taken is told at once.
    pub(super) fn bind(elect: &Elect) -> Result<Bound, Outcome> {
        let Some(address) = elect.http else { return Ok(Bound(None)) };
        let listener = TcpListener::bind(address).map_err(|error| Outcome::Failed {
            code: code::CONFIG,
            why: format!("--http {address} cannot be used: {error}"),
        })?;
        if address.port() == 0 {
            let address = listener.local_addr().map_err(|error| Outcome::failed("the address is not known", &error))?;
            say(&format!("answers HTTP on {address}"));
        }
        Ok(Bound(Some(listener)))
    }

    /// Returns when nobody may act any more on having been told that we lead.
    pub(super) async fn keeps_word(&self) {
        if let Some(promised) = self.0.as_ref().and_then(|(board, _)| board.promised()) {
            Clock::system().sleep_until(promised).await;
        }
    }

    /// A term was not given up, but lost.
    pub(super) fn loses(&self) {
        if let Some((board, _)) = &self.0 {
            board.loses();
        }
    }

    /// Tells, from now on, that this candidate leads, until what is returned is dropped.
    pub(super) fn leads(&self, leadership: &Leadership, value: &[u8]) -> Told {
        let Self(Some((board, _))) = self else { return Told(None) };
        let mut states = leadership.states();
        let board = board.clone();
        let leader =
            Shown { value: value.to_owned(), token: leadership.token().get(), id: leadership.id().to_string() };
        board.leads(Some(Office { leader: leader.clone(), state: leadership.state() }));
        let follower = tokio::spawn({
            let board = board.clone();
            async move {
                while let Some(state) = states.next().await {
                    board.leads(Some(Office { leader: leader.clone(), state }));
                }
            }
        });
        Told(Some((board, Follower(follower))))
    }
}
