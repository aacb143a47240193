//! The case that fences are for: a holder is paused between its read and its write, loses the lock, and writes.

use std::{
    sync::{Arc, mpsc},
    thread,
};

use tenure_conformance::server::Place;
use tenure_core::FencingToken;
use tokio::sync::oneshot;

use crate::{
    file::files,
    http::service,
    lock::{coordinator, within},
    objects::{bucket, memory},
    postgres::row,
    resource::{Resource, State, Wrong},
};

/// When the late write arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    /// After the newer holder's write, which it would overwrite.
    After,
    /// Between the newer holder's read and its write, which would overwrite it.
    Between,
}

/// One of every kind, behind its fence or not. A new one is a line here.
async fn resources(fence: bool) -> Vec<Arc<dyn Resource>> {
    vec![
        files(fence),
        service(fence).await,
        memory(fence),
        Arc::new(bucket(fence).await),
        Arc::new(row(fence, false).await),
        Arc::new(row(fence, true).await),
    ]
}

/// Whatever keeps the lock; the resources are moved from one to the next, so each goes on above the tokens of the one before.
#[tokio::test(flavor = "multi_thread")]
async fn a_paused_holder_is_refused_by_every_resource_and_without_a_fence_an_update_is_lost() {
    let (fenced, open) = (resources(true).await, resources(false).await);
    let mut base = 0;
    for place in Place::shared().await {
        for (number, when) in [When::After, When::Between].into_iter().enumerate() {
            let start = |resources: &[Arc<dyn Resource>], kind: &str| -> Vec<_> {
                let url = |at: usize| place.url(&format!("ttl=2s&namespace={kind}-{number}-{at}&token_base={base}"));
                let all = resources.iter().enumerate();
                all.map(|(at, resource)| tokio::spawn(run(resource.clone(), url(at), when))).collect()
            };
            let (runs, lost) = (start(&fenced, "fenced"), start(&open, "open"));
            for run in runs {
                let run = run.await.expect("no panic");
                let Run { resource, old, new, late, .. } = &run;
                println!("{:8} {when:?} {resource}: token {old}, succeeded by {new}: {late:?}", place.label);
                base = base.max(run.new.get());
                nothing_is_lost(&run, when);
            }
            for run in lost {
                let run = run.await.expect("no panic");
                base = base.max(run.new.get());
                assert_eq!((run.accepted, run.counted), (2, 1), "it must be lost, {when:?}: {run:?}");
            }
        }
    }
}

fn nothing_is_lost(run: &Run, when: When) {
    assert_eq!(run.counted, run.accepted, "{when:?}: {run:?}");
    assert_eq!(run.last.fell, 0, "{when:?}: {run:?}");
    if when == When::After {
        let Err(Wrong::Fenced(fenced)) = &run.late else { panic!("not refused: {run:?}") };
        assert_eq!((fenced.token, fenced.winner), (run.old, run.new));
    }
}

#[derive(Debug)]
struct Run {
    resource: String,
    old: FencingToken,
    new: FencingToken,
    late: Result<(), Wrong>,
    /// Writes, the late one included if the resource took it.
    accepted: u64,
    /// Writes that are still there.
    counted: u64,
    last: State,
}

async fn run(resource: Arc<dyn Resource>, url: String, when: When) -> Run {
    let (told, tells) = oneshot::channel();
    let mut older = Older::start(resource.clone(), url.clone(), told);
    let (old, first) = within(tells).await.expect("it was granted");

    let guard = within(coordinator(&url).await.lock("resource")).await.expect("granted");
    let new = guard.token();
    assert!(new > old);
    let mut client = resource.client().await.expect("it connects");
    let state = client.read(new).await.expect("the newest holder");
    let late = if when == When::After {
        client.write(new, &state.after(1, new)).await.expect("the newest holder");
        older.go_on().await
    } else {
        let late = older.go_on().await;
        if let Err(Wrong::Changed) = client.write(new, &state.after(1, new)).await {
            let state = client.read(new).await.expect("the newest holder");
            client.write(new, &state.after(1, new)).await.expect("nobody else is there");
        }
        late
    };
    let last = client.read(new).await.expect("the newest holder");
    let (accepted, counted) = (1 + u64::from(late.is_ok()), last.count - first);
    Run { resource: format!("{resource:?}"), old, new, late, accepted, counted, last }
}

/// The holder that is paused: a thread and a runtime of its own, which stands still as a whole.
struct Older {
    go_on: mpsc::Sender<()>,
    thread: Option<thread::JoinHandle<Result<(), Wrong>>>,
}

impl Older {
    fn start(resource: Arc<dyn Resource>, url: String, told: oneshot::Sender<(FencingToken, u64)>) -> Self {
        let (go_on, paused) = mpsc::channel::<()>();
        let thread = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async {
                let guard = coordinator(&url).await.lock("resource").await.expect("granted");
                let mut client = resource.client().await.expect("it connects");
                let state = client.read(guard.token()).await.expect("the first holder");
                told.send((guard.token(), state.count)).expect("somebody listens");
                paused.recv().expect("it is told to go on");
                // Without a look at the guard, as a request that was already under way.
                let late = client.write(guard.token(), &state.after(0, guard.token())).await;
                assert!(!guard.is_held(), "the lock was lost in the pause");
                late
            })
        });
        Self { go_on, thread: Some(thread) }
    }

    async fn go_on(&mut self) -> Result<(), Wrong> {
        self.go_on.send(()).expect("it waits");
        let thread = self.thread.take().expect("only once");
        within(tokio::task::spawn_blocking(|| thread.join())).await.expect("it ends").expect("no panic")
    }
}
