//! `tenure observe` and `tenure resign`.

use std::time::Duration;

use clap::Args;

use super::duration;
use crate::settings::Where;

/// `tenure observe`.
#[derive(Debug, Args)]
pub(crate) struct Observe {
    /// Write a JSON object for each line.
    #[arg(long)]
    pub(crate) json: bool,

    /// Tell who leads now, and exit: with 0, or with 1 if nobody does.
    #[arg(long)]
    pub(crate) once: bool,

    /// Tell who leads now and who waits, in their order, a line each with TOKEN ID VALUE; and exit as with --once.
    #[arg(long, conflicts_with = "once")]
    pub(crate) candidates: bool,

    /// Tell who has led, the oldest term first, and exit with 0, or with 1 if there is no history.
    ///
    /// A line for each term of a candidate with --history, the last 100 at most, with columns that a tab divides: TOKEN, when it began, when
    /// it ended (- while it goes on, or nobody with --history has led since; ? if nobody saw it), why, VALUE. Times are those of the leaders' wall clocks.
    #[arg(long, conflicts_with_all = ["once", "candidates"])]
    pub(crate) history: bool,

    #[command(flatten)]
    pub(crate) backend: Where,

    /// The election.
    pub(crate) name: String,
}

/// `tenure resign`.
#[derive(Debug, Args)]
pub(crate) struct Resign {
    /// Who is to lead next: the id of a candidate, as tenure observe --candidates shows it, or its value if no other one has the same.
    #[arg(long, value_name = "ID|VALUE")]
    pub(crate) to: Option<String>,

    /// Wait no longer than this (5, 1.5, 10s, 2m), then withdraw the request and exit with 75.
    #[arg(short = 'w', long, value_name = "SECONDS", value_parser = duration)]
    pub(crate) wait: Option<Duration>,

    /// Write the new leader as a JSON object.
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) backend: Where,

    /// The election.
    pub(crate) name: String,
}

pub(super) const OBSERVE_ABOUT: &str = "\
Tell who leads, now and after each change.

Writes a line for each change of leader or value: TOKEN VALUE, or - while nobody leads. Control characters, what is no UTF-8, and \\ are \
written with a \\ before them. With --json: {\"leader\":{\"value\":..,\"token\":..,\"id\":..}} or {\"leader\":null}; a value that is no UTF-8 is \
in value_base64 instead.";

pub(super) const OBSERVE_MORE: &str = "\
What is guaranteed:
  Lines come in the order of what happened, and the last one is true for as long
  as nothing changes. A line never names anyone but who was first in line after
  the line before it. A history names nobody but those who have led, in order.

What is not:
  A line can be late, and over when it is read: who must not be wrong has to check
  tokens. What came and went between two looks is left out. While the backend is
  away nothing is written. A history has gaps: leaders without --history, locks and
  other programs are not in it, nor what could not be written. Who died or lost the
  leadership could not note it: whoever led next did: unseen, before TOKEN.

Exit codes: 0, or 1 with --once if nobody leads, or with --history if there is none; 141 when nobody reads any more;
128+n for a signal; else as tenure lock.";

pub(super) const RESIGN_ABOUT: &str = "\
Ask the leader to resign, in favour of the next in line or of one that is chosen.

Waits until it has, and writes the new leader as tenure observe does: a line with TOKEN VALUE, or - if nobody leads now. The old one \
ends its command first, and queues up again behind the others.";

pub(super) const RESIGN_MORE: &str = "\
What is guaranteed:
  With 0, the leader of the time of the call has resigned, and the chosen one has
  led since; if the chosen one leads already, nobody has to resign. If it vanishes,
  the next in line leads, and it exits with 1.

What is not:
  Only a tenure elect obeys, or a program that uses the library so. A tenure lock
  and an etcdctl do not: give a limit with -w. Interrupted, the request is
  withdrawn, but it may have been obeyed.

Exit codes: 0 it has resigned, 1 nobody leads or the chosen one has vanished, 75 not
in time, 64 there is no such candidate; else as tenure lock.";
