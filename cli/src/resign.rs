//! `tenure resign`: asks the leader to resign, and waits until it has.

use std::process::ExitCode;

use tenure::{ContenderId, Election, ErrorKind, Leader};
use tokio::time::timeout;

use crate::{
    args::Resign,
    observe::print,
    outcome::{self, Facts, Outcome, Subject, code},
    protocol::End,
    show::{self, Shown},
    start,
};

/// Does it all.
pub(crate) fn main(resign: &Resign) -> ExitCode {
    let outcome = start::in_runtime(async { connect_and_ask(resign).await.unwrap_or_else(|outcome| outcome) });
    outcome::tell(Subject::Leadership(&resign.name), &outcome, &Facts::default(), None)
}

async fn connect_and_ask(resign: &Resign) -> Result<Outcome, Outcome> {
    let mut signals = start::signals()?;
    let coordinator = start::connect(&resign.backend.find()?, None, &mut signals).await?;
    let election = coordinator.election(&resign.name);
    let outcome = tokio::select! {
        biased;
        signal = signals.ending() => Outcome::Interrupted(signal),
        done = ask_in_time(&election, resign) => done.unwrap_or_else(|outcome| outcome),
    };
    drop(election);
    start::close(&coordinator).await;
    Ok(outcome)
}

async fn ask_in_time(election: &Election, resign: &Resign) -> Result<Outcome, Outcome> {
    let Some(limit) = resign.wait else { return ask(election, resign).await };
    timeout(limit, ask(election, resign)).await.unwrap_or_else(|_| {
        let limit = humantime::format_duration(limit);
        let why = format!("the leader of '{}' has not resigned within {limit}: the request is withdrawn", resign.name);
        Err(Outcome::Failed { code: code::NOT_ACQUIRED, why })
    })
}

async fn ask(election: &Election, resign: &Resign) -> Result<Outcome, Outcome> {
    let somebody_leads = election.leader().await?.is_some();
    let to = match &resign.to {
        Some(to) if somebody_leads => Some(chosen(&election.candidates().await?, to)?),
        _ => None,
    };
    let next = if somebody_leads { asked(election, to.as_ref()).await? } else { None };
    let is_other = to.is_some() && next.as_ref().map(|leader| &leader.id) != to.as_ref();
    print(show::leader(next.map(Shown::from).as_ref(), resign.json)).await?;
    if is_other {
        let to = resign.to.as_deref().unwrap_or_default();
        let why = format!("the leader of '{}' has resigned, but '{to}' has vanished, and does not lead", resign.name);
        return Err(Outcome::Failed { code: 1, why });
    }
    Ok(Outcome::Completed(End::Code((!somebody_leads).into())))
}

/// What the leader has done of it. The chosen one stood in line a moment ago; if it has gone since, that is no fault of the settings.
async fn asked(election: &Election, to: Option<&ContenderId>) -> Result<Option<Leader>, Outcome> {
    let answer = election.ask_to_resign(to).await;
    if let (Err(error), Some(to)) = (&answer, to)
        && error.kind() == ErrorKind::Config
        && election.candidates().await.is_ok_and(|all| all.iter().all(|candidate| candidate.id != *to))
    {
        return Err(Outcome::Failed { code: code::USAGE, why: error.report() });
    }
    Ok(answer?)
}

/// The candidate with this id, or the only one with this value.
fn chosen(candidates: &[Leader], to: &str) -> Result<ContenderId, Outcome> {
    let refused = |why: String| Outcome::Failed { code: code::USAGE, why };
    if let Some(candidate) = candidates.iter().find(|candidate| candidate.id.as_str() == to) {
        return Ok(candidate.id.clone());
    }
    let mut same = candidates.iter().filter(|candidate| candidate.value == to.as_bytes());
    match (same.next(), same.count()) {
        (Some(candidate), 0) => Ok(candidate.id.clone()),
        (Some(_), others) => Err(refused(format!(
            "{} candidates have the value '{to}': write the id of one, as tenure observe --candidates shows it",
            others + 1
        ))),
        (None, _) => {
            Err(refused(format!("there is no candidate '{to}': write one that tenure observe --candidates shows")))
        }
    }
}
