//! Requests to leaders and candidates. They stand in a queue of their own beside that of the candidates, bound to the session of whoever
//! asks, so that nothing is left of a request whose author has gone. Nothing is ever put in front of anybody: who is asked to make room
//! leaves, and enters again behind.

use std::sync::Arc;

use futures_util::{
    future::try_join,
    stream::{self, StreamExt, TryStreamExt},
};
use serde::{Deserialize, Serialize};

use super::{
    no_candidate,
    observe::{Leader, Observer},
};
use crate::{
    error::Result,
    keeper::{Keeper, Pause},
    place::Entry,
    queue::{Contender, ContenderId, QueueName, Record, Snapshot, Wake},
    rule::Mode,
    token::FencingToken,
};

/// How many requests are read side by side.
const AT_A_TIME: usize = 64;

/// What somebody asks for, as JSON in the value of an entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Request {
    /// Which leader is to resign, by its token; any that is preferred less, if there is a priority instead.
    #[serde(default)]
    pub(crate) leader: Option<FencingToken>,
    /// The id of the entry that is to lead next.
    #[serde(default)]
    pub(crate) to: Option<String>,
    /// A candidate asks for itself, with this priority.
    #[serde(default)]
    pub(crate) priority: Option<u32>,
}

impl Request {
    /// Makes the request; it stands until the entry is dropped. One that an operator removes at once is made anew.
    pub(crate) async fn make(self, keeper: &Keeper, queue: &QueueName) -> Result<Entry> {
        let value: Arc<[u8]> = serde_json::to_vec(&self).unwrap_or_default().into();
        let mut pause = Pause::new();
        loop {
            let made = Entry::make(keeper.clone(), beside(queue), Mode::Read, value.clone()).await?;
            if let Some((entry, _)) = made {
                return Ok(entry);
            }
            pause.sleep().await;
        }
    }

    fn names(&self, id: &ContenderId) -> bool {
        self.to.as_deref() == Some(id.as_str())
    }
}

fn beside(queue: &QueueName) -> QueueName {
    queue.beside("requests")
}

/// The entries of the requests that stand now, unread.
pub(crate) async fn standing(keeper: &Keeper, queue: &QueueName) -> Result<Vec<Contender>> {
    let beside = beside(queue);
    Ok(keeper.call(|| keeper.session.list(&beside)).await?.queue)
}

/// All requests, the oldest first, and the queue they stand in. Those that are `expected` are read while it is listed, which saves a round
/// trip.
async fn requests(keeper: &Keeper, queue: &QueueName, expected: &[Contender]) -> Result<(Vec<Request>, Snapshot)> {
    let beside = beside(queue);
    let list = keeper.call(|| keeper.session.list(&beside));
    let (mut seen, mut read) = try_join(list, read_all(keeper, &beside, expected)).await?;
    let mut pause = Pause::new();
    loop {
        let unread: Vec<_> =
            seen.queue.iter().filter(|who| !read.iter().any(|(one, _)| one == *who)).cloned().collect();
        read.extend(read_all(keeper, &beside, &unread).await?);
        let record = |who: &Contender| read.iter().find(|(one, _)| one == who)?.1.clone();
        let records: Vec<_> = seen.queue.iter().map(record).collect();
        // One that has gone meanwhile may have been replaced, by one that was not listed yet.
        if records.iter().all(Option::is_some) {
            let parse = |record: Record| serde_json::from_slice(&record.value).ok();
            return Ok((records.into_iter().flatten().filter_map(parse).collect(), seen));
        }
        pause.sleep().await;
        read.retain(|(_, record)| record.is_some());
        seen = keeper.call(|| keeper.session.list(&beside)).await?;
    }
}

/// Side by side: however many there are, they are to cost about one round trip.
async fn read_all(
    keeper: &Keeper,
    beside: &QueueName,
    entries: &[Contender],
) -> Result<Vec<(Contender, Option<Record>)>> {
    let read = async |who: Contender| {
        let record = keeper.call(|| keeper.session.read(beside, &who)).await?;
        Ok((who, record))
    };
    stream::iter(entries.to_vec()).map(read).buffered(AT_A_TIME).try_collect().await
}

/// Whether a candidate whose turn it is makes room for another one of its queue: for the one that somebody has chosen, or else for the one that is
/// preferred most.
pub(crate) async fn makes_room(entry: &Entry, seen: &Snapshot, priority: u32, expected: &[Contender]) -> Result<bool> {
    let (requests, _) = requests(entry.keeper(), entry.queue(), expected).await?;
    Ok(chosen(&requests, &seen.queue, priority).is_some_and(|chosen| chosen != entry.me()))
}

fn chosen<'a>(requests: &[Request], queue: &'a [Contender], priority: u32) -> Option<&'a Contender> {
    let here = |request: &Request| queue.iter().find(|contender| request.names(&contender.id));
    let by_hand = requests.iter().filter(|request| request.priority.is_none()).find_map(here);
    let preferred = || {
        let more = requests.iter().filter(|request| request.priority > Some(priority) && here(request).is_some());
        more.rev().max_by_key(|request| request.priority).and_then(here)
    };
    by_hand.or_else(preferred)
}

/// Returns once the leader of this entry is asked to resign: by hand at any time, by preference if it `may_yield`.
pub(crate) async fn asked(
    keeper: &Keeper,
    queue: &QueueName,
    token: FencingToken,
    priority: u32,
    may_yield: bool,
) -> Result<()> {
    loop {
        let (requests, seen) = requests(keeper, queue, &[]).await?;
        let asks = |request: &Request| match request.priority {
            None => request.leader == Some(token),
            Some(other) => may_yield && other > priority,
        };
        let asking: Vec<_> = requests.iter().filter(|request| asks(request)).collect();
        if asking.iter().any(|request| request.priority.is_none()) {
            return Ok(());
        }
        // Whoever asks for itself has to be in line.
        if !asking.is_empty() {
            let line = keeper.call(|| keeper.session.list(queue)).await?.queue;
            if line.iter().any(|contender| asking.iter().any(|request| request.names(&contender.id))) {
                return Ok(());
            }
        }
        keeper.wait(&beside(queue), &seen, Wake::Any).await?;
    }
}

/// Stands by a request that the leader resigns, until it has: and until the chosen candidate leads, or has gone.
pub(crate) async fn ask_to_resign(
    keeper: &Keeper,
    observer: &Observer,
    to: Option<&ContenderId>,
) -> Result<Option<Leader>> {
    let (Some(first), mut seen) = observer.look_now(keeper).await? else { return Ok(None) };
    let is_here = |seen: &Snapshot| to.is_none_or(|to| seen.queue.iter().any(|contender| contender.id == *to));
    if let Some(to) = to.filter(|_| !is_here(&seen)) {
        return Err(no_candidate(&observer.queue, to));
    }
    let (mut leader, mut standing) = (Some(first.clone()), None);
    let mut asked = None;
    loop {
        let has_resigned = leader.as_ref().is_none_or(|leader| leader.id != first.id);
        let leads = leader.as_ref().map(|leader| &leader.id);
        if leads.is_some() && leads == to || has_resigned && (to.is_none() || !is_here(&seen)) {
            return Ok(leader);
        }
        // It may be another one by now that has to resign: one that came into office before it could hear of us.
        if let Some(token) = leader.map(|leader| leader.token).filter(|token| asked != Some(*token)) {
            let request = Request { leader: Some(token), to: to.map(ToString::to_string), priority: None };
            let next = request.make(keeper, &observer.queue).await?;
            drop(standing.replace(next)); // the new one stands before the old one goes
            asked = Some(token);
        }
        keeper.wait(&observer.queue, &seen, Wake::Any).await?;
        (leader, seen) = observer.look(keeper).await?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contender(id: &str) -> Contender {
        Contender { id: ContenderId::from_backend(id), key: id.into() }
    }

    fn request(to: &str, priority: Option<u32>) -> Request {
        Request { leader: Some(FencingToken::new(1)), to: Some(to.to_owned()), priority }
    }

    #[test]
    fn the_first_choice_by_hand_counts_then_the_highest_priority_then_the_oldest() {
        let queue = ["a", "b", "c"].map(contender);
        for (requests, mine, choice) in [
            (vec![], 0, None),
            (vec![request("gone", None)], 0, None),
            (vec![request("gone", None), request("c", None), request("b", None)], 0, Some("c")),
            (vec![request("b", Some(9)), request("c", None)], 0, Some("c")),
            (vec![request("b", Some(2)), request("c", Some(3))], 0, Some("c")),
            (vec![request("c", Some(3)), request("b", Some(3))], 0, Some("c")),
            (vec![request("c", Some(3)), request("gone", Some(4))], 3, None),
        ] {
            let found = chosen(&requests, &queue, mine).map(|contender| contender.id.as_str());
            assert_eq!(found, choice, "{requests:?}");
        }
    }
}
