//! Waiting without polling: until a datagram concerns us, the session that we wait for has to be looked at, or the regular look of the
//! process has found that something changed.

use std::{collections::HashSet, time::Duration};

use rusqlite::{Connection, OptionalExtension, params};
use tenure_core::{Clock, Moment, Result, Snapshot, Wake};
use tokio::time::{MissedTickBehavior, interval};

use crate::{
    error::Failure,
    keys::{QueueKey, token_of, unsigned},
    rows::{self, Standing},
    session::SqliteSession,
    store::Store,
    wake::{Mailbox, News, Waiters},
};

/// How long a change can go unseen whose datagram was lost, or came from another network namespace, or was made by hand.
const REGULAR_LOOK: Duration = Duration::from_millis(750);

/// Passes on what the mailbox gets, and looks regularly, once for all who wait, whether more has changed. Ends with the session.
pub(crate) async fn listen(store: Store, mailbox: Mailbox, waiters: Waiters) {
    let mut regular = interval(REGULAR_LOOK);
    regular.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            news = mailbox.read() => match news {
                Ok(news) => news.into_iter().for_each(|news| waiters.tell(news)),
                Err(error) => {
                    tracing::debug!(%error, "cannot hear wake-ups; looking regularly");
                    tokio::time::sleep(REGULAR_LOOK).await;
                }
            },
            _ = regular.tick() => {
                if waiters.are_none() {
                    continue;
                }
                match store.call(|ledger| ledger.revision()).await {
                    Ok(revision) => waiters.tell_revision(revision),
                    // They learn the reason by looking themselves.
                    Err(_) => waiters.tell(News::Anything),
                }
            }
        }
    }
}

/// What a waiter wants to know, and has seen.
#[derive(Clone, Debug)]
struct Question {
    queue: QueueKey,
    what: What,
}

#[derive(Clone, Debug)]
enum What {
    Gone(i64),
    /// These, the last of which is the one that stands behind the others.
    OneOf(Vec<i64>),
    Any {
        tokens: Vec<i64>,
        revision: u64,
    },
}

/// The answer to a [`Question`].
struct Look {
    is_answered: bool,
    revision: u64,
    /// When a session that is waited for will be over, unless it is extended.
    end: Option<Moment>,
    /// Whether those who remove what we wait for will tell us.
    is_told: bool,
}

impl Question {
    fn new(queue: QueueKey, seen: &Snapshot, wake: Wake<'_>) -> Result<Self> {
        let what = match wake {
            Wake::Gone(who) => What::Gone(token_of(who)?),
            Wake::Ahead(me) => {
                let ahead = seen.queue.iter().take_while(|contender| contender.id != me.id);
                What::OneOf(ahead.chain([me]).map(token_of).collect::<Result<_>>()?)
            }
            Wake::Any => {
                let tokens = seen.queue.iter().map(token_of).collect::<Result<_>>()?;
                What::Any { tokens, revision: seen.revision }
            }
        };
        Ok(Self { queue, what })
    }

    /// The news that concern it, beside those of a watch.
    fn news(&self) -> Vec<News> {
        match &self.what {
            What::Gone(token) => vec![News::Gone(*token)],
            What::OneOf(tokens) => tokens.iter().copied().map(News::Gone).collect(),
            What::Any { .. } => Vec::new(),
        }
    }

    fn ask(&self, at: &Connection, session: &str, clock: &Clock) -> Result<Look, Failure> {
        let only = if let What::Gone(token) = self.what { Some(token) } else { None };
        let standing = rows::standing(at, &self.queue, only)?;
        let revision = rows::revision(at)?;
        let end = self.concerning(&standing).map(|one| one.end.moment()).min_by_key(|end| clock.until(*end));
        Ok(Look {
            is_answered: self.is_answered(&standing),
            revision,
            end,
            is_told: self.is_told(at, session, &standing)?,
        })
    }

    fn is_answered(&self, standing: &[Standing]) -> bool {
        let now: Vec<_> = standing.iter().map(|one| one.token).collect();
        match &self.what {
            What::Gone(token) => !now.contains(token),
            What::OneOf(tokens) => {
                let now: HashSet<_> = now.into_iter().collect();
                tokens.iter().any(|token| !now.contains(token))
            }
            What::Any { tokens, revision } => {
                now != *tokens || standing.iter().any(|one| unsigned(one.changed) > *revision)
            }
        }
    }

    /// Those whose end would answer it.
    fn concerning<'a>(&self, standing: &'a [Standing]) -> impl Iterator<Item = &'a Standing> {
        let last = match &self.what {
            What::Gone(token) => *token,
            What::OneOf(tokens) => tokens.last().copied().unwrap_or(i64::MAX),
            What::Any { .. } => i64::MAX,
        };
        standing.iter().take_while(move |one| one.token <= last)
    }

    /// Those who stand behind an entry are told by whoever removes it, and those who wait for an entry of their own session by that.
    fn is_told(&self, at: &Connection, session: &str, standing: &[Standing]) -> Result<bool, Failure> {
        let is_mine = |token| standing.iter().any(|one| one.token == token && one.session == session);
        let first = match &self.what {
            What::Gone(token) if is_mine(*token) => return Ok(true),
            What::Gone(token) => *token,
            What::OneOf(tokens) => match tokens.last() {
                Some(me) if is_mine(*me) => return Ok(true),
                _ => return Ok(false),
            },
            What::Any { .. } => return Ok(false),
        };
        Ok(rows::is_behind(at, &self.queue, session, first)?)
    }
}

/// Waits until the question is answered.
pub(crate) async fn wait(session: &SqliteSession, queue: QueueKey, seen: &Snapshot, wake: Wake<'_>) -> Result<()> {
    let question = Question::new(queue.clone(), seen, wake)?;
    // Listening begins before the first look: what is told between the two is not missed.
    let waiter = session.waiters.join(question.news());
    let mut is_watching = false;
    loop {
        let (ask, clock) = (question.clone(), session.clock.clone());
        let look = session.look(move |at, id| ask.ask(at, id, &clock)).await?;
        if look.is_answered {
            return Ok(());
        }
        if !look.is_told && !is_watching {
            waiter.add(News::Watched(watch(session, queue.clone()).await?));
            is_watching = true;
            continue; // it may have changed before the watch stood
        }
        if look.end.is_some_and(|end| session.clock.has_passed(end)) {
            // Every change first removes the sessions that are over, and tells those who waited for that.
            session.change(|_, _| Ok(())).await?;
            continue;
        }
        waiter.has_seen(look.revision);
        let over = async {
            match look.end {
                Some(end) => session.clock.sleep_until(end).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = waiter.rung() => {}
            () = over => {} // or it was extended: look first
        }
    }
}

/// The watch of our session on a queue. It stands until the session ends, so that an observer who waits again and again writes once.
async fn watch(session: &SqliteSession, queue: QueueKey) -> Result<i64> {
    let find = |at: &Connection, queue: &QueueKey, id: &str| {
        at.prepare_cached("SELECT number FROM watches WHERE namespace = ? AND queue = ? AND session = ?")?
            .query_row(params![queue.namespace, queue.name.as_str(), id], |row| row.get::<_, i64>(0))
            .optional()
    };
    let key = queue.clone();
    if let Some(number) = session.look(move |at, id| Ok(find(at, &key, id)?)).await? {
        return Ok(number);
    }
    session
        .change(move |change, id| {
            if let Some(number) = find(&change.at, &queue, id)? {
                return Ok(number);
            }
            change
                .at
                .prepare_cached("INSERT INTO watches (session, namespace, queue) VALUES (?, ?, ?)")?
                .execute(params![id, queue.namespace, queue.name.as_str()])?;
            Ok(change.at.last_insert_rowid())
        })
        .await
}
