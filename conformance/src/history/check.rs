//! The judge. Every check is one pass over something sorted: no search, so it cannot blow up.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use tenure_core::FencingToken;

use super::{
    Answer, Counts, History, Micros, Summary, Violation, Violations, What,
    grants::{Grant, grants, owner},
    micros,
    summary::times,
};

/// What a history must show to count as good.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Expectations {
    /// So long after the last grant and the end of the last fault somebody must have been granted the lock: ttl and slack.
    pub progress: Duration,
    /// At least so many grants.
    pub grants: usize,
    /// At least so many losses.
    pub losses: usize,
    /// At least so many requests that the fence refused.
    pub refused: usize,
    /// Of each of these faults at least so many.
    pub strikes: Counts,
}

impl Expectations {
    /// Progress within the ttl and two seconds; nothing else is demanded yet.
    pub fn new(ttl: Duration) -> Self {
        Self { progress: ttl + Duration::from_secs(2), grants: 0, losses: 0, refused: 0, strikes: Counts::new() }
    }
}

/// Judges a history.
///
/// # Errors
/// All that is wrong with it.
pub fn check(history: &History, expected: &Expectations) -> Result<Summary, Violations> {
    let grants = grants(&history.events);
    let summary = Summary::with(history, &grants);
    let mut wrong = Vec::new();
    store_order(history, &grants, &mut wrong);
    updates(history, &mut wrong);
    one_owner(&grants, &mut wrong);
    token_order(&grants, &mut wrong);
    overlaps(&grants, &mut wrong);
    refused_holders(&grants, &mut wrong);
    progress(history, &grants, micros(expected.progress), &mut wrong);
    failures(history, &mut wrong);
    enough(&summary, expected, &mut wrong);
    if wrong.is_empty() { Ok(summary) } else { Err(Violations(wrong)) }
}

/// Accepted tokens never fall, and all tokens are somebody's: a grant is on record before its token is sent anywhere.
fn store_order(history: &History, grants: &[Grant], wrong: &mut Vec<Violation>) {
    let known: HashSet<_> = grants.iter().map(|grant| grant.token).collect();
    let mut highest = FencingToken::new(0);
    for (index, request) in history.store.iter().enumerate() {
        let token = request.token;
        if !known.contains(&token) {
            wrong.push(Violation::UnknownToken { request: index, token });
        }
        if matches!(request.answer, Answer::Accepted(_)) {
            if token < highest {
                wrong.push(Violation::TokenFell { request: index, highest, token });
            }
            highest = highest.max(token);
        }
    }
}

/// Every accepted write adds one to what was there.
fn updates(history: &History, wrong: &mut Vec<Violation>) {
    let (mut value, mut writes) = (0, 0);
    for (index, request) in history.store.iter().enumerate() {
        if let (Some(written), Answer::Accepted(_)) = (request.write, request.answer) {
            if written != value + 1 {
                wrong.push(Violation::LostUpdate { request: index, expected: value + 1, value: written });
            }
            (value, writes) = (written, writes + 1);
        }
    }
    if history.value != writes {
        wrong.push(Violation::WrongSum { writes, value: history.value });
    }
}

fn one_owner(grants: &[Grant], wrong: &mut Vec<Violation>) {
    let mut owners = HashMap::new();
    for grant in grants {
        if let Some(first) = owners.insert(grant.token, &grant.owner) {
            let owners = [first.clone(), grant.owner.clone()];
            wrong.push(Violation::TokenTwice { token: grant.token, owners });
        }
    }
}

/// Whoever asks after a grant had begun gets a higher token. Of two that were asked for at one time, either may come first.
fn token_order(grants: &[Grant], wrong: &mut Vec<Violation>) {
    let mut by_asking: Vec<_> = grants.iter().collect();
    by_asking.sort_by_key(|grant| grant.asked);
    let mut by_granting = by_asking.clone();
    by_granting.sort_by_key(|grant| grant.granted);
    let mut begun = by_granting.into_iter().peekable();
    let mut highest: Option<&Grant> = None;
    for newer in by_asking {
        while let Some(older) = begun.next_if(|older| older.granted < newer.asked) {
            highest = highest.filter(|highest| highest.token > older.token).or(Some(older));
        }
        if let Some(older) = highest.filter(|older| older.token >= newer.token) {
            let owners = [older.owner.clone(), newer.owner.clone()];
            wrong.push(Violation::OutOfOrder { older: older.token, newer: newer.token, owners });
        }
    }
}

/// Whoever is told that it holds the lock holds it alone: so the times from first to last claim never overlap, whatever was killed or
/// paused. A paused worker is no exception, since its guard knows by the clock that it holds no more.
fn overlaps(grants: &[Grant], wrong: &mut Vec<Violation>) {
    let mut claims: Vec<_> = grants.iter().filter_map(|grant| grant.held.map(|held| (held, grant))).collect();
    claims.sort_by_key(|(held, _)| *held);
    let mut latest: Option<(Micros, &Grant)> = None;
    for ((from, to), grant) in claims {
        if let Some((end, other)) = latest.filter(|(end, _)| from < *end) {
            let owners = [other.owner.clone(), grant.owner.clone()];
            let length = end.min(to).saturating_sub(from);
            wrong.push(Violation::Overlap { tokens: [other.token, grant.token], owners, length });
        }
        latest = latest.filter(|(end, _)| *end > to).or(Some((to, grant)));
    }
}

/// The fence refuses only if it has seen a newer grant's token, and there is none before the older one is over.
fn refused_holders(grants: &[Grant], wrong: &mut Vec<Violation>) {
    for grant in grants {
        if grant.refused.zip(grant.held).is_some_and(|(refused, (_, to))| refused <= to) {
            wrong.push(Violation::HolderRefused { token: grant.token, owner: grant.owner.clone() });
        }
    }
}

/// From one grant to the next it takes no longer than `limit`, counted from the end of the last fault that began in between. A fault that
/// still lasts excuses everybody: on some backends a stopped worker can hold up all others.
fn progress(history: &History, grants: &[Grant], limit: Micros, wrong: &mut Vec<Violation>) {
    let mut strikes: Vec<_> = history.strikes.iter().collect();
    strikes.sort_by_key(|strike| strike.from);
    let mut strikes = strikes.into_iter().peekable();
    let mut since = history.events.iter().map(|event| event.at).min().unwrap_or_default();
    for until in times(history, grants) {
        while let Some(strike) = strikes.next_if(|strike| strike.from < until) {
            since = since.max(strike.to);
        }
        let waited = until.saturating_sub(since);
        if waited > limit {
            wrong.push(Violation::NoProgress { waited, until });
        }
        since = since.max(until);
    }
}

fn failures(history: &History, wrong: &mut Vec<Violation>) {
    for event in &history.events {
        if let What::Failed { error, grave: true } = &event.what {
            wrong.push(Violation::Failure { owner: owner(event), error: error.clone() });
        }
    }
}

/// A history in which nothing happens is always good, and worth nothing.
fn enough(summary: &Summary, expected: &Expectations, wrong: &mut Vec<Violation>) {
    let strikes = expected
        .strikes
        .iter()
        .map(|(fault, wanted)| (fault.as_str(), summary.strikes.get(fault).copied().unwrap_or_default(), *wanted));
    let counted = [
        ("granted", summary.grants, expected.grants),
        ("lost", summary.losses, expected.losses),
        ("refused", summary.refused, expected.refused),
    ];
    for (what, found, wanted) in counted.into_iter().chain(strikes) {
        if found < wanted {
            wrong.push(Violation::Vacuous { what: what.to_owned(), found, wanted });
        }
    }
}
