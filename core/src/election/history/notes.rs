//! What notes the terms of a leader.

use std::time::Duration;

use tokio::{sync::oneshot, time::timeout};

use super::{TermNote, TermRecord, key, now, short, terms, with};
use crate::{
    election::leadership::Office,
    error::{Error, ErrorKind, Result},
    fenced::{Edit, EditId, Expect, Outcome, store},
    holder::Holder,
};

/// How long a resignation waits until the end of the term is noted.
const PATIENCE: Duration = Duration::from_millis(500);

/// What notes a term. Dropped without a word, it notes no end.
#[derive(Debug)]
pub(crate) struct Notes(oneshot::Sender<(String, oneshot::Sender<()>)>);

impl Notes {
    /// Notes the beginning from now on, and the end once it is told.
    pub(crate) fn begin(office: Office, value: &[u8]) -> Self {
        let (told, ending) = oneshot::channel::<(String, oneshot::Sender<()>)>();
        let Holder { host, pid, .. } = Holder::this_process(None);
        let term = TermRecord { token: office.token(), value: short(value), host, pid, began: now(), end: None };
        let keeper = office.keeper().clone();
        keeper.spawn(async move {
            let writer = Writer { office, term };
            let mut ending = ending;
            let ended = tokio::select! {
                biased;
                () = writer.note(None) => ending.await,
                ended = &mut ending => ended, // then both are noted at once
            };
            let Ok((why, noted)) = ended else { return };
            writer.note(Some(TermNote::Noted { why, at: now() })).await;
            let _ = noted.send(());
        });
        Self(told)
    }

    /// Notes the end, and waits for that, but not for long.
    pub(crate) async fn end(self, why: String) {
        let (noted, done) = oneshot::channel();
        if self.0.send((why, noted)).is_ok() {
            let _ = timeout(PATIENCE, done).await;
        }
    }
}

struct Writer {
    office: Office,
    term: TermRecord,
}

impl Writer {
    /// One try, whatever comes of it; a second one if somebody was faster, who can only be a task of our own that was given up.
    async fn note(&self, end: Option<TermNote>) {
        for _ in 0..2 {
            match self.try_to_note(end.clone()).await {
                Ok(true) => return,
                Ok(false) => {}
                Err(error) => return self.tell(&error),
            }
        }
    }

    fn tell(&self, error: &Error) {
        tracing::debug!(token = %self.term.token, error = error.report(), "the term was not noted in the history");
    }

    async fn try_to_note(&self, end: Option<TermNote>) -> Result<bool> {
        let (keeper, key, id) = (self.office.keeper(), key(), EditId::random());
        let store = store(keeper)?;
        let fence = self.office.fence();
        let found = keeper.once(store.get(fence.queue, &key)).await?.map(|datum| datum.stored);
        let before = found.as_ref().and_then(|found| terms(found).ok()).unwrap_or_default();
        let value = with(before, TermRecord { end, ..self.term.clone() });
        let expect = found.map_or(Expect::Absent, |found| Expect::Version(found.version));
        let edit = Edit { key: &key, expect, value: Some(&value), id: &id };
        match keeper.once(store.edit(fence, edit)).await? {
            Outcome::Done(_) => Ok(true),
            Outcome::Conflict(_) => Ok(false),
            Outcome::Refused(error) => Err(error),
            Outcome::Fenced { .. } => Err(Error::new(ErrorKind::Fenced, "the leadership was lost before")),
        }
    }
}
