//! `tenure observe`: who leads, now and after each change.

use std::{
    io::{self, ErrorKind},
    process::ExitCode,
    thread,
};

use futures_util::StreamExt;
use rustix::{
    event::{PollFd, PollFlags, poll},
    io::Errno,
    process::Signal,
};
use tenure::Election;
use tokio::sync::oneshot;

use crate::{
    args::Observe,
    outcome::{self, Facts, Outcome, Subject},
    protocol::End,
    show::{self, Shown},
    start,
};

/// Does it all.
pub(crate) fn main(observe: &Observe) -> ExitCode {
    let outcome = start::in_runtime(async { connect_and_observe(observe).await.unwrap_or_else(|outcome| outcome) });
    outcome::tell(Subject::Leadership(&observe.name), &outcome, &Facts::default(), None)
}

async fn connect_and_observe(observe: &Observe) -> Result<Outcome, Outcome> {
    let mut signals = start::signals()?;
    let coordinator = start::connect(&observe.backend.find()?, None, &mut signals).await?;
    let election = coordinator.election(&observe.name);
    let outcome = tokio::select! {
        biased;
        signal = signals.ending() => Outcome::Interrupted(signal),
        () = nobody_reads() => Outcome::Interrupted(Signal::PIPE),
        told = tell(&election, observe) => told.unwrap_or_else(|outcome| outcome),
    };
    drop(election);
    start::close(&coordinator).await;
    Ok(outcome)
}

async fn tell(election: &Election, observe: &Observe) -> Result<Outcome, Outcome> {
    let is_there = |there: bool| Outcome::Completed(End::Code((!there).into()));
    if observe.candidates {
        let candidates = election.candidates().await?;
        let nobody = candidates.is_empty();
        for candidate in candidates {
            print(show::candidate(&candidate.into(), observe.json)).await?;
        }
        return Ok(is_there(!nobody));
    }
    if observe.history {
        let terms = election.history().await?;
        for term in &terms {
            print(show::term(term, observe.json)).await?;
        }
        return Ok(is_there(!terms.is_empty()));
    }
    if observe.once {
        let leader = election.leader().await?.map(Shown::from);
        print(show::leader(leader.as_ref(), observe.json)).await?;
        return Ok(is_there(leader.is_some()));
    }
    let mut leaders = election.observe();
    while let Some(leader) = leaders.next().await {
        print(show::leader(leader?.map(Shown::from).as_ref(), observe.json)).await?;
    }
    Ok(is_there(true))
}

/// Prints to whoever reads it.
pub(crate) async fn print(line: String) -> Result<(), Outcome> {
    show::print(line).await.map_err(|error| match error.kind() {
        ErrorKind::BrokenPipe => Outcome::Interrupted(Signal::PIPE),
        _ => Outcome::failed("stdout cannot be written to", &error),
    })
}

/// Returns once stdout is a pipe that nobody reads any more: the next line may never come.
async fn nobody_reads() {
    let (told, gone) = oneshot::channel();
    // A thread of its own: it is not waited for at the end.
    let watch = move || {
        let stdout = io::stdout();
        while poll(&mut [PollFd::new(&stdout, PollFlags::empty())], None) == Err(Errno::INTR) {}
        let _ = told.send(());
    };
    if thread::Builder::new().spawn(watch).is_err() || gone.await.is_err() {
        std::future::pending().await
    }
}
