//! The case that fences are for: a holder is paused between its read and its write, loses the lock, and writes.

use std::{
    path::PathBuf,
    sync::{Arc, mpsc},
    thread,
};

use tenure_core::FencingToken;
use tokio::sync::oneshot;

use crate::{
    lock::{coordinator, within},
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

/// The same run on a resource that is behind its fence, and on one that is not.
pub(crate) async fn paused(fenced: [Arc<dyn Resource>; 2], open: [Arc<dyn Resource>; 2]) {
    for (when, (fenced, open)) in [When::After, When::Between].into_iter().zip(fenced.into_iter().zip(open)) {
        let run = run(fenced, when).await;
        assert_eq!(run.last.count, run.accepted, "{when:?}: {run:?}");
        assert_eq!(run.last.fell, 0, "{when:?}: {run:?}");
        if when == When::After {
            let Err(Wrong::Fenced(fenced)) = &run.late else { panic!("not refused: {run:?}") };
            assert_eq!((fenced.token, fenced.winner), (run.old, run.new));
        }
        let run = self::run(open, when).await;
        assert_eq!((run.accepted, run.last.count), (2, 1), "without a fence an update must be lost, {when:?}: {run:?}");
    }
}

#[derive(Debug)]
struct Run {
    old: FencingToken,
    new: FencingToken,
    late: Result<(), Wrong>,
    accepted: u64,
    last: State,
}

async fn run(resource: Arc<dyn Resource>, when: When) -> Run {
    let folder = tempfile::tempdir().expect("a folder");
    let (told, tells) = oneshot::channel();
    let mut older = Older::start(resource.clone(), folder.path().to_owned(), told);
    let old = within(tells).await.expect("it was granted");

    let guard = within(coordinator(folder.path(), "").await.lock("resource")).await.expect("granted");
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
    Run { old, new, accepted: 1 + u64::from(late.is_ok()), late, last }
}

/// The holder that is paused: a thread and a runtime of its own, which stands still as a whole.
struct Older {
    go_on: mpsc::Sender<()>,
    thread: Option<thread::JoinHandle<Result<(), Wrong>>>,
}

impl Older {
    fn start(resource: Arc<dyn Resource>, folder: PathBuf, told: oneshot::Sender<FencingToken>) -> Self {
        let (go_on, paused) = mpsc::channel::<()>();
        let thread = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async {
                let guard = coordinator(&folder, "").await.lock("resource").await.expect("granted");
                let mut client = resource.client().await.expect("it connects");
                let state = client.read(guard.token()).await.expect("the first holder");
                told.send(guard.token()).expect("somebody listens");
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
