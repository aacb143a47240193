//! What a write is told that was asked for twice, and stores that are no fence.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::Duration,
};

use bytes::Bytes;
use futures_util::stream::BoxStream;
use object_store::{
    CopyOptions, Error as Broken, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    ObjectStoreExt, PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result as Answer,
    aws::S3ConditionalPut, local::LocalFileSystem, memory::InMemory, path::Path,
};
use tenure_conformance::{proxy::Mode, server::until};
use tenure_core::{Error, ErrorKind, FencingToken, async_trait};
use tenure_fence::{
    Refusal,
    object::{FencedObject, Version},
};

use super::{NEW, OLD, bucket, place};
use crate::lock::within;

/// What becomes of a put.
#[derive(Clone, Copy, Debug)]
enum Way {
    /// Its condition is not looked at.
    Unconditional,
    /// Once it is armed: it arrives or not, then others write so often with that token (or delete the object, if never), and then it is
    /// sent again because no answer has come.
    Twice { arrives: bool, others: usize, token: FencingToken },
}

/// A store in memory whose puts go that way.
#[derive(Debug)]
struct Odd {
    inner: Arc<InMemory>,
    way: Way,
    armed: AtomicBool,
    /// The second answer is lost too, and then the client gives up.
    gives_up: bool,
}

impl Odd {
    fn new(way: Way) -> Arc<Self> {
        Self::that(way, false)
    }

    fn that(way: Way, gives_up: bool) -> Arc<Self> {
        Arc::new(Self { inner: Arc::default(), way, armed: AtomicBool::new(false), gives_up })
    }

    async fn others_write(&self, others: usize, token: FencingToken) {
        let object = FencedObject::new(self.inner.clone(), place());
        for _ in 0..others {
            object.put(token, "others").await.expect("it is memory");
        }
        if others == 0 {
            self.inner.delete(&place()).await.expect("it is memory");
        }
    }
}

impl fmt::Display for Odd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an odd store")
    }
}

#[async_trait]
impl ObjectStore for Odd {
    async fn put_opts(&self, at: &Path, payload: PutPayload, options: PutOptions) -> Answer<PutResult> {
        match self.way {
            Way::Unconditional => self.inner.put_opts(at, payload, PutMode::Overwrite.into()).await,
            Way::Twice { arrives, others, token }
                if Bytes::from(payload.clone()).ends_with(b"mine") && self.armed.swap(false, SeqCst) =>
            {
                if arrives {
                    self.inner.put_opts(at, payload.clone(), options.clone()).await?;
                }
                self.others_write(others, token).await;
                let answer = self.inner.put_opts(at, payload, options).await;
                if self.gives_up { Err(Broken::Generic { store: "odd", source: "silence".into() }) } else { answer }
            }
            Way::Twice { .. } => self.inner.put_opts(at, payload, options).await,
        }
    }

    async fn put_multipart_opts(&self, at: &Path, options: PutMultipartOptions) -> Answer<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(at, options).await
    }

    async fn get_opts(&self, at: &Path, options: GetOptions) -> Answer<GetResult> {
        self.inner.get_opts(at, options).await
    }

    fn delete_stream(&self, all: BoxStream<'static, Answer<Path>>) -> BoxStream<'static, Answer<Path>> {
        self.inner.delete_stream(all)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Answer<ObjectMeta>> {
        self.inner.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Answer<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Answer<()> {
        self.inner.copy_opts(from, to, options).await
    }
}

async fn content(object: &FencedObject) -> Option<String> {
    let content = object.read(NEW).await.expect("the newest").content;
    content.map(|content| String::from_utf8_lossy(&content).into_owned())
}

/// A write that goes that way, on what was read: an object, or that there is none.
async fn twice([there, gives_up]: [bool; 2], way: Way) -> (Result<Option<Version>, Refusal<Error>>, FencedObject) {
    let store = Odd::that(way, gives_up);
    let object = FencedObject::new(store.clone(), place());
    if there {
        object.put(OLD, "first").await.expect("nobody else");
    }
    let seen = object.read(OLD).await.expect("the same holder");
    store.armed.store(true, SeqCst);
    (object.write(OLD, &seen, "mine").await, object)
}

const ALL: [[bool; 2]; 4] = [[true, true], [true, false], [false, true], [false, false]];
const SOME: [(FencingToken, usize); 4] = [(OLD, 1), (NEW, 1), (OLD, 14), (NEW, 14)];

#[tokio::test]
async fn who_has_written_is_told_so_though_others_have_written_since() {
    for (how, (token, others)) in ALL.into_iter().flat_map(|how| SOME.map(|others| (how, others))) {
        let (answer, object) = twice(how, Way::Twice { arrives: true, others, token }).await;
        let mine = answer.unwrap_or_else(|error| panic!("{token} {others}: {error}")).expect("it was written");
        assert_eq!((mine.token, mine.content.as_deref()), (Some(OLD), Some(&b"mine"[..])), "{token} {others}");
        // And it is not there any more.
        match object.write(OLD, &mine, "again").await {
            Ok(None) => assert_eq!(token, OLD),
            Err(Refusal::Fenced(fenced)) => assert_eq!((fenced.winner, token), (NEW, NEW)),
            other => panic!("{token} {others}: {other:?}"),
        }
        assert_eq!(content(&object).await.as_deref(), Some("others"), "{token} {others}");
    }
}

#[tokio::test]
async fn who_has_not_written_is_told_so_and_who_cannot_know_is_told_that() {
    for (how, (token, others)) in ALL.into_iter().flat_map(|how| SOME.map(|others| (how, others))) {
        match twice(how, Way::Twice { arrives: false, others, token }).await.0 {
            Ok(None) => assert_eq!(token, OLD, "{others}"),
            Err(Refusal::Fenced(fenced)) => assert_eq!((fenced.winner, token), (NEW, NEW), "{others}"),
            other => panic!("{token} {others}: {other:?}"),
        }
    }
    for [arrives, gives_up] in ALL {
        for (token, others) in [(OLD, 0), (OLD, 20), (NEW, 20)] {
            let (answer, _) = twice([true, gives_up], Way::Twice { arrives, others, token }).await;
            let Err(Refusal::Failed(error)) = answer else { panic!("{token} {others}: {answer:?}") };
            assert_eq!(error.kind(), ErrorKind::Unknown, "{token} {others}: {}", error.report());
        }
    }
}

/// To put is to write whatever was there: once, and not again over what came after.
#[tokio::test]
async fn a_put_that_has_arrived_is_not_put_again_over_what_came_after() {
    let store = Odd::new(Way::Twice { arrives: true, others: 1, token: OLD });
    let object = FencedObject::new(store.clone(), place());
    object.put(OLD, "first").await.expect("nobody else");
    store.armed.store(true, SeqCst);
    object.put(OLD, "mine").await.expect("it was written");
    assert_eq!(content(&object).await.as_deref(), Some("others"));
}

/// The client of S3 repeats requests by itself, and says nothing of it.
#[tokio::test(flavor = "multi_thread")]
async fn a_write_that_s3_has_answered_to_nobody_is_known_though_others_have_written_since() {
    let bucket = bucket(true).await;
    let (near, object) = (bucket.store_at(bucket.server.address), FencedObject::new(bucket.store(), place()));
    let near = FencedObject::new(near, place());
    let seen = object.put(OLD, "1").await.expect("the first");
    bucket.proxy.set(Mode::DropReplies);
    let written = tokio::spawn(async move { object.write(OLD, &seen, "2").await });
    let arrived = async || content(&near).await.as_deref() == Some("2");
    assert!(until(Duration::from_secs(10), arrived).await, "it never arrives");
    near.put(NEW, "3").await.expect("the newest");
    bucket.proxy.set(Mode::Cut);
    tokio::time::sleep(Duration::from_millis(20)).await;
    bucket.proxy.set(Mode::Pass);
    let written = within(written).await.expect("no panic").expect("it was done").expect("and known for ours");
    assert_eq!(written.content.expect("content"), "2");
    assert_eq!(content(&near).await.as_deref(), Some("3"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_without_conditional_writes_is_refused_before_the_first_write() {
    let folder = tempfile::tempdir().expect("a folder");
    let bucket = bucket(true).await;
    let disabled = bucket.builder(bucket.server.address).with_conditional_put(S3ConditionalPut::Disabled);
    let stores: [Arc<dyn ObjectStore>; 3] = [
        Arc::new(LocalFileSystem::new_with_prefix(folder.path()).expect("a store")),
        Arc::new(disabled.build().expect("good settings")),
        Odd::new(Way::Unconditional),
    ];
    for store in stores {
        let object = FencedObject::new(store.clone(), place());
        for time in ["at first", "and again"] {
            let Err(Refusal::Failed(error)) = object.put(OLD, "1").await else { panic!("{store} is no fence, {time}") };
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{store}, {time}: {error}");
            let there = store.get(&place()).await;
            assert!(matches!(there, Err(object_store::Error::NotFound { .. })), "{store}, {time}: {there:?}");
        }
    }
}

/// What asks whether a store compares was not deleted again.
#[tokio::test]
async fn what_was_to_show_that_a_store_is_no_fence_is_not_taken_for_a_fenced_object() {
    let store = Arc::new(InMemory::new());
    store.put(&place(), PutPayload::from("tenure-fence 1 0 0\n")).await.expect("it is memory");
    let Err(Refusal::Failed(error)) = FencedObject::new(store, place()).put(OLD, "1").await else { panic!("no fence") };
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
}
