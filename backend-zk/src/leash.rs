//! What holds the client library's task: it ends with its connection, and nobody is left waiting for it, or panics because of it.

use std::{
    future::{Future, poll_fn},
    panic::{AssertUnwindSafe, catch_unwind},
    pin::{Pin, pin},
    sync::{Mutex, PoisonError},
    task::Poll,
};

use tokio::{
    runtime::Handle,
    sync::{oneshot, watch},
};

/// Starts the library's task, and holds it.
pub(crate) struct Leash {
    runtime: Handle,
    of: Mutex<Option<(oneshot::Receiver<IsConnected>, watch::Sender<bool>)>>,
}

/// Whether the library's connection stands.
pub(crate) type IsConnected = Box<dyn Fn() -> bool + Send + Sync>;

impl Leash {
    /// What holds the next task that the library starts, once it is told how to see whether its connection stands.
    pub(crate) fn new(ended: &watch::Sender<bool>) -> (Self, oneshot::Sender<IsConnected>) {
        let (follow, connected) = oneshot::channel();
        (Self { runtime: Handle::current(), of: Mutex::new(Some((connected, ended.clone()))) }, follow)
    }

    /// Runs something of the library, so that the task that it starts is held.
    pub(crate) async fn hold<T>(&self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        poll_fn(|context| {
            let _scope = spawns_core::enter(self);
            work.as_mut().poll(context)
        })
        .await
    }
}

/// Tells the end of a link, however it comes.
struct Ending(watch::Sender<bool>);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.send_replace(true);
    }
}

impl spawns_core::Spawn for Leash {
    fn spawn(&self, task: spawns_core::Task) {
        let Some((follow, ended)) = self.of.lock().unwrap_or_else(PoisonError::into_inner).take() else { return };
        let mut library = Box::into_pin(task.future);
        self.runtime.spawn(async move {
            let ending = Ending(ended); // is dropped before the library, whose watchers would panic
            let Ok(is_connected) = follow.await else { return };
            let mut killed = ending.0.subscribe();
            let served = poll_fn(|context| match library.as_mut().poll(context) {
                Poll::Pending if is_connected() => Poll::Pending,
                _ => Poll::Ready(()),
            });
            tokio::select! {
                biased;
                _ = killed.wait_for(|killed| *killed) => {}
                () = served => {}
            }
        });
    }
}

/// A watch that stands, and fires once. It keeps no link alive.
pub(crate) struct Watch {
    /// Whether what is watched was removed.
    pub(crate) event: Pin<Box<dyn Future<Output = bool> + Send>>,
    pub(crate) ended: watch::Receiver<bool>,
}

impl Watch {
    /// Once it has fired: whether what is watched was removed. `None` if the link has ended before.
    pub(crate) async fn fired(self) -> Option<bool> {
        let Self { mut event, ended } = self;
        let mut end = ended.clone();
        let event = poll_fn(|context| {
            let ended = ended.borrow(); // cannot end before this is dropped
            if *ended {
                return Poll::Ready(None);
            }
            let polled = catch_unwind(AssertUnwindSafe(|| event.as_mut().poll(context)));
            polled.map_or(Poll::Ready(None), |polled| polled.map(Some))
        });
        tokio::select! {
            biased;
            _ = end.wait_for(|ended| *ended) => None,
            fired = event => fired,
        }
    }
}
