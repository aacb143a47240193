//! What the bodies have written: one line at a time, all into one file, in the order in which it happened.
#![allow(dead_code, unreachable_pub, reason = "every test program uses a part of it")]

use std::time::Duration;

/// A command that says when it starts, that it still runs, and when it stops; with its token, its name and the time.
pub const BODY: &str = "
    exec 2> /dev/null # the shell tells of children that TERM has ended
    name=$0
    say() { read up idle < /proc/uptime; echo \"$1 $TENURE_TOKEN $name $up\" >> ledger; }
    trap 'say stop; exit 0' TERM
    say start
    while :; do sleep 0.03; say beat; done
";

/// One body, from its first line to its last.
#[derive(Clone, Debug)]
pub struct Term {
    pub token: u64,
    pub name: String,
    pub from: Duration,
    pub to: Duration,
    /// It has ended in good order.
    pub stopped: bool,
}

/// All bodies in order. At most one has run at any time, with a higher token than all before it, and has started once.
pub fn terms(text: &str) -> Vec<Term> {
    terms_but(text, Duration::ZERO)
}

/// The same, but a body may go on for so long after the next one has started.
pub fn terms_but(text: &str, overlap: Duration) -> Vec<Term> {
    let mut terms = Vec::<Term>::new();
    for line in text.lines() {
        let fields: Vec<_> = line.split(' ').collect();
        let [word, token, name, up] = fields[..] else { panic!("{line}") };
        let (token, at): (u64, _) = (token.parse().expect(line), up.parse().map(Duration::from_secs_f64).expect(line));
        if word == "start" {
            assert!(terms.last().is_none_or(|last| last.token < token), "tokens do not rise: {line}");
            terms.push(Term { token, name: name.to_owned(), from: at, to: at, stopped: false });
            continue;
        }
        let next = terms.iter().find(|term| term.token > token).map(|next| next.from);
        assert!(next.is_none_or(|next| !overlap.is_zero() && at <= next + overlap), "two bodies run: {line}");
        let term = terms.iter_mut().find(|term| (term.token, term.name.as_str()) == (token, name));
        let term = term.unwrap_or_else(|| panic!("a body that has not started: {line}"));
        assert!(!term.stopped, "it runs although it has stopped: {line}");
        (term.to, term.stopped) = (at, word == "stop");
    }
    terms
}

/// The longest time without a body, between two of them.
pub fn longest_gap(terms: &[Term]) -> Duration {
    let gaps = terms.windows(2).map(|pair| pair[1].from.saturating_sub(pair[0].to));
    gaps.max().unwrap_or_default()
}

mod tests {
    use std::{panic::catch_unwind, time::Duration};

    use super::{terms, terms_but};

    #[test]
    fn two_bodies_at_a_time_are_found() {
        let good = "start 1 a 1.0\nbeat 1 a 2.0\nstart 2 b 3.0\nstop 2 b 3.5\nstart 5 a 4.0\n";
        let ends: Vec<_> = terms(good).iter().map(|term| term.stopped).collect();
        assert_eq!(ends, [false, true, false]);
        for bad in [
            "start 2 a 1.0\nstart 1 b 2.0\n",
            "start 1 a 1.0\nstart 2 b 2.0\nbeat 1 a 2.1\n",
            "start 1 a 1.0\nstart 1 a 2.0\n",
            "start 1 a 1.0\nstop 1 a 2.0\nbeat 1 a 2.1\n",
            "beat 1 a 1.0\n",
        ] {
            assert!(catch_unwind(|| terms(bad)).is_err(), "{bad}");
        }
        let late = "start 1 a 1.0\nstart 2 b 2.0\nbeat 1 a 2.5\nbeat 2 b 2.6\n";
        assert_eq!(terms_but(late, Duration::from_secs(1)).len(), 2);
        assert!(catch_unwind(|| terms_but(late, Duration::from_millis(400))).is_err());
    }
}
