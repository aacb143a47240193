//! Object stores: memory, and a server that speaks the protocol of S3.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use object_store::{
    BackoffConfig, ClientOptions, ObjectStore, ObjectStoreExt, PutPayload, RetryConfig, aws::AmazonS3Builder,
    memory::InMemory, path::Path,
};
use tenure_conformance::{
    proxy::{Mode, Proxy},
    server::s3::S3,
};
use tenure_core::{Error, ErrorKind, FencingToken, async_trait};
use tenure_fence::{
    Refusal,
    object::{FencedObject, Version},
};

use crate::{
    crew::loses_nothing,
    lock::within,
    resource::{Client, Resource, State, Wrong, cut, provide, proxy, unknown, web},
};

mod answers;

struct Memory {
    store: Arc<InMemory>,
    fence: bool,
}

pub(crate) struct Bucket {
    server: S3,
    proxy: Proxy,
    fence: bool,
}

impl std::fmt::Debug for Bucket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "S3 at {}", self.server.address)
    }
}

impl std::fmt::Debug for Memory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Memory")
    }
}

struct Own {
    store: Arc<dyn ObjectStore>,
    object: FencedObject,
    fence: bool,
    seen: Option<Version>,
}

fn place() -> Path {
    Path::from("folder/state")
}

fn own(store: Arc<dyn ObjectStore>, fence: bool) -> Box<dyn Client> {
    Box::new(Own { object: FencedObject::new(store.clone(), place()), store, fence, seen: None })
}

pub(crate) fn memory(fence: bool) -> Arc<dyn Resource> {
    Arc::new(Memory { store: Arc::new(InMemory::new()), fence })
}

pub(crate) async fn bucket(fence: bool) -> Bucket {
    let server = S3::start().await;
    let made = web()
        .build()
        .expect("a client")
        .put(format!("http://{}/bucket", server.address))
        .send()
        .await
        .expect("it answers");
    assert!(made.status().is_success(), "{made:?}");
    Bucket { proxy: proxy(server.address).await, server, fence }
}

impl Bucket {
    fn store(&self) -> Arc<dyn ObjectStore> {
        self.store_at(self.proxy.address())
    }

    fn store_at(&self, address: SocketAddr) -> Arc<dyn ObjectStore> {
        Arc::new(self.builder(address).build().expect("good settings"))
    }

    fn builder(&self, address: SocketAddr) -> AmazonS3Builder {
        provide();
        let options = ClientOptions::new().with_allow_http(true).with_timeout(Duration::from_secs(2));
        let retry = RetryConfig {
            max_retries: 100,
            backoff: BackoffConfig { init_backoff: Duration::from_millis(20), ..BackoffConfig::default() },
            retry_timeout: Duration::from_secs(10),
        };
        let builder = AmazonS3Builder::new().with_endpoint(format!("http://{address}"));
        let builder = builder.with_client_options(options).with_retry(retry).with_bucket_name("bucket");
        builder.with_access_key_id("any").with_secret_access_key("any").with_region("us-east-1")
    }
}

#[async_trait]
impl Resource for Memory {
    async fn client(&self) -> Result<Box<dyn Client>, String> {
        Ok(own(self.store.clone(), self.fence))
    }

    fn cut(&self, _: bool) {}
}

#[async_trait]
impl Resource for Bucket {
    async fn client(&self) -> Result<Box<dyn Client>, String> {
        Ok(own(self.store(), self.fence))
    }

    fn cut(&self, cut: bool) {
        self::cut(&self.proxy, cut);
    }
}

#[async_trait]
impl Client for Own {
    async fn read(&mut self, token: FencingToken) -> Result<State, Wrong> {
        let content = if self.fence {
            let seen = self.object.read(token).await.map_err(wrong)?;
            self.seen.insert(seen).content.clone()
        } else {
            match self.store.get(&place()).await {
                Err(object_store::Error::NotFound { .. }) => None,
                found => Some(found.map_err(unknown)?.bytes().await.map_err(unknown)?),
            }
        };
        Ok(content.map(State::parse).unwrap_or_default())
    }

    async fn write(&mut self, token: FencingToken, state: &State) -> Result<(), Wrong> {
        if !self.fence {
            return self.store.put(&place(), PutPayload::from(state.text())).await.map(drop).map_err(unknown);
        }
        let seen = self.seen.as_ref().expect("it has read");
        match self.object.write(token, seen, state.text()).await.map_err(wrong)? {
            Some(written) => {
                self.seen = Some(written);
                Ok(())
            }
            None => Err(Wrong::Changed),
        }
    }
}

fn wrong(refusal: Refusal<Error>) -> Wrong {
    match refusal {
        Refusal::Fenced(fenced) => Wrong::Fenced(fenced),
        Refusal::Failed(error) => Wrong::Unknown(error.report()),
    }
}

const OLD: FencingToken = FencingToken::new(7);
const NEW: FencingToken = FencingToken::new(8);

#[tokio::test(flavor = "multi_thread")]
async fn eight_workers_lose_nothing_in_objects_in_memory() {
    loses_nothing(memory(true)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn eight_workers_lose_nothing_in_objects_in_s3() {
    loses_nothing(Arc::new(bucket(true).await)).await;
}

/// The etag of S3 is that of the content: equal bytes by a newer holder must be another version nevertheless.
#[tokio::test(flavor = "multi_thread")]
async fn the_same_content_from_a_newer_holder_is_another_version() {
    let bucket = bucket(true).await;
    for store in [bucket.store(), Arc::new(InMemory::new())] {
        let object = FencedObject::new(store, place());
        object.put(OLD, "same").await.expect("the first");
        let seen = object.read(OLD).await.expect("the same holder");
        object.put(NEW, "same").await.expect("a newer one");
        let late = object.write(OLD, &seen, "late").await.expect_err("too old");
        assert_eq!(late.fenced().expect("by the fence").winner, NEW);
        assert_eq!(object.read(NEW).await.expect("the newest").content.expect("it is there"), "same");
        // Written back to what it was, by one holder: a version of its own too.
        let seen = object.read(NEW).await.expect("the newest");
        object.put(NEW, "other").await.expect("the newest");
        object.put(NEW, "same").await.expect("the newest");
        assert!(object.write(NEW, &seen, "late").await.expect("the same holder").is_none());
    }
}

/// A request that is repeated because its answer was lost finds its own write, and is not told that somebody else was faster.
#[tokio::test(flavor = "multi_thread")]
async fn a_write_whose_answer_was_lost_is_known_again() {
    let bucket = bucket(true).await;
    let object = FencedObject::new(bucket.store(), place());
    let seen = object.put(OLD, "1").await.expect("the first");
    bucket.proxy.set(Mode::DropReplies);
    let other = object.clone();
    let written = tokio::spawn(async move { other.write(OLD, &seen, "2").await });
    tokio::time::sleep(Duration::from_millis(1000)).await;
    bucket.proxy.set(Mode::Cut);
    tokio::time::sleep(Duration::from_millis(20)).await;
    bucket.proxy.set(Mode::Pass);
    let written = within(written).await.expect("no panic").expect("it is done").expect("and known for ours");
    assert_eq!(written.content.expect("content"), "2");
    assert_eq!(object.read(OLD).await.expect("the same holder").content.expect("it is there"), "2");
}

#[tokio::test]
async fn an_object_that_went_round_the_fence_is_not_taken_for_a_fenced_one() {
    let store = Arc::new(InMemory::new());
    store.put(&place(), PutPayload::from("plain")).await.expect("it is memory");
    let object = FencedObject::new(store, place());
    let Err(Refusal::Failed(error)) = object.read(OLD).await else { panic!("who wrote it?") };
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
}
