//! Cases on [`tenure_core::Session`] itself: the numbered clauses of its contract.

use std::{collections::HashSet, future::Future, pin::pin, task::Context, time::Duration};

use tenure_core::{ContenderId, ErrorKind, FencingToken, MAX_VALUE, QueueName, Wake};
use tokio::time::{Instant, sleep, timeout};

use crate::{
    Harness,
    entries::{enter, find, id, ids, listed, session},
    queue,
};

/// Clause 5: a repeated `enter` finds the entry of the first.
pub async fn entering_twice_makes_one_entry(harness: &dyn Harness) {
    let (session, queue, id) = (session(harness).await, queue("x"), id());
    let first = session.enter(&queue, &id, b"first").await.expect("entered");
    let second = session.enter(&queue, &id, b"second").await.expect("found");
    assert_eq!((first.token, first.version), (second.token, second.version));
    assert_eq!(ids(&second.snapshot), [id]);
}

/// Clauses 1 and 2, with many sessions entering and leaving at once: whatever anybody sees, nothing ever appears in front of what was
/// there, and the order is that of the tokens.
pub async fn entries_are_appended_and_their_tokens_rise(harness: &dyn Harness) {
    let name = queue("x");
    let mut tasks = Vec::new();
    for _ in 0..6 {
        let (session, name) = (session(harness).await, name.clone());
        tasks.push(tokio::spawn(async move {
            let (mut seen, mut entered) = (Vec::new(), Vec::new());
            for round in 0..12 {
                let (id, new) = enter(&*session, &name).await;
                entered.push((id.clone(), new.token));
                seen.push(ids(&new.snapshot));
                seen.push(listed(&*session, &name).await);
                if round % 3 == 0 {
                    session.leave(&name, &id).await.expect("left");
                }
            }
            (session, seen, entered)
        }));
    }
    let (mut sessions, mut histories, mut order) = (Vec::new(), Vec::new(), Vec::new());
    for task in tasks {
        let (session, seen, entered) = task.await.expect("no panic");
        sessions.push(session); // lives on until all have been looked at
        histories.push(seen);
        order.extend(entered);
    }
    order.sort_by_key(|(_, token)| *token);
    order.windows(2).for_each(|pair| assert!(pair[0].1 < pair[1].1, "one token, two entries"));
    let place = |id: &ContenderId| order.iter().position(|(known, _)| known == id).expect("a known entry");
    for history in histories {
        let mut passed = HashSet::new(); // not seen although a later one was: they must never be seen again
        for snapshot in history {
            let places: Vec<_> = snapshot.iter().map(place).collect();
            assert!(places.windows(2).all(|pair| pair[0] < pair[1]), "not in the order of tokens: {places:?}");
            assert!(!places.iter().any(|place| passed.contains(place)), "one appeared in front of what was visible");
            passed.extend((0..places.last().copied().unwrap_or(0)).filter(|place| !places.contains(place)));
        }
    }
}

/// Clause 2: tokens are never used again.
pub async fn tokens_rise_over_emptied_queues_and_ended_sessions(harness: &dyn Harness) {
    let mut last = FencingToken::new(0);
    for round in 0..6 {
        let session = session(harness).await;
        let (id, entered) = enter(&*session, &queue("x")).await;
        assert!(entered.token > last, "{} came after {last}", entered.token);
        last = entered.token;
        if round % 2 == 0 {
            session.leave(&queue("x"), &id).await.expect("left");
        }
        session.close().await.expect("closed");
    }
}

/// Clause 2: a late repeat of an `enter`, after an operator has removed the entry, makes another one, if any.
pub async fn an_entry_made_anew_is_another_one(harness: &dyn Harness) {
    let (session, name) = (session(harness).await, queue("x"));
    let (mine, first) = enter(&*session, &name).await;
    harness.remove(&name, &mine).await;
    if let Ok(again) = session.enter(&name, &mine, b"value").await {
        assert!(again.token > first.token, "{} again", again.token);
        assert_ne!(find(&again.snapshot, &mine).key, find(&first.snapshot, &mine).key);
    }
}

/// Clause 4.
pub async fn a_snapshot_shows_what_was_done_before(harness: &dyn Harness) {
    let (session, other, queue) = (session(harness).await, session(harness).await, queue("x"));
    for _ in 0..10 {
        let (mine, entered) = enter(&*session, &queue).await;
        assert!(ids(&entered.snapshot).contains(&mine));
        assert!(listed(&*session, &queue).await.contains(&mine));
        let (theirs, entered) = enter(&*other, &queue).await;
        assert!(ids(&entered.snapshot).contains(&mine), "an enter that came later does not see an earlier one");
        session.leave(&queue, &mine).await.expect("left");
        assert!(!listed(&*session, &queue).await.contains(&mine));
        other.leave(&queue, &theirs).await.expect("left");
    }
}

/// Clause 8, and `leave` twice.
pub async fn leaving_removes_only_what_is_ours(harness: &dyn Harness) {
    let (session, other, queue) = (session(harness).await, session(harness).await, queue("x"));
    session.leave(&queue, &id()).await.expect("nothing to leave is no failure");
    let (mine, _) = enter(&*session, &queue).await;
    other.leave(&queue, &mine).await.expect("it is not the other's: nothing to leave");
    assert_eq!(listed(&*other, &queue).await, std::slice::from_ref(&mine));
    let written =
        other.write(&queue, &mine, session.enter(&queue, &mine, b"").await.expect("found").version, b"theirs").await;
    assert!(written.is_err(), "another session wrote our value");
    session.leave(&queue, &mine).await.expect("left");
    session.leave(&queue, &mine).await.expect("left, again");
    assert!(listed(&*session, &queue).await.is_empty());
}

/// Clause 6: whenever an `enter` is dropped, the `leave` that follows leaves nothing behind, then and later.
pub async fn a_call_that_was_dropped_can_be_undone(harness: &dyn Harness) {
    let (session, queue) = (session(harness).await, queue("x"));
    for round in 0..40_u64 {
        let id = id();
        {
            let mut entering = pin!(session.enter(&queue, &id, b"value"));
            if round % 2 == 0 {
                let _ = entering.as_mut().poll(&mut Context::from_waker(std::task::Waker::noop()));
            } else {
                let _ = timeout(Duration::from_micros(round * 50), entering).await;
            }
        }
        session.leave(&queue, &id).await.expect("left");
        assert!(listed(&*session, &queue).await.is_empty(), "round {round}");
    }
    sleep(Duration::from_millis(500)).await;
    assert!(listed(&*session, &queue).await.is_empty(), "one came late");
}

/// `close` ends everything at once, and for good.
pub async fn closing_ends_the_session_and_its_entries(harness: &dyn Harness) {
    let (session, other) = (session(harness).await, session(harness).await);
    for name in ["x", "y", "z"] {
        enter(&*session, &queue(name)).await;
    }
    let (stays, _) = enter(&*other, &queue("x")).await;
    session.close().await.expect("closed");
    assert_eq!(listed(&*other, &queue("x")).await, [stays]);
    for name in ["y", "z"] {
        assert!(listed(&*other, &queue(name)).await.is_empty());
    }
    let error = session.enter(&queue("x"), &id(), b"").await.expect_err("the session is over");
    assert_eq!(error.kind(), ErrorKind::SessionLost);
}

/// Clause 3.
pub async fn a_session_ends_after_its_ttl_and_not_before(harness: &dyn Harness) {
    let (watcher, name) = (session(harness).await, queue("x"));
    let client = harness.client().await;
    let sent = Instant::now();
    let opened = client.open(harness.ttl()).await.expect("a session");
    enter(&*opened.session, &name).await;
    assert!(opened.ttl >= harness.ttl(), "less was granted than was asked for");
    let until = client.clock().until(opened.deadline);
    assert!(
        until <= opened.ttl && until + sent.elapsed() + Duration::from_millis(5) >= opened.ttl,
        "{until:?} of {:?}",
        opened.ttl
    );
    // Somebody who waits behind it, so that a backend which needs a reason to look has one.
    let (_, behind) = enter(&*watcher, &name).await;
    let first = behind.snapshot.queue[0].clone();
    loop {
        let left = client.clock().until(opened.deadline);
        let here = watcher.list(&name).await.expect("listed").queue.contains(&first);
        assert!(here || client.clock().has_passed(opened.deadline), "it ended {left:?} before its deadline");
        if !here {
            break;
        }
        assert!(sent.elapsed() < opened.ttl + harness.ttl() + harness.expiry_slack(), "it never ends");
        let _ = timeout(Duration::from_millis(50), watcher.wait(&name, &behind.snapshot, Wake::Gone(&first))).await;
    }
}

/// Clause 7, as far as it can be seen without a cluster.
pub async fn keep_alive_keeps_alive_and_does_not_raise_the_dead(harness: &dyn Harness) {
    let (watcher, name) = (session(harness).await, queue("x"));
    let client = harness.client().await;
    let opened = client.open(harness.ttl()).await.expect("a session");
    let (mine, _) = enter(&*opened.session, &name).await;
    let start = Instant::now();
    let mut deadline = opened.deadline;
    while start.elapsed() < harness.ttl() * 3 {
        sleep(harness.ttl() / 4).await;
        let next = opened.session.keep_alive().await.expect("kept alive");
        assert!(next.since_boot > deadline.since_boot);
        deadline = next;
    }
    let (_, behind) = enter(&*watcher, &name).await;
    let me = find(&behind.snapshot, &mine);
    let gone = async {
        while watcher.list(&name).await.expect("listed").queue.contains(&me) {
            watcher.wait(&name, &behind.snapshot, Wake::Gone(&me)).await.expect("waited");
        }
    };
    timeout(opened.ttl * 2 + harness.expiry_slack(), gone).await.expect("it ends once nobody renews it");
    assert!(client.clock().has_passed(deadline), "it ended before its deadline");
    assert_eq!(opened.session.keep_alive().await.expect_err("over").kind(), ErrorKind::SessionLost);
    assert_eq!(opened.session.enter(&name, &mine, b"").await.expect_err("over").kind(), ErrorKind::SessionLost);
    assert!(!listed(&*watcher, &name).await.contains(&mine));
}

/// `read` and `write`.
pub async fn values_are_read_and_written_by_version(harness: &dyn Harness) {
    let (session, other, name) = (session(harness).await, session(harness).await, queue("x"));
    let (mine, entered) = enter(&*session, &name).await;
    let me = find(&entered.snapshot, &mine);
    let read = other.read(&name, &me).await.expect("read").expect("it is there");
    assert_eq!((read.token, read.version, &*read.value), (entered.token, entered.version, &b"value"[..]));
    let second = session.write(&name, &mine, entered.version, b"second").await.expect("written");
    assert_eq!(session.write(&name, &mine, entered.version, b"second").await.expect("a repeat succeeds"), second);
    let third = session.write(&name, &mine, second, b"third").await.expect("written");
    let stale =
        session.write(&name, &mine, entered.version, b"second").await.expect_err("it would overwrite a newer value");
    assert_eq!(stale.kind(), ErrorKind::Unexpected);
    let read = other.read(&name, &me).await.expect("read").expect("it is there");
    assert_eq!((read.token, read.version, &*read.value), (entered.token, third, &b"third"[..]));
    session.leave(&name, &mine).await.expect("left");
    assert_eq!(other.read(&name, &me).await.expect("read"), None);
    assert!(session.write(&name, &mine, third, b"fourth").await.is_err(), "there is no entry to write");
}

/// Up to 64 KiB, of any bytes.
pub async fn values_of_all_sizes(harness: &dyn Harness) {
    let (session, name) = (session(harness).await, queue("x"));
    for value in [vec![], vec![0], (0..=255).collect(), vec![0xFF; MAX_VALUE]] {
        let id = id();
        let entered = session.enter(&name, &id, &value).await.expect("entered");
        let me = find(&entered.snapshot, &id);
        assert_eq!(session.read(&name, &me).await.expect("read").expect("it is there").value, value);
        session.leave(&name, &id).await.expect("left");
    }
    let (mine, entered) = enter(&*session, &name).await;
    let large = vec![0; MAX_VALUE + 1];
    assert_eq!(session.enter(&name, &id(), &large).await.expect_err("too large").kind(), ErrorKind::Config);
    let written = session.write(&name, &mine, entered.version, &large).await;
    assert_eq!(written.expect_err("too large").kind(), ErrorKind::Config);
    assert_eq!(listed(&*session, &name).await, [mine]);
}

/// Different names never interact.
pub async fn names_of_all_kinds_are_strangers_to_each_other(harness: &dyn Harness) {
    let (session, other) = (session(harness).await, session(harness).await);
    let long = "x".repeat(QueueName::MAX_LEN);
    let nearly = format!("{}y", "x".repeat(QueueName::MAX_LEN - 1));
    let names = [
        "a",
        "A",
        "a/",
        "a/b",
        "/a",
        "ab",
        "a ",
        " a",
        ".",
        "..",
        "a/../a",
        "%",
        "%2F",
        "a%2Fb",
        "a\\b",
        "ä",
        "a\u{308}",
        "名前",
        "🔒",
        "\u{202e}a",
        "\n",
        "\t",
        "'; DROP TABLE entries; --",
        "*",
        "?",
        "{a}",
        "a:b",
        "-n",
        &long,
        &nearly,
    ];
    let mut made = Vec::new();
    for name in names {
        let (id, entered) = enter(&*session, &queue(name)).await;
        assert_eq!(ids(&entered.snapshot), std::slice::from_ref(&id), "{name:?} is not a queue of its own");
        made.push((name, id));
    }
    for (name, id) in made {
        assert_eq!(listed(&*other, &queue(name)).await, [id], "{name:?}");
    }
}

/// What is stored stands, until one who is alone raises it.
pub async fn the_token_base_is_settled_once(harness: &dyn Harness) {
    let first = session(harness).await;
    assert_eq!(first.settle_token_base(5).await.expect("stored"), 5);
    assert_eq!(first.settle_token_base(5).await.expect("again"), 5);
    let second = session(harness).await;
    for wish in [0, 4, 5, 6] {
        assert_eq!(
            second.settle_token_base(wish).await.expect("an answer"),
            5,
            "changed while another session is open"
        );
    }
    first.close().await.expect("closed");
    assert_eq!(second.settle_token_base(4).await.expect("an answer"), 5, "lowered");
    assert_eq!(second.settle_token_base(6).await.expect("an answer"), 6, "not raised by the only one");
}
