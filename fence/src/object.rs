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
//! One line before the content, `tenure-fence 1 TOKEN RANDOM`, then the content. **Not** in the object's attributes: the etag of S3 is the
//! MD5 of the content alone, so a newer holder that wrote the same content again, or read it and only raised the attribute, would leave the
//! etag that an older holder's late write waits for. With the line, no two versions have the same etag.

use std::sync::Arc;

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
    /// Tells our write from others, when its answer was lost.
    random: String,
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
        let found = match self.store.get(&self.path).await {
            Ok(found) => found,
            Err(StoreError::NotFound { .. }) => {
                return Ok(Version { content: None, token: None, version: None, random: String::new() });
            }
            Err(error) => return Err(self.failed(error).into()),
        };
        let version = UpdateVersion { e_tag: found.meta.e_tag.clone(), version: found.meta.version.clone() };
        if version.e_tag.is_none() && version.version.is_none() {
            return Err(self.unsupported().into());
        }
        let all = found.bytes().await.map_err(|error| self.failed(error))?;
        let (seen, random, content) = Self::open(&all).ok_or_else(|| self.foreign())?;
        let content = Some(all.slice_ref(content));
        let seen = Version { content, token: Some(seen), version: Some(version), random: random.to_owned() };
        self.check(token, &seen)?;
        Ok(seen)
    }

    /// Replaces the version that was read. `None` if that is not the version any more, but no newer holder has written either: read again.
    /// The new version otherwise, for the next write.
    ///
    /// # Errors
    /// `Fenced` if a newer holder has written. `Unsupported` if the store has no conditional writes. Otherwise what the store says: after
    /// `Unavailable`, it may have been written.
    ///
    /// # Cancel safety
    /// It may be written or not; reading again tells.
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
        let random = random_hex();
        let all = Self::seal(token, &random, content.as_ref());
        let kept = all.slice(all.len() - content.as_ref().len()..);
        match self.send(all, mode).await {
            Ok(done) => {
                let version = Some(done.into());
                Ok(Some(Version { content: Some(kept), token: Some(token), version, random }))
            }
            Err(StoreError::Precondition { .. } | StoreError::AlreadyExists { .. }) => {
                // Or it is ours: the request was repeated, because the answer was lost.
                let now = self.read(token).await?;
                Ok((now.random == random).then_some(now))
            }
            Err(error) => Err(self.failed(error).into()),
        }
    }

    /// Replaces whatever older holders have written, without looking at it.
    ///
    /// # Errors
    /// As [`FencedObject::write`]; `Unavailable` if others write all the time.
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
        let none = "\"00000000000000000000000000000000\"".to_owned();
        let mode = PutMode::Update(UpdateVersion { e_tag: Some(none), version: Some("1".to_owned()) });
        match self.send(Bytes::from_static(b"tenure-fence 1 0 probe\n"), mode).await {
            Err(StoreError::Precondition { .. } | StoreError::NotFound { .. }) => Ok(()),
            Ok(_) => Err(self.unsupported().into()),
            Err(error) => Err(self.failed(error).into()),
        }
    }

    async fn send(&self, all: Bytes, mode: PutMode) -> Result<PutResult, StoreError> {
        self.store.put_opts(&self.path, PutPayload::from_bytes(all), PutOptions::from(mode)).await
    }

    fn seal(token: FencingToken, random: &str, content: &[u8]) -> Bytes {
        let mut all = BytesMut::from(format!("{}{token} {random}\n", Self::MAGIC).as_bytes());
        all.extend_from_slice(content);
        all.freeze()
    }

    fn open(all: &[u8]) -> Option<(FencingToken, &str, &[u8])> {
        let end = all.iter().position(|byte| *byte == b'\n')?;
        let line = std::str::from_utf8(&all[..end]).ok()?.strip_prefix(Self::MAGIC)?;
        let (token, random) = line.split_once(' ')?;
        Some((token.parse().ok()?, random, &all[end + 1..]))
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

    fn unsupported(&self) -> Error {
        let what = "has no conditional writes, without which there is no fence; use one that compares versions (for a file: FencedFile)";
        Error::new(ErrorKind::Unsupported, format!("{} {what}", self.store))
    }

    fn foreign(&self) -> Error {
        let what = "was not written through the fence: read it with the store itself, delete it, and write it through the fence";
        Error::new(ErrorKind::Config, format!("'{}' {what}", self.path))
    }
}
