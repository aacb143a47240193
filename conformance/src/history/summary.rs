//! What was in a history, in numbers.

use std::{fmt, time::Duration};

use super::{
    Answer, Counts, History, Micros, Request, What,
    grants::{Grant, grants},
};

/// What was in a history.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Summary {
    /// Grants.
    pub grants: usize,
    /// Grants that were lost, as their owners found.
    pub losses: usize,
    /// Requests for the lock that were taken back.
    pub gave_up: usize,
    /// Calls that failed, and may.
    pub failures: usize,
    /// Writes that the store accepted.
    pub writes: usize,
    /// Requests that the fence refused.
    pub refused: usize,
    /// How often each fault struck.
    pub strikes: Counts,
    /// The longest time without a grant.
    pub longest_gap: Duration,
}

impl Summary {
    /// Counts.
    pub fn of(history: &History) -> Self {
        Self::with(history, &grants(&history.events))
    }

    pub(super) fn with(history: &History, grants: &[Grant]) -> Self {
        let noted = |what: fn(&What) -> bool| history.events.iter().filter(|event| what(&event.what)).count();
        let asked = |what: fn(&Request) -> bool| history.store.iter().filter(|request| what(request)).count();
        let mut strikes = Counts::new();
        for strike in &history.strikes {
            *strikes.entry(strike.fault.clone()).or_default() += 1;
        }
        let times = times(history, grants);
        let gap = times.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or_default();
        Self {
            grants: grants.len(),
            losses: grants.iter().filter(|grant| grant.lost).count(),
            gave_up: noted(|what| matches!(what, What::GaveUp)),
            failures: noted(|what| matches!(what, What::Failed { grave: false, .. })),
            writes: asked(|request| request.write.is_some() && matches!(request.answer, Answer::Accepted(_))),
            refused: asked(|request| matches!(request.answer, Answer::Refused(_))),
            strikes,
            longest_gap: Duration::from_micros(gap),
        }
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { grants, losses, gave_up, failures, writes, refused, strikes, longest_gap } = self;
        write!(f, "{grants} grants, {losses} losses, {gave_up} given up, {failures} failures, {writes} writes, ")?;
        write!(f, "{refused} refused, longest time without a grant {longest_gap:.1?}, faults: ")?;
        let faults: Vec<_> = strikes.iter().map(|(fault, count)| format!("{count} x {fault}")).collect();
        f.write_str(&faults.join(", "))
    }
}

/// When grants were made, with the end of the run as the last.
pub(super) fn times(history: &History, grants: &[Grant]) -> Vec<Micros> {
    let mut times: Vec<_> = grants.iter().map(|grant| grant.granted).filter(|at| *at < history.until).collect();
    times.push(history.until);
    times.sort_unstable();
    times
}
