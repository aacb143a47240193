//! Data that only the holder changes: one transaction checks that the writer's entry is there, and writes.
//!
//! That the entry is the first is seen once, in a list of the queue; it stays so until it goes, since nobody gets in front of it. Its path is
//! nobody else's, then or later: it has the random id in it.
//!
//! # Versions
//! are the numbers of the transactions that wrote (`mzxid`): they rise over everything, so none comes again, not even after a deletion. The
//! servers compare another number, the count of changes of one node, which begins anew when the node is made anew. So a conditional edit reads
//! both, and then writes by the count; and while it does so nothing is removed. Only the holder could do that, and it is this session.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
};

use tenure_core::{DataKey, Datum, Edit, Fence, FencedStore, Outcome, QueueName, Result, Version, async_trait};
use tokio::{join, sync::RwLock};

use crate::{
    edition::Edition,
    entries::{self, is_first},
    error::{Refusal, if_there, settled},
    link::{Link, Node},
    places::Seat,
    session::{Shared, ZkSession},
};

/// Who removes data, and who must not see that happen; of a few keys each.
#[derive(Debug, Default)]
pub(crate) struct Removals([RwLock<()>; 32]);

impl Removals {
    pub(crate) fn of(&self, datum: &str) -> &RwLock<()> {
        let mut hasher = DefaultHasher::new();
        datum.hash(&mut hasher);
        &self.0[usize::try_from(hasher.finish() % 32).unwrap_or(0)]
    }
}

type Found = (Vec<u8>, Node);

impl Edition<'_> {
    /// The path of the writer's entry, if it is the first. Whatever was given up before is dead afterwards.
    async fn licence(&self) -> Result<Option<String>> {
        self.session.settle().await?;
        let (places, id) = (&self.session.places, &self.fence.entry.id);
        let is_this = |seat: &Seat| {
            let in_queue = seat.path.strip_prefix(&*self.queue).is_some_and(|rest| rest.starts_with('/'));
            in_queue && seat.token == self.fence.token
        };
        let Some(seat) = places.seat(id).filter(is_this) else { return Ok(None) };
        if !seat.is_first {
            if !is_first(&seat.path, &entries::list(self.session, self.fence.queue).await?) {
                return Ok(None);
            }
            places.is_first(id, seat.token);
        }
        Ok(Some(seat.path))
    }
}

/// The datum as the session's server knows it.
pub(crate) async fn read(session: &Shared, datum: &str) -> Result<Option<Found>> {
    let found = session.attempt(|link| async move { if_there(link.get(datum).await) }).await?;
    found.map_err(|refusal| refusal.into_error(datum))
}

pub(crate) fn version_of(node: &Node) -> Version {
    Version(node.changed.cast_unsigned())
}

pub(crate) fn decoded((bytes, node): &Found) -> Result<Datum> {
    Datum::from_bytes(bytes, version_of(node))
}

#[async_trait]
impl FencedStore for ZkSession {
    async fn get(&self, queue: &QueueName, key: &DataKey) -> Result<Option<Datum>> {
        self.0.settle().await?;
        let (datum, marker) = (&*format!("{}/{}", self.0.keys.data(queue), key.escaped()), &*self.0.marker);
        // A leader that others have replaced answers a `sync` for a moment, and then shows what is old. It cannot commit.
        let both = |link: Arc<Link>| async move {
            let (confirmed, found) = join!(biased; link.check(marker), link.get(datum));
            if_there(confirmed)?.map(|()| settled(found)).transpose()
        };
        let found = self.0.attempt(both).await?.map_err(|refusal| refusal.into_error(marker))?;
        match found.ok_or_else(|| self.0.end_unmarked())? {
            Ok(found) => decoded(&found).map(Some),
            Err(Refusal::NoNode) => Ok(None),
            Err(refusal) => Err(refusal.into_error(datum)),
        }
    }

    async fn edit(&self, fence: Fence<'_>, edit: Edit<'_>) -> Result<Outcome> {
        let edition = Edition::new(&self.0, fence, edit);
        match edition.licence().await {
            Ok(Some(entry)) => edition.run(&entry).await,
            Ok(None) => edition.fenced().await,
            Err(error) => edition.not_sent(error).await,
        }
    }
}
