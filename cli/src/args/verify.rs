//! `tenure verify`.

use clap::Args;

use crate::settings::Where;

/// `tenure verify`.
#[derive(Debug, Args)]
pub(crate) struct Verify {
    /// The token that is to be that of the holder, as the holder finds it in TENURE_TOKEN.
    #[arg(long, value_name = "N")]
    pub(crate) token: u64,

    /// Say who holds it, if it is another one, also where nobody looks at a terminal.
    #[arg(short = 'v', long)]
    pub(crate) verbose: bool,

    #[command(flatten)]
    pub(crate) backend: Where,

    /// The lock or the election.
    pub(crate) name: String,
}

pub(super) const ABOUT: &str = "\
Tell by the exit code whether a token is that of the present holder.

It is true at one moment only: to ask before an act is no fence. Between the answer and what is done because of it the holder may \
change; what must never be done by two has to check the token itself, in the same step.";

pub(super) const MORE: &str = "\
What is guaranteed:
  With 0, at some moment between the call and its end, the first in the queue of
  NAME held it alone, with the token N. The service itself was asked, not a copy.
  Of another holder at that moment: 1. Shared locks and permits have no tokens: 1.

What is not:
  It may be over when the answer is read. It keeps the window small in which a
  paused holder still acts; only a receiver that refuses a token lower than the
  highest it has seen closes it.

Exit codes: 0 it is, 1 it is not; 64 usage, 69 the backend cannot be reached, 78
configuration; else as tenure lock.

Examples:
  tenure lock deploy -- sh -c 'build && tenure verify deploy --token $TENURE_TOKEN && push'
  tenure lock bills -- sh -c 'tenure verify bills --token $TENURE_TOKEN && psql -f bills.sql'
  tenure verify scheduler --token 42 -v";
