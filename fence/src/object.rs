//! Objects in a store with conditional writes, through the crate `object_store`: S3 and what speaks its protocol, Google Cloud Storage,
//! Azure, memory.
//!
//! A write succeeds only on the version that was read, and only with a token that is not lower than the one in the object: no update is
//! lost, and the tokens in the object never fall. The limits: an older holder's write may still succeed **until the newer one has written**,
//! whose write then returns `None` and has to read again; what is written round this fence is not protected; and a deleted object
//! has forgotten its token, so write an empty one instead. Objects are written in one request: keep large data under a new name for each
//! version, and the name in a fenced object.
//!
//! # In the store
//! One line before the content, `tenure-fence 1 TOKEN RANDOM BEFORE ..`, then the content; `BEFORE` are the random numbers of the versions
//! that it came after, the latest first: whoever is told "not that version any more" sees there whether its own write was one of them. **Not** in the object's attributes: the etag of S3 is the
//! MD5 of the content alone, so a newer holder that wrote the same content again, or read it and only raised the attribute, would leave the
//! etag that an older holder's late write waits for. With the line, no two versions have the same etag.

use std::{iter, sync::Arc};

use bytes::{Bytes, BytesMut};
use object_store::{
    Error as StoreError, ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutPayload, PutResult, UpdateVersion,
    path::Path,
};
use tenure_core::{Error, ErrorKind, FencingToken, random_hex};

use crate::{Fenced, Refusal};

/// An object behind a fence.
#[derive(Clone, Debug)]
pub struct FencedObject {
    store: Arc<dyn ObjectStore>,
    path: Path,
}

/// A version of an object: what a write is based on.
#[derive(Clone, Debug)]
pub struct Version {
    /// The content; `None` if there was no object.
    pub content: Option<Bytes>,
    /// The token that it was written with.
    pub token: Option<FencingToken>,
    version: Option<UpdateVersion>,
    line: Line,
}

/// Random numbers, this version's first, then those it came after. Tells our write from others, when its answer was lost.
#[derive(Clone, Debug)]
struct Line(Vec<String>);

impl Line {
    /// More writes than come between a request and its repeats.
    const KEPT: usize = 16;

    /// That of no object.
    fn none() -> Self {
        Self(vec!["0".to_owned()])
    }

    fn next(&self) -> Self {
        Self(iter::once(random_hex()).chain(self.0.iter().cloned()).take(Self::KEPT).collect())
    }

    /// Whether a write that was to be `next` is part of this line: it cannot become part of it any more, since what it replaces is gone.
    /// `None` if that cannot be seen.
    fn has(&self, next: &Self) -> Option<bool> {
        let at = |random: &String| self.0.iter().position(|one| one == random);
        match (at(&next.0[0]), at(&next.0[1])) {
            (Some(_), _) => Some(true),
            // What it was to replace is still there: it may come yet.
            (None, Some(0)) | (None, None) => None,
            (None, Some(_)) => Some(false),
        }
    }
}

impl FencedObject {
    const MAGIC: &str = "tenure-fence 1 ";

    /// The object at this path; it need not exist.
    pub fn new(store: Arc<dyn ObjectStore>, path: Path) -> Self {
        Self { store, path }
    }

    /// The object as it is now. It does not raise the fence: [`FencedObject::write`] compares the version.
    ///
    /// # Errors
    /// `Fenced` if a newer holder has written it. `Config` if it was written round the fence, `Unsupported` if the store gives no versions,
    /// else what the store says.
    pub async fn read(&self, token: FencingToken) -> Result<Version, Refusal<Error>> {
        let seen = self.look().await?;
        self.check(token, &seen)?;
        Ok(seen)
    }

    async fn look(&self) -> Result<Version, Error> {
        let found = match self.store.get(&self.path).await {
            Ok(found) => found,
            Err(StoreError::NotFound { .. }) => {
                return Ok(Version { content: None, token: None, version: None, line: Line::none() });
            }
            Err(error) => return Err(self.failed(error)),
        };
        let version = UpdateVersion { e_tag: found.meta.e_tag.clone(), version: found.meta.version.clone() };
        if version.e_tag.is_none() && version.version.is_none() {
            return Err(self.unsupported());
        }
        let all = found.bytes().await.map_err(|error| self.failed(error))?;
        let (token, line, content) = Self::open(&all).ok_or_else(|| self.foreign())?;
        if line.0 == Line::none().0 {
            return Err(self.unsupported()); // what was to find that out could not be deleted
        }
        Ok(Version { content: Some(all.slice_ref(content)), token: Some(token), version: Some(version), line })
    }

    /// Replaces the version that was read. `None` if that is not the version any more, but no newer holder has written either: read again.
    /// The new version otherwise, for the next write; also if others have replaced that since, which the next write will tell.
    ///
    /// # Errors
    /// `Fenced` if a newer holder has written, and this was not. `Unsupported` if the store has no conditional writes. `Unknown` if it may have
    /// been written: the store has not answered, or it was asked twice, and what is there now does not tell whether the first time counted
    /// (the object was deleted, or replaced very often). Otherwise what the store says, and then it was not written.
    ///
    /// # Cancel safety
    /// It may be written or not.
    pub async fn write(
        &self,
        token: FencingToken,
        seen: &Version,
        content: impl AsRef<[u8]>,
    ) -> Result<Option<Version>, Refusal<Error>> {
        self.check(token, seen)?;
        let mode = match &seen.version {
            Some(version) => PutMode::Update(version.clone()),
            None => {
                self.must_compare().await?;
                PutMode::Create
            }
        };
        let line = seen.line.next();
        let all = Self::seal(token, &line, content.as_ref());
        let content = Some(all.slice(all.len() - content.as_ref().len()..));
        let done = |version| Version { content, token: Some(token), version: Some(version), line: line.clone() };
        let error = match self.send(all, mode).await {
            Ok(written) => return Ok(Some(done(written.into()))),
            Err(error) => error,
        };
        let has_no_place = matches!(error, StoreError::NotFound { .. }) && seen.version.is_none();
        let error = self.failed(error);
        if has_no_place || matches!(error.kind(), ErrorKind::Unsupported | ErrorKind::Denied) {
            return Err(error.into());
        }
        // Or it is ours: the client repeats requests whose answers were lost, and fails with the last answer.
        let now = self.look().await.map_err(|failed| self.unknown(failed))?;
        match now.line.has(&line) {
            Some(true) if now.line.0[0] == line.0[0] => Ok(Some(now)),
            Some(true) => Ok(Some(done(no_version()))),
            Some(false) => self.check(token, &now).map(|()| None),
            None => Err(self.unknown(error).into()),
        }
    }

    /// Replaces whatever is there, without looking at it. Other tasks of the same holder may write beside it; whose content is the last one
    /// is open then.
    ///
    /// # Errors
    /// As [`FencedObject::write`]; `Unavailable` if it was not written, because others write all the time.
    ///
    /// # Cancel safety
    /// As [`FencedObject::write`].
    pub async fn put(&self, token: FencingToken, content: impl AsRef<[u8]>) -> Result<Version, Refusal<Error>> {
        const TRIES: usize = 20;
        for _ in 0..TRIES {
            let seen = self.read(token).await?;
            if let Some(done) = self.write(token, &seen, content.as_ref()).await? {
                return Ok(done);
            }
        }
        let what =
            format!("'{}' changed {TRIES} times while it was written: let one task at a time write it", self.path);
        Err(Error::new(ErrorKind::Unavailable, what).into())
    }

    /// Before the first write: some stores can create on condition, and not replace on condition; some take every condition for met. The
    /// version in this question is none that was ever given.
    async fn must_compare(&self) -> Result<(), Refusal<Error>> {
        let probe = Self::seal(FencingToken::new(0), &Line::none(), b"");
        match self.send(probe, PutMode::Update(no_version())).await {
            Err(StoreError::Precondition { .. } | StoreError::NotFound { .. }) => Ok(()),
            Ok(_) => {
                // Or the next one would take it for an object behind a fence.
                self.store.delete(&self.path).await.map_err(|error| self.unsupported().with_source(error))?;
                Err(self.unsupported().into())
            }
            Err(error) => Err(self.failed(error).into()),
        }
    }

    async fn send(&self, all: Bytes, mode: PutMode) -> Result<PutResult, StoreError> {
        self.store.put_opts(&self.path, PutPayload::from_bytes(all), PutOptions::from(mode)).await
    }

    fn seal(token: FencingToken, line: &Line, content: &[u8]) -> Bytes {
        let mut all = BytesMut::from(format!("{}{token} {}\n", Self::MAGIC, line.0.join(" ")).as_bytes());
        all.extend_from_slice(content);
        all.freeze()
    }

    fn open(all: &[u8]) -> Option<(FencingToken, Line, &[u8])> {
        let end = all.iter().position(|byte| *byte == b'\n')?;
        let head = std::str::from_utf8(&all[..end]).ok()?.strip_prefix(Self::MAGIC)?;
        let (token, line) = head.split_once(' ')?;
        Some((token.parse().ok()?, Line(line.split(' ').map(str::to_owned).collect()), &all[end + 1..]))
    }

    fn check(&self, token: FencingToken, seen: &Version) -> Result<(), Refusal<Error>> {
        match seen.token {
            Some(winner) if winner > token => {
                Err(Refusal::Fenced(Fenced { resource: self.path.to_string(), token, winner }))
            }
            _ => Ok(()),
        }
    }

    fn failed(&self, error: StoreError) -> Error {
        let kind = match error {
            StoreError::NotImplemented { .. } | StoreError::NotSupported { .. } => {
                return self.unsupported().with_source(error);
            }
            StoreError::PermissionDenied { .. } | StoreError::Unauthenticated { .. } => ErrorKind::Denied,
            _ => ErrorKind::Unavailable,
        };
        Error::new(kind, format!("cannot get at '{}' in {}", self.path, self.store)).with_source(error)
    }

    fn unknown(&self, why: Error) -> Error {
        let what = format!("whether '{}' was written is not known: read it again, and see what is in it", self.path);
        Error::new(ErrorKind::Unknown, what).with_source(why)
    }

    fn unsupported(&self) -> Error {
        let what = "has no conditional writes, without which there is no fence; use one that compares versions (for a file: FencedFile)";
        Error::new(ErrorKind::Unsupported, format!("{} {what}", self.store))
    }

    fn foreign(&self) -> Error {
        let what = "was not written through the fence: read it with the store itself, delete it, and write it through the fence";
        Error::new(ErrorKind::Config, format!("'{}' {what}", self.path))
    }
}

/// What no store has ever given.
fn no_version() -> UpdateVersion {
    let none = "\"00000000000000000000000000000000\"".to_owned();
    UpdateVersion { e_tag: Some(none), version: Some("1".to_owned()) }
}
