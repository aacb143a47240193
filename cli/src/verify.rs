//! `tenure verify`: whether a token is that of the present holder.

use std::{
    io::{self, IsTerminal},
    process::ExitCode,
};

use tenure::{Holder, Leader};

use crate::{
    args::Verify,
    outcome::{self, Facts, Outcome, Subject},
    protocol::End,
    say, show, start,
};

/// Does it all.
pub(crate) fn main(verify: &Verify) -> ExitCode {
    let outcome = start::in_runtime(async { connect_and_ask(verify).await.unwrap_or_else(|outcome| outcome) });
    outcome::tell(Subject::Lock(&verify.name), &outcome, &Facts::default(), None)
}

async fn connect_and_ask(verify: &Verify) -> Result<Outcome, Outcome> {
    let mut signals = start::signals()?;
    let coordinator = start::connect(&verify.backend.find()?, None, &mut signals).await?;
    let outcome = tokio::select! {
        biased;
        signal = signals.ending() => Outcome::Interrupted(signal),
        holder = coordinator.holder(&verify.name) => holder.map_or_else(Outcome::from, |holder| judge(verify, holder)),
    };
    start::close(&coordinator).await;
    Ok(outcome)
}

fn judge(verify: &Verify, holder: Option<Leader>) -> Outcome {
    if holder.as_ref().is_some_and(|holder| holder.token.get() == verify.token) {
        return Outcome::Completed(End::Code(0));
    }
    // As with a lock that is not acquired: whoever asks in a script looks at the code.
    if verify.verbose || io::stderr().is_terminal() {
        let who = holder.map_or_else(|| "nobody holds it alone".to_owned(), |holder| describe(&holder));
        say(&format!("'{}' is not held with token {}: {who}", verify.name, verify.token));
    }
    Outcome::Completed(End::Code(1))
}

fn describe(holder: &Leader) -> String {
    let who = match serde_json::from_slice::<Holder>(&holder.value) {
        Ok(Holder { host, pid, program, since, .. }) => {
            show::escaped(format!("{program} (pid {pid} on {host}, since {since})").as_bytes())
        }
        Err(_) => format!("'{}'", show::escaped(&holder.value)),
    };
    format!("token {} is, by {who}", holder.token)
}
