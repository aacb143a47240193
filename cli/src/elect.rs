//! `tenure elect`: campaigns, runs the command for a term, and campaigns again.

use std::{
    pin::pin,
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use rustix::process::Signal;
use tenure::{Coordinator, Election, ErrorKind, Holder, Leadership};
use tokio::time::{Instant, sleep};

use self::{
    after::{After, Pause},
    probe::Probe,
    sidecar::Sidecar,
};
use crate::{
    args::Elect,
    outcome::{self, Facts, Outcome, Subject},
    protocol::End,
    run::{Finished, Job, run},
    say,
    signals::Signals,
    start,
};

mod after;
mod probe;
#[cfg_attr(not(feature = "http"), path = "elect/no_sidecar.rs")]
mod sidecar;

/// Why a term is to end, although the leadership is still held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    /// Somebody has asked the leader to resign, or a preferred candidate has.
    Asked,
    /// The application is not well.
    Unwell,
}

/// Does it all.
pub(crate) fn main(elect: &Elect) -> ExitCode {
    let file = match start::result_file(elect.running.result_file.as_deref()) {
        Ok(file) => file,
        Err(code) => return code,
    };
    let mut facts = Facts { terms: Some(0), ..Facts::default() };
    let outcome = start::in_runtime(async {
        connect_and_elect(elect, &mut facts).await.unwrap_or_else(|outcome| outcome) // both are how it ended
    });
    outcome::tell(Subject::Leadership(&elect.name), &outcome, &facts, file)
}

async fn connect_and_elect(elect: &Elect, facts: &mut Facts) -> Result<Outcome, Outcome> {
    let mut signals = start::signals()?.of_service();
    let config = elect.backend.find()?;
    let grace = start::grace(elect.running.grace, &config)?;
    facts.backend = Some(config.backend.clone());
    let program = start::program(&elect.command);
    let sidecar = Sidecar::bind(elect)?;
    let coordinator = start::connect(&config, program.clone(), &mut signals).await?;
    let token = Arc::<AtomicU64>::default();
    let mut election = coordinator.election(&elect.name).preferred(elect.priority, elect.hysteresis);
    if let Some(command) = &elect.health_cmd {
        let probe = Probe::new(command, &elect.name, elect.health_period, token.clone());
        election = election.healthy_while(elect.health_period, move || probe.clone().asks());
    }
    if elect.history {
        election = tokio::select! {
            biased;
            signal = signals.ending() => return Err(Outcome::Interrupted(signal)),
            election = with_history(election) => election?,
        };
    }
    let value = elect.value.clone().map_or_else(|| own_value(program.as_deref()), String::into_bytes);
    let sidecar = sidecar.serve(elect, &config.backend, &coordinator)?;
    let candidate = Candidate { elect, coordinator: &coordinator, election, value, grace, token, sidecar };
    let outcome = candidate.campaign_and_lead(&mut signals, facts).await;
    drop(candidate); // who observes would open another session
    start::close(&coordinator).await;
    Ok(outcome)
}

/// Whoever asks for a history is told now if there can be none; all else about it is in nobody's way.
async fn with_history(election: Election) -> tenure::Result<Election> {
    match election.history().await {
        Err(error) if error.kind() == ErrorKind::Unsupported => Err(error),
        _ => Ok(election.with_history()),
    }
}

/// The same as that of a lock.
fn own_value(program: Option<&str>) -> Vec<u8> {
    serde_json::to_vec(&Holder::this_process(program)).unwrap_or_default()
}

struct Candidate<'a> {
    elect: &'a Elect,
    coordinator: &'a Coordinator,
    election: Election,
    value: Vec<u8>,
    grace: Duration,
    /// The present token, zero while it does not lead.
    token: Arc<AtomicU64>,
    sidecar: Sidecar,
}

impl Candidate<'_> {
    async fn campaign_and_lead(&self, signals: &mut Signals, facts: &mut Facts) -> Outcome {
        let mut pauses = Pauses::default();
        loop {
            let start = Instant::now();
            let won = tokio::select! {
                biased;
                signal = signals.ending() => return Outcome::Interrupted(signal),
                won = self.election.campaign(&self.value) => won,
            };
            facts.waited = Some(start.elapsed());
            let leadership = match won {
                Ok(leadership) => leadership,
                Err(error) => return error.into(),
            };
            facts.terms = facts.terms.map(|terms| terms + 1);
            facts.token = Some(leadership.token().get());
            let start = Instant::now();
            let finished = self.lead(leadership, signals).await;
            facts.held = Some(start.elapsed());
            match After::of(finished, self.elect) {
                After::Exits(outcome) => return outcome,
                After::Campaigns { why, pause } => {
                    say(&format!("leads '{}' no longer: {why}", self.elect.name));
                    if let Some(signal) = pauses.wait(pause, start.elapsed(), signals).await {
                        return Outcome::Interrupted(signal);
                    }
                }
            }
        }
    }

    /// One term. When it returns, nothing of the command is left, and the leadership is given up.
    async fn lead(&self, leadership: Leadership, signals: &mut Signals) -> Finished<Due> {
        let (token, subject) = (leadership.token().get(), Subject::Leadership(&self.elect.name));
        say(&format!("leads '{}' with token {token}", self.elect.name));
        self.token.store(token, Ordering::Relaxed);
        let finished = if self.elect.command.is_empty() {
            self.lead_alone(&leadership, signals).await
        } else {
            self.run_term(&leadership, signals).await
        };
        self.token.store(0, Ordering::Relaxed);
        if matches!(finished.outcome, Outcome::Lost { .. }) || !leadership.is_held() {
            self.sidecar.loses();
        }
        if leadership.is_held() {
            start::release(&subject.to_string(), self.coordinator, leadership.resign_because(&after::why(&finished)))
                .await;
        }
        finished
    }

    /// Without a command: whoever asks by HTTP acts on it. So the leadership is kept for as long as somebody may, or until the second signal.
    async fn lead_alone(&self, leadership: &Leadership, signals: &mut Signals) -> Finished<Due> {
        let (mut outcome, mut stopped, told) = {
            let _told = self.sidecar.leads(leadership, &self.value);
            tokio::select! {
                biased;
                signal = signals.ending() => (Outcome::Interrupted(signal), true, None),
                reason = leadership.lost() => (Outcome::Lost { reason: reason.to_string(), end: None }, false, None),
                why = due(leadership) => (Outcome::Completed(End::Code(0)), false, Some(why)),
            }
        };
        let mut kept = pin!(self.sidecar.keeps_word());
        loop {
            tokio::select! {
                () = &mut kept => break,
                _ = leadership.lost() => break,
                signal = signals.ending() => {
                    if stopped {
                        break;
                    }
                    (outcome, stopped) = (Outcome::Interrupted(signal), true);
                }
            }
        }
        Finished { outcome, stopped, told }
    }

    async fn run_term(&self, leadership: &Leadership, signals: &mut Signals) -> Finished<Due> {
        let _told = self.sidecar.leads(leadership, &self.value);
        let (token, due) = (Some(leadership.token().get()), due(leadership));
        let (command, grace, drain) = (&self.elect.command, self.grace, Some(self.elect.drain));
        let subject = Subject::Leadership(&self.elect.name);
        run(&Job { tenure: leadership, token, subject, command, grace, drain }, signals, due).await
    }
}

async fn due(leadership: &Leadership) -> Due {
    tokio::select! {
        Ok(()) = leadership.asked_to_resign() => Due::Asked,
        () = leadership.unwell() => Due::Unwell,
    }
}

/// Between terms that end by themselves: longer each time, unless a term was longer than the longest one.
#[derive(Debug, Default)]
struct Pauses(u32);

impl Pauses {
    const LONGEST: Duration = Duration::from_secs(30);

    /// A signal that asks to end, if there was one.
    async fn wait(&mut self, pause: Pause, term: Duration, signals: &mut Signals) -> Option<Signal> {
        self.0 = if term > Self::LONGEST { 0 } else { self.0 };
        let pause = match pause {
            Pause::None => return None,
            Pause::Short => Duration::from_secs(1),
            Pause::Growing => {
                self.0 += 1;
                Duration::from_secs(1 << (self.0 - 1).min(5)).min(Self::LONGEST)
            }
        };
        tokio::select! {
            biased;
            signal = signals.ending() => Some(signal),
            () = sleep(pause) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use tenure::{MemoryBackend, Options};
    use tenure_conformance::bare::Bare;

    use super::*;

    #[tokio::test]
    async fn a_history_that_cannot_be_is_refused_with_the_reason() {
        let coordinator = Coordinator::new(Bare::new(MemoryBackend::new()), Options::default()).expect("good options");
        let error = with_history(coordinator.election("x")).await.expect_err("there is no place for it");
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains("keeps no data behind a fence"), "{error}");
        let coordinator = Coordinator::new(MemoryBackend::new(), Options::default()).expect("good options");
        with_history(coordinator.election("x")).await.expect("it keeps data");
    }
}
