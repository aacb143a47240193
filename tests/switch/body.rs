//! What an application does, told by a URL alone where to do it.

use std::{
    num::NonZeroU32,
    time::{Duration, Instant},
};

use futures_util::future::join_all;
use tenure::{Coordinator, FencingToken, LossReason, QueueName};
use tokio::{task::JoinHandle, time::timeout};

/// Longer than anything here takes, on a busy machine too.
const LONG: Duration = Duration::from_secs(30);

/// What came of it.
#[derive(Debug)]
pub(crate) struct Outcomes {
    rows: Vec<(&'static str, String)>,
    /// As they came, which differs.
    pub(crate) tokens: String,
    /// From a release to the next grant, which differs.
    pub(crate) handover: Duration,
}

impl Outcomes {
    /// What must be the same everywhere: a name, and what was seen.
    pub(crate) fn rows(&self) -> &[(&'static str, String)] {
        &self.rows
    }
}

/// Two coordinators, as two processes have them.
struct Two {
    one: Coordinator,
    other: Coordinator,
}

/// Does it all.
pub(crate) async fn body(url: &str) -> Outcomes {
    let connect = || async { tenure::connect(url).await.unwrap_or_else(|error| panic!("{url}: {}", error.report())) };
    let two = Two { one: connect().await, other: connect().await };
    let mut rows = vec![("a lock", two.exclusion().await)];
    let (order, tokens, handover) = two.order().await;
    rows.extend([
        ("waiters", order),
        ("tokens", seen(tokens.is_sorted_by(|a, b| a < b), "rise")),
        ("readers", two.readers().await),
        ("permits", two.permits().await),
        ("a lost session", two.loss().await),
    ]);
    timeout(LONG, two.other.close()).await.expect("in time").expect("closed");
    let tokens = tokens.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
    Outcomes { rows, tokens, handover }
}

impl Two {
    async fn exclusion(&self) -> String {
        let held = soon(self.one.lock("job")).await;
        let tries = [
            soon(self.other.try_lock("job")).await.is_some(),
            soon(self.one.try_lock("job")).await.is_some(),
            soon(self.other.try_read("job")).await.is_some(),
            soon(self.other.try_lock("job/other")).await.is_some(),
        ];
        held.verify().await.expect("it is ours");
        soon(held.release()).await;
        let again = soon(self.other.try_lock("job")).await;
        let then = again.is_some();
        soon(again.expect("it is free").release()).await;
        seen(tries == [false, false, false, true] && then, "one holds it")
    }

    /// Whether they were granted in the order in which they came, with which tokens, and how long it took from one to the next.
    async fn order(&self) -> (String, Vec<FencingToken>, Duration) {
        let first = soon(self.one.lock("order")).await;
        let mut tokens = vec![first.token()];
        let mut waiters: Vec<JoinHandle<(usize, FencingToken, Instant, Instant)>> = Vec::new();
        for number in 1..=4 {
            let coordinator = if number % 2 == 0 { &self.one } else { &self.other }.clone();
            waiters.push(tokio::spawn(async move {
                let guard = soon(coordinator.lock("order")).await;
                let (token, granted) = (guard.token(), Instant::now());
                tokio::time::sleep(Duration::from_millis(20)).await;
                let leaving = Instant::now();
                soon(guard.release()).await;
                (number, token, granted, leaving)
            }));
            self.until_queued("order", number + 1).await;
        }
        let mut left = Instant::now();
        soon(first.release()).await;
        let mut grants: Vec<_> = join_all(waiters).await.into_iter().map(|waiter| waiter.expect("it ends")).collect();
        grants.sort_by_key(|(_, _, granted, _)| *granted);
        let mut spans = Vec::new();
        for (_, token, granted, leaving) in &grants {
            tokens.push(*token);
            spans.push(granted.saturating_duration_since(left));
            left = *leaving;
        }
        spans.sort();
        let in_order = grants.iter().map(|(number, ..)| *number).eq(1..=4);
        (seen(in_order, "first in, first out"), tokens, spans[spans.len() / 2])
    }

    async fn readers(&self) -> String {
        let readers = [soon(self.one.read("report")).await, soon(self.other.read("report")).await];
        let writer = tokio::spawn({
            let other = self.other.clone();
            async move { soon(soon(other.lock("report")).await.release()).await }
        });
        self.until_queued("report", 3).await;
        let overtaken = soon(self.one.try_read("report")).await.is_some();
        let both = readers.iter().all(|reader| reader.is_held());
        for reader in readers {
            soon(reader.release()).await;
        }
        writer.await.expect("it ends");
        seen(both && !overtaken, "share, do not overtake")
    }

    async fn permits(&self) -> String {
        let of = NonZeroU32::new(2).expect("two");
        let held = [soon(self.one.permit("gpu", of)).await, soon(self.other.permit("gpu", of)).await];
        let third = soon(self.one.try_permit("gpu", of)).await.is_some();
        let [first, second] = held;
        soon(first.release()).await;
        let after = soon(self.one.try_permit("gpu", of)).await;
        let free = after.is_some();
        soon(after.expect("one is free").release()).await;
        soon(second.release()).await;
        seen(!third && free, "two of two, no third")
    }

    /// The session ends under a guard, and the next one is granted with a higher token. Ends the first coordinator.
    async fn loss(&self) -> String {
        let guard = soon(self.one.lock("loss")).await;
        let waiter = tokio::spawn({
            let other = self.other.clone();
            async move { soon(other.lock("loss")).await }
        });
        self.until_queued("loss", 2).await;
        timeout(LONG, self.one.close()).await.expect("in time").expect("closed");
        let reason = timeout(LONG, guard.lost()).await.expect("told");
        let (held, next) = (guard.is_held(), waiter.await.expect("it ends"));
        let rises = next.token() > guard.token();
        soon(next.release()).await;
        let told = reason == LossReason::SessionEnded && !held;
        seen(told && rises, "told, next is higher")
    }

    /// Until so many entries stand in the queue.
    async fn until_queued(&self, name: &str, count: usize) {
        let queue = QueueName::new(name).expect("a good name");
        let opened = self.other.backend().open(Duration::from_secs(10)).await.expect("opened");
        let all_there = async {
            while opened.session.list(&queue).await.expect("listed").queue.len() < count {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(LONG, all_there).await.unwrap_or_else(|_| panic!("there are never {count} in {name}"));
        opened.session.close().await.expect("closed");
    }
}

async fn soon<T>(action: impl Future<Output = tenure::Result<T>>) -> T {
    timeout(LONG, action).await.expect("in time").unwrap_or_else(|error| panic!("{}", error.report()))
}

/// A row of the table.
fn seen(is_so: bool, what: &'static str) -> String {
    format!("{}{what}", if is_so { "" } else { "NOT: " })
}
