//! Many who wait for one name, one behind the other.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use tenure_conformance::queue;
use tenure_core::{Coordinator, FencingToken, Session};
use tokio::{
    task::JoinHandle,
    time::{sleep, timeout},
};

const WAITERS: usize = 20;
const LONG: Duration = Duration::from_secs(40);

/// Their places, each with the token it had, in the order of their turns.
pub(super) type Served = Arc<Mutex<Vec<(usize, FencingToken)>>>;

/// Waiters for `x` on a few coordinators, one behind the other, while somebody holds it; each notes its turn and leaves. `look` is a session
/// to see them by.
pub(super) async fn waiters(look: &dyn Session, coordinators: &[Coordinator], served: &Served) -> Vec<JoinHandle<()>> {
    let mut waiters = Vec::new();
    for place in 1..=WAITERS {
        let (coordinator, served) = (coordinators[place % coordinators.len()].clone(), served.clone());
        waiters.push(tokio::spawn(async move {
            let guard = coordinator.lock("x").await.expect("granted");
            served.lock().expect("no panic").push((place, guard.token()));
            let _ = guard.release().await; // if it was lost, the next one does not come before it was told
        }));
        let queued = async {
            while look.list(&queue("x")).await.expect("listed").queue.len() <= place {
                sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(LONG, queued).await.expect("it enters");
    }
    waiters
}

/// In which order; the tokens rise in any case.
pub(super) async fn all_served(waiters: Vec<JoinHandle<()>>, served: &Served) -> Vec<usize> {
    for waiter in waiters {
        timeout(LONG, waiter).await.expect("every wait completes").expect("no error reaches the user");
    }
    let served = served.lock().expect("no panic").clone();
    assert_eq!(served.len(), WAITERS);
    assert!(served.windows(2).all(|pair| pair[0].1 < pair[1].1), "the tokens do not rise: {served:?}");
    served.into_iter().map(|(place, _)| place).collect()
}
