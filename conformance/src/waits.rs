//! Cases on `Session::wait`: what happens is heard of, soon, and nothing is missed.

use std::{sync::Arc, time::Duration};

use tenure_core::{Contender, QueueName, Session, Snapshot, Wake};
use tokio::time::{sleep, timeout};

use crate::{
    Harness,
    entries::{LONG, enter, find, id, open, session},
    queue,
};

/// Longer than any event takes on a loaded machine, shorter than what a poll or an expiry would take to stand in for it.
const SOON: Duration = Duration::from_millis(900);

/// Starts to wait, and gives the wait time to be set up.
async fn waiting(
    session: &Arc<dyn Session>,
    queue: &QueueName,
    seen: &Snapshot,
    wake: fn(&Contender) -> Wake<'_>,
    who: &Contender,
) -> tokio::task::JoinHandle<()> {
    let (session, queue, seen, who) = (session.clone(), queue.clone(), seen.clone(), who.clone());
    let task = tokio::spawn(async move {
        // May return early for no reason: until it is true is what callers wait for.
        loop {
            session.wait(&queue, &seen, wake(&who)).await.expect("waited");
            let now = session.list(&queue).await.expect("listed");
            let here = |who: &Contender| now.queue.iter().any(|contender| contender.id == who.id);
            let done = match wake(&who) {
                Wake::Gone(who) => !here(who),
                Wake::Ahead(_) => seen.queue.iter().any(|contender| !here(contender)),
                Wake::Any => return,
            };
            if done {
                return;
            }
        }
    });
    sleep(Duration::from_millis(150)).await;
    task
}

async fn ends_soon(task: tokio::task::JoinHandle<()>, what: &str) {
    timeout(SOON, task).await.unwrap_or_else(|_| panic!("not woken: {what}")).expect("no panic");
}

/// A hand-over.
pub async fn waiting_for_one_to_go_ends_when_it_leaves(harness: &dyn Harness) {
    let (session, other, name) = (session(harness).await, session(harness).await, queue("x"));
    for _ in 0..5 {
        let (first, _) = enter(&*session, &name).await;
        let (second, entered) = enter(&*other, &name).await;
        let woken =
            waiting(&other, &name, &entered.snapshot, |who| Wake::Gone(who), &find(&entered.snapshot, &first)).await;
        assert!(!woken.is_finished());
        session.leave(&name, &first).await.expect("left");
        ends_soon(woken, "by a leave").await;
        other.leave(&name, &second).await.expect("left");
    }
}

/// A hand-over from somebody who is gone.
pub async fn waiting_for_one_to_go_ends_when_its_session_closes_or_expires(harness: &dyn Harness) {
    let (other, name) = (session(harness).await, queue("x"));
    for close in [true, false] {
        let opened = open(harness, if close { LONG } else { harness.ttl() }).await;
        let (first, _) = enter(&*opened.session, &name).await;
        let (second, entered) = enter(&*other, &name).await;
        let woken =
            waiting(&other, &name, &entered.snapshot, |who| Wake::Gone(who), &find(&entered.snapshot, &first)).await;
        if close {
            opened.session.close().await.expect("closed");
            ends_soon(woken, "by a close").await;
        } else {
            timeout(opened.ttl + harness.expiry_slack() + SOON, woken)
                .await
                .expect("woken by an expiry")
                .expect("no panic");
        }
        other.leave(&name, &second).await.expect("left");
    }
}

/// What happened between the snapshot and the wait is not missed.
pub async fn waiting_for_what_has_happened_ends_at_once(harness: &dyn Harness) {
    let (session, other, name) = (session(harness).await, session(harness).await, queue("x"));
    let (first, _) = enter(&*session, &name).await;
    let (second, entered) = enter(&*other, &name).await;
    let (first_seen, second_seen) = (find(&entered.snapshot, &first), find(&entered.snapshot, &second));
    session.leave(&name, &first).await.expect("left");
    for wake in [Wake::Gone(&first_seen), Wake::Ahead(&second_seen), Wake::Any] {
        timeout(SOON, other.wait(&name, &entered.snapshot, wake)).await.expect("it has happened").expect("waited");
    }
}

/// What permits wait for.
pub async fn waiting_for_any_ahead_ends_with_any_of_them(harness: &dyn Harness) {
    for leaver in 0..3 {
        let (session, other, name) = (session(harness).await, session(harness).await, queue(&format!("x{leaver}")));
        let mut ahead = Vec::new();
        for _ in 0..3 {
            ahead.push(enter(&*session, &name).await.0);
        }
        let (me, entered) = enter(&*other, &name).await;
        let woken =
            waiting(&other, &name, &entered.snapshot, |who| Wake::Ahead(who), &find(&entered.snapshot, &me)).await;
        session.leave(&name, &ahead[leaver]).await.expect("left");
        ends_soon(woken, "by one of those ahead").await;
    }
}

/// What observers wait for: somebody comes, has a new value, or goes.
pub async fn waiting_for_anything_ends_with_anything(harness: &dyn Harness) {
    let (session, other, name) = (session(harness).await, session(harness).await, queue("x"));
    let nobody = Contender { id: id(), key: "".into() };
    let mut seen = other.list(&name).await.expect("listed");
    let woken = waiting(&other, &name, &seen, |_| Wake::Any, &nobody).await;
    let (mine, entered) = enter(&*session, &name).await;
    ends_soon(woken, "by an enter").await;
    seen = other.list(&name).await.expect("listed");
    let woken = waiting(&other, &name, &seen, |_| Wake::Any, &nobody).await;
    session.write(&name, &mine, entered.version, b"new").await.expect("written");
    ends_soon(woken, "by a write").await;
    seen = other.list(&name).await.expect("listed");
    let woken = waiting(&other, &name, &seen, |_| Wake::Any, &nobody).await;
    session.leave(&name, &mine).await.expect("left");
    ends_soon(woken, "by a leave").await;
}
