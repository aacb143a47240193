//! One edit: which transaction it takes, and what its answers mean.

use std::sync::Arc;

use tenure_core::{Datum, Edit, Error, ErrorKind, Expect, Fence, Outcome, Result};
use tokio::time::timeout;

use crate::{
    data::{decoded, read, version_of},
    entries,
    error::{Refusal, unexpected},
    link::{Kind, Link, Step, Transacted},
    session::Shared,
};

/// How often an edit is sent again because something has changed meanwhile that it had been told.
const TRIES: usize = 10;

/// The steps of an edit: what they check, then the change.
const ENTRY: usize = 0;
const EPOCH: usize = 1;

/// What is tried in one transaction.
#[derive(Clone, Copy, Debug)]
enum Change {
    Create,
    /// Of what has this count of changes, if one is named.
    Set(Option<i32>),
    Remove(Option<i32>),
    /// Nothing, if there is no datum.
    Miss,
    /// Nothing at all: the datum is not as expected, and it remains to be seen whether the entry is there.
    Nothing,
}

/// One edit, through its attempts.
pub(crate) struct Edition<'a> {
    pub(crate) session: &'a Shared,
    pub(crate) fence: Fence<'a>,
    edit: Edit<'a>,
    pub(crate) queue: String,
    folder: String,
    pub(crate) datum: String,
    bytes: Vec<u8>,
}

impl<'a> Edition<'a> {
    pub(crate) fn new(session: &'a Shared, fence: Fence<'a>, edit: Edit<'a>) -> Self {
        let (queue, folder) = (session.keys.queue(fence.queue), session.keys.data(fence.queue));
        let datum = format!("{folder}/{}", edit.key.escaped());
        let bytes = Datum::to_bytes(fence.raised, edit.id, edit.value.unwrap_or_default());
        Self { session, fence, edit, queue, folder, datum, bytes }
    }

    /// Does it, as the owner of the entry at this path, which was seen to be the first.
    pub(crate) async fn run(&self, entry: &str) -> Result<Outcome> {
        let (limit, removals) = (self.session.limit(), self.session.removals.of(&self.datum));
        let (removes, compares) = (self.edit.value.is_none(), matches!(self.edit.expect, Expect::Version(_)));
        let turns = async {
            let alone = if removes { Some(removals.write().await) } else { None };
            let beside = if compares && !removes { Some(removals.read().await) } else { None };
            (alone, beside)
        };
        let Ok(_turns) = timeout(limit, turns).await else { return Ok(self.changing()) };
        let mut change = match self.choose().await {
            Ok(change) => change,
            Err(error) => return self.not_sent(error).await,
        };
        for _ in 0..TRIES {
            match self.attempt(entry, change).await? {
                Next::Done(outcome) => return Ok(outcome),
                Next::Try(next) => change = next,
            }
        }
        Ok(self.changing())
    }

    /// What to try first.
    async fn choose(&self) -> Result<Change> {
        Ok(match (self.edit.expect, self.edit.value) {
            (Expect::Anything, Some(_)) => Change::Set(None),
            (Expect::Anything, None) => Change::Remove(None),
            (Expect::Absent, Some(_)) => Change::Create,
            (Expect::Absent, None) => Change::Miss,
            (Expect::Version(version), value) => {
                // As new as whatever the first entry's session has seen, and nobody else writes.
                let found = read(self.session, &self.datum).await?;
                match (found.filter(|(_, node)| version_of(node) == version), value) {
                    (None, _) => Change::Nothing,
                    (Some((_, node)), Some(_)) => Change::Set(Some(node.version)),
                    (Some((_, node)), None) => Change::Remove(Some(node.version)),
                }
            }
        })
    }

    fn steps<'s>(&'s self, entry: &'s str, epoch: i32, change: Change) -> Vec<Step<'s>> {
        let (datum, bytes) = (&*self.datum, &*self.bytes);
        // What is made is answered without its number, and what is set with it.
        let (create, set) =
            (|value| Step::Create(datum, Kind::Persistent, value), |version| Step::Set(datum, version, bytes));
        let remove = |version| Step::Remove(datum, version);
        let mut steps = vec![Step::Check(entry, None), Step::Check(&self.session.marker, Some(epoch))];
        match change {
            Change::Create => steps.extend([create(bytes), set(None)]),
            Change::Set(version) => steps.push(set(version)),
            Change::Remove(version) => steps.push(remove(version)),
            Change::Miss => steps.extend([create(b""), remove(None)]),
            Change::Nothing => {}
        }
        steps
    }

    async fn attempt(&self, entry: &str, change: Change) -> Result<Next> {
        let (session, epoch, mut is_sent) = (self.session, self.session.epochs.present(), false);
        let steps = &*self.steps(entry, epoch, change);
        let answer = session.attempt(|link: Arc<Link>| {
            is_sent = true;
            let attempt = session.epochs.attempt(epoch);
            async move {
                let answer = link.transact(steps).await;
                attempt.ended(&answer);
                answer
            }
        });
        match answer.await {
            Ok(Ok(answer)) => self.answered(answer, change, epoch).await,
            Ok(Err(refusal)) => Ok(Next::Done(Outcome::Refused(refusal.into_error(&self.datum)))),
            Err(error) if !is_sent => self.not_sent(error).await.map(Next::Done),
            Err(error) => Err(error),
        }
    }

    async fn answered(&self, answer: Transacted, change: Change, epoch: i32) -> Result<Next> {
        let next = match (answer, change) {
            (Ok(_), Change::Nothing) => self.conflict().await,
            (Ok(None), Change::Remove(_) | Change::Miss) => Ok(Next::Done(Outcome::Done(None))),
            (Ok(Some(node)), _) => Ok(Next::Done(Outcome::Done(Some(version_of(&node))))),
            (Ok(None), _) => Err(unexpected("ZooKeeper did not tell which version it wrote")),
            (Err((ENTRY, Refusal::NoNode)), _) => return self.fenced().await.map(Next::Done),
            (Err((EPOCH, Refusal::NoNode)), _) => Err(self.session.end_unmarked()),
            (Err((EPOCH, Refusal::BadVersion)), _) => self.session.learn_epoch(epoch).await.map(|()| Next::Try(change)),
            (Err((_, Refusal::NoNode)), Change::Set(None)) => Ok(Next::Try(Change::Create)),
            (Err((_, Refusal::NoNode)), Change::Remove(None)) => Ok(Next::Done(Outcome::Done(None))),
            (Err((_, Refusal::NoNode)), Change::Create | Change::Miss) => {
                self.make_folder().await.map(|()| Next::Try(change))
            }
            (Err((_, Refusal::NodeExists)), Change::Create) if self.edit.expect == Expect::Anything => {
                Ok(Next::Try(Change::Set(None)))
            }
            (Err((_, Refusal::NodeExists)), Change::Create | Change::Miss) => self.conflict().await,
            (Err((_, Refusal::NoNode | Refusal::BadVersion)), Change::Set(Some(_)) | Change::Remove(Some(_))) => {
                self.choose().await.map(Next::Try)
            }
            (Err((_, refusal)), _) => Err(refusal.into_error(&self.datum)),
        };
        match next {
            Ok(next) => Ok(next),
            Err(error) => self.not_sent(error).await.map(Next::Done), // what was sent has not happened
        }
    }

    /// It is not as expected; or was not a moment ago.
    async fn conflict(&self) -> Result<Next> {
        let found = read(self.session, &self.datum).await?;
        if found.is_none() && self.edit.expect == Expect::Absent {
            return Ok(Next::Try(if self.edit.value.is_some() { Change::Create } else { Change::Miss }));
        }
        Ok(Next::Done(Outcome::Conflict(found.and_then(|found| decoded(&found).ok()))))
    }

    async fn make_folder(&self) -> Result<()> {
        let folder = &*self.folder;
        let made = self.session.attempt(|link| async move { entries::make(&link, folder, Kind::Container).await });
        made.await?.map_err(|refusal| refusal.into_error(folder))
    }

    fn changing(&self) -> Outcome {
        let message = format!("too much happened at once to '{}' of '{}'", self.edit.key, self.fence.queue);
        Outcome::Refused(Error::new(ErrorKind::Unavailable, message))
    }
}

/// What follows an answer.
enum Next {
    Done(Outcome),
    Try(Change),
}
