//! The holder's side of [`FencedStore`]: what an answer means, and one that never comes.

use tokio::time::Instant;

use super::{DataKey, Datum, Edit, EditId, Expect, Fence, FencedStore, Outcome, Stored, store};
use crate::{
    error::{Error, ErrorKind, Result},
    guard::LockGuard,
    keeper::{Keeper, Pause},
    queue::{ContenderId, MAX_VALUE, QueueName, Version},
    rule::Mode,
    token::FencingToken,
};

/// The data of a name, in the hands of who holds its lock. Made by [`LockGuard::fenced`].
///
/// Each write is checked by the coordination service in the transaction that makes it: once the lock has passed on, or its entry has gone for
/// any other reason, the write is refused, however long this process was paused before it was sent, and however long it was under way. So to
/// read through a guard, and then to write through the same guard, loses nobody's update. The limit is what was read before the lock was
/// granted: give its version to [`Fenced::put_if`].
///
/// Values have at most 64 KiB, keys obey the rules of names. Each request is given up after a third of the ttl, and none is repeated once a
/// ttl is over.
///
/// # Errors
/// All calls: `Config` for a key or value that cannot be, `SessionLost` once the guard is lost, without asking the service. The writing
/// ones:
/// * `Fenced`: the service has refused; the guard is lost from then on. [`Error::winner`] names the token of the present holder, or, if there is
///   none, of the later one that wrote this key last.
/// * `Unknown`: whether the write has happened is not known. Nothing of it happens after a later read or write of that key through this guard
///   has been answered, so a [`Fenced::get`] shows what came of it. If the guard is lost by now, nothing of it happens after the next grant.
/// * all others: the write has not happened, and will not.
///
/// # Cancel safety
/// Reading is cancel safe. A write that is dropped may or may not happen, as with `Unknown`.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
/// use tenure_core::{Coordinator, MemoryBackend, Options};
///
/// let coordinator = Coordinator::new(MemoryBackend::new(), Options::default())?;
/// let guard = coordinator.lock("invoices").await?;
/// let data = guard.fenced()?;
/// let sent = data.get("sent").await?;
/// let count: u64 = sent.map_or(0, |sent| String::from_utf8_lossy(&sent.value).parse().unwrap_or(0));
/// data.put("sent", (count + 1).to_string().as_bytes()).await?;
/// assert_eq!(coordinator.data("invoices")?.get("sent").await?.unwrap().value, b"1"); // anybody, without the lock
/// # Ok::<(), tenure_core::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Fenced<'a> {
    guard: &'a LockGuard,
}

impl LockGuard {
    /// The data of this name, which the service lets only its holder change.
    ///
    /// # Errors
    /// `Unsupported` if the backend has none: then hand the [token](LockGuard::token) to a resource that checks it.
    pub fn fenced(&self) -> Result<Fenced<'_>> {
        let data = Fenced { guard: self };
        data.store().map(|_| data)
    }
}

impl Fenced<'_> {
    /// What is stored, no older than the last write that was answered to anybody.
    ///
    /// # Errors
    /// See [`Fenced`].
    pub async fn get(&self, key: &str) -> Result<Option<Stored>> {
        self.get_at(&DataKey::new(key)?).await
    }

    /// As [`Fenced::get`].
    pub(crate) async fn get_at(&self, key: &DataKey) -> Result<Option<Stored>> {
        let store = self.store()?;
        self.guard.check()?;
        let found = self.keeper().call(|| store.get(self.guard.name(), key)).await?;
        Ok(found.map(|datum| datum.stored))
    }

    /// Writes, whatever was there. It is sent once: if the answer is lost, the error is `Unknown`.
    ///
    /// # Errors
    /// See [`Fenced`].
    pub async fn put(&self, key: &str, value: &[u8]) -> Result<Version> {
        let done = self.edit(&DataKey::new(key)?, Expect::Anything, Some(value)).await?;
        version_of(done, key)
    }

    /// Writes if it still has this version, or, with `None`, if it is not there; `Ok(None)` if it is not so, and nothing was written then. It is
    /// repeated after a lost answer, and takes effect once; what [`Fenced::get`] has returned can be given as
    /// `stored.map(|stored| stored.version)`.
    ///
    /// # Errors
    /// See [`Fenced`].
    pub async fn put_if(&self, key: &str, version: Option<Version>, value: &[u8]) -> Result<Option<Version>> {
        let expect = version.map_or(Expect::Absent, Expect::Version);
        match self.edit(&DataKey::new(key)?, expect, Some(value)).await? {
            None => Ok(None),
            done => version_of(done, key).map(Some),
        }
    }

    /// Deletes, whatever was there. As [`Fenced::put`], it is sent once.
    ///
    /// # Errors
    /// See [`Fenced`].
    pub async fn delete(&self, key: &str) -> Result<()> {
        self.edit(&DataKey::new(key)?, Expect::Anything, None).await.map(drop)
    }

    /// Deletes if it still has this version, and says whether it had. As [`Fenced::put_if`], it is repeated after a lost answer.
    ///
    /// # Errors
    /// See [`Fenced`].
    pub async fn delete_if(&self, key: &str, version: Version) -> Result<bool> {
        Ok(self.edit(&DataKey::new(key)?, Expect::Version(version), None).await?.is_some())
    }

    fn keeper(&self) -> &Keeper {
        self.guard.entry().keeper()
    }

    fn store(&self) -> Result<&dyn FencedStore> {
        store(self.keeper())
    }

    /// `None` if the datum is not as expected; else what was written, if it was no deletion.
    pub(crate) async fn edit(
        &self,
        key: &DataKey,
        expect: Expect,
        value: Option<&[u8]>,
    ) -> Result<Option<Option<Version>>> {
        let (id, store) = (EditId::random(), self.store()?);
        check_size(self.guard.name(), key, value.unwrap_or_default())?;
        let (edit, entry) = (Edit { key, expect, value, id: &id }, self.guard.entry());
        let fence = Fence { queue: entry.queue(), entry: entry.me(), token: entry.token(), raised: self.guard.token() };
        let (end, mut pause) = (Instant::now() + self.keeper().ttl(), Pause::new());
        let mut doubt = None;
        loop {
            if let Err(lost) = self.guard.check() {
                return Err(if doubt.is_some() { self.unknown(key, &lost) } else { lost });
            }
            let answer = self.keeper().once(store.edit(fence, edit)).await;
            let error = match answer {
                Ok(Outcome::Refused(error)) => error,
                Ok(outcome) => return self.judge(outcome, edit, doubt.as_ref()),
                Err(error) if is_certain(&error) => return Err(self.unless_in_doubt(key, error, doubt.as_ref())),
                Err(error) if expect == Expect::Anything => return Err(self.unknown(key, &error)),
                Err(error) => {
                    let again = Error::new(error.kind(), error.report());
                    doubt = Some(error);
                    again
                }
            };
            if !error.is_retryable() || Instant::now() >= end {
                return Err(self.unless_in_doubt(key, error, doubt.as_ref()));
            }
            pause.after(&error).await;
        }
    }

    /// What an answer means, if an earlier attempt may have taken effect: none of them can any more.
    fn judge(&self, outcome: Outcome, edit: Edit<'_>, doubt: Option<&Error>) -> Result<Option<Option<Version>>> {
        let is_fenced = matches!(outcome, Outcome::Fenced { .. });
        let (first, now) = match outcome {
            Outcome::Done(version) => return Ok(Some(version)),
            Outcome::Conflict(now) => (None, now),
            Outcome::Fenced { first, now } => (first, now),
            Outcome::Refused(error) => return Err(error),
        };
        let refusal = is_fenced.then(|| {
            self.guard.end_as_removed();
            self.refused(first, now.as_ref())
        });
        let Some(doubt) = doubt else { return refusal.map_or(Ok(None), Err) };
        match now {
            Some(now) if now.edit == *edit.id => Ok(Some(Some(now.stored.version))),
            // Versions are not used again: it was not touched.
            Some(now) if edit.expect == Expect::Version(now.stored.version) => refusal.map_or(Ok(None), Err),
            // Nobody but this guard's owner can have deleted it, and that is what was asked for.
            None if edit.value.is_none() && !is_fenced => Ok(Some(None)),
            _ => Err(self.unknown(edit.key, refusal.as_ref().unwrap_or(doubt))),
        }
    }

    fn refused(&self, first: Option<(ContenderId, FencingToken)>, now: Option<&Datum>) -> Error {
        let (name, token) = (self.guard.name(), self.guard.token());
        // Readers and permits have numbers too, but no tokens.
        let holder = first.filter(|(id, _)| id.mode().is_none_or(|mode| mode == Mode::Write));
        let base = token.get() - self.guard.entry().token().get();
        let holder = holder.and_then(|(_, token)| token.raised_by(base).ok());
        let wrote = now.map(|now| now.stored.token).filter(|wrote| *wrote > token);
        let why = match (holder, wrote) {
            (Some(holder), _) => format!("token {holder} is the first in its queue"),
            (None, Some(wrote)) => format!("its entry has gone, and token {wrote} has written since"),
            (None, None) => "its entry has gone".to_owned(),
        };
        let message = format!("the write to '{name}' with token {token} was refused: {why}");
        Error::new(ErrorKind::Fenced, message).with_winner(holder.or(wrote))
    }

    fn unless_in_doubt(&self, key: &DataKey, error: Error, doubt: Option<&Error>) -> Error {
        if doubt.is_some() { self.unknown(key, &error) } else { error }
    }

    fn unknown(&self, key: &DataKey, why: &Error) -> Error {
        let name = self.guard.name();
        let advice = match self.guard.check() {
            Ok(()) => "read it through the guard, which settles it",
            Err(_) => "the lock is lost too, so what its next holder reads is final",
        };
        let message = format!("whether '{key}' of '{name}' was changed is not known: {advice}");
        Error::new(ErrorKind::Unknown, message).with_source(why.report()).with_winner(why.winner())
    }
}

/// Whether an attempt that failed with this has not taken effect, and never will.
fn is_certain(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Config | ErrorKind::Denied | ErrorKind::Unsupported)
}

fn version_of(done: Option<Option<Version>>, key: &str) -> Result<Version> {
    done.flatten().ok_or_else(|| {
        Error::new(ErrorKind::Unexpected, format!("the backend did not tell which version of '{key}' it wrote"))
    })
}

fn check_size(queue: &QueueName, key: &DataKey, value: &[u8]) -> Result<()> {
    if value.len() <= MAX_VALUE {
        return Ok(());
    }
    let length = value.len();
    let message = format!("a value of {length} bytes for '{key}' of '{queue}' is too large: write at most {MAX_VALUE}");
    Err(Error::new(ErrorKind::Config, message))
}
