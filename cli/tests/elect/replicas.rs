//! Replicas of a service that a leader serves, on whatever backend the room is for.
#![allow(dead_code, unreachable_pub, reason = "every test program uses a part of it")]

use std::{
    env,
    fs::File,
    thread,
    time::{Duration, Instant},
};

use rustix::process::Signal;

use crate::{
    ledger::{self, BODY, Term, longest_gap},
    support::{Room, Running, found, send, text, until},
};

/// From the end of one body to the start of the next, what a busy machine may add: no ttl is waited for.
pub const HAND_OVER: Duration = Duration::from_millis(1500);
/// What a busy machine may add to the ttl.
const SLACK: Duration = Duration::from_millis(2500);

/// How many kinds of faults [`Replicas::fault`] knows.
pub const FAULTS: u32 = 6;

pub fn rounds() -> u32 {
    wanted().unwrap_or(5)
}

/// So many of each of some kinds: `TENURE_ROUNDS`, or `default`.
pub fn rounds_of_each(kinds: u32, default: u32) -> u32 {
    kinds * wanted().unwrap_or(default)
}

fn wanted() -> Option<u32> {
    env::var("TENURE_ROUNDS").ok().and_then(|text| text.parse().ok())
}

/// A replica, and its name.
pub struct Replica {
    pub name: String,
    pub process: Running,
}

/// Replicas, and an observer.
pub struct Replicas {
    pub room: Room,
    pub all: Vec<Replica>,
    /// How long a body may go on after the next one has started: not at all, unless an operator removes entries.
    pub overlap: Duration,
    /// How long a hand-over may take beside the ttl.
    pub slack: Duration,
    ttl: Duration,
    made: usize,
    faults: usize,
    observer: Running,
}

impl Replicas {
    pub fn start(room: Room, ttl: Duration, count: usize) -> Self {
        let seen = File::create(room.path("seen")).expect("a file");
        let observer = Running::start(room.tenure(&["observe", "job"]).stdout(seen));
        let mut replicas =
            Self { room, all: Vec::new(), overlap: Duration::ZERO, slack: SLACK, ttl, made: 0, faults: 0, observer };
        for _ in 0..count {
            replicas.add();
        }
        replicas.until_led_after(0);
        replicas.until_candidates(count);
        replicas
    }

    /// Starts one more. What it says goes to a file.
    pub fn add(&mut self) {
        self.made += 1;
        let name = format!("r{}", self.made);
        let words = ["elect", "--value", &name, "--drain", "2s", "job", "--", "sh", "-c", BODY, &name];
        let said = File::create(self.room.path(&format!("{name}.err"))).expect("a file");
        let process = Running::start(self.room.tenure(&words).stderr(said));
        self.all.push(Replica { name, process });
    }

    pub fn terms(&self) -> Vec<Term> {
        let text = self.room.read("ledger");
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        ledger::terms_but(&text[..whole], self.overlap)
    }

    /// Waits for a term with a higher token.
    pub fn until_led_after(&self, token: u64) -> Term {
        found("the next leader", || self.terms().pop().filter(|term| term.token > token))
    }

    /// Waits until so many stand in line, the leader included.
    pub fn until_candidates(&self, count: usize) {
        until("the candidates", || self.candidates().len() == count);
    }

    /// As `tenure observe --candidates` shows them: token, id and value.
    pub fn candidates(&self) -> Vec<[String; 3]> {
        let output = self.room.run(&["observe", "--candidates", "job"]);
        let line = |line: &str| line.splitn(3, ' ').map(str::to_owned).collect::<Vec<_>>().try_into().expect("three");
        text(&output.stdout).lines().map(line).collect()
    }

    pub fn position(&self, name: &str) -> usize {
        self.all.iter().position(|replica| replica.name == name).expect("it is one of us")
    }

    /// Does something to the leader: the next one leads within the ttl. Returns the one that was harmed, the term before, and how long it took.
    pub fn harm(&mut self, harm: impl FnOnce(&Room, &mut Replica)) -> (usize, Term, Duration) {
        let before = self.terms().pop().expect("somebody leads");
        let position = self.position(&before.name);
        let start = Instant::now();
        harm(&self.room, &mut self.all[position]);
        self.until_led_after(before.token);
        let took = start.elapsed();
        assert!(took < self.ttl + self.slack, "it took {took:?}");
        let terms = self.terms();
        let before = terms.into_iter().find(|term| term.token == before.token).expect("it was there");
        (position, before, took)
    }

    /// Asks the leader to resign: in favour of a candidate, if one is named.
    pub fn resigns(&mut self, to: Option<&str>) -> (usize, Term, Duration) {
        let words = [&["resign", "-w", "20"][..], &to.map_or(vec![], |to| vec!["--to", to]), &["job"]].concat();
        self.harm(|room, _| {
            let output = room.run(&words);
            assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        })
    }

    /// The next one of the faults that are the same on every backend, and what it takes to have all of them in line again.
    pub fn fault(&mut self, round: u32) {
        let chosen = found("three candidates", || self.candidates().into_iter().nth(2));
        let (what, (position, before, took)) = match round % FAULTS {
            0 => ("kill -9", self.harm(|_, leader| leader.process.signal(Signal::KILL))),
            1 => ("stopped", self.harm(|_, leader| leader.process.signal(Signal::STOP))),
            2 => ("resigns", self.resigns(None)),
            3 => ("TERM", self.harm(|_, leader| leader.process.signal(Signal::TERM))),
            4 => ("a killed watchdog", self.harm(|_, leader| send(leader.process.watchdog(), Signal::KILL))),
            _ => ("resigns to the third", self.resigns(Some(&chosen[1]))),
        };
        println!("{what}, round {round}: {took:?}");
        self.faults += 1;
        match round % FAULTS {
            0 | 3 => {
                self.all.remove(position);
                self.add();
            }
            1 => self.all[position].process.signal(Signal::CONT),
            5 => assert_eq!(self.terms().pop().expect("somebody leads").name, chosen[2], "the chosen one leads"),
            _ => {}
        }
        assert!(before.stopped || ![2, 3, 5].contains(&(round % FAULTS)), "{what}: not in good order");
        self.until_candidates(3);
    }

    /// Replaces all, one after the other: a new one is there before an old one is told to end.
    pub fn replace_all(&mut self) {
        for name in self.all.iter().map(|replica| replica.name.clone()).collect::<Vec<_>>() {
            self.add();
            self.until_candidates(4);
            let position = self.position(&name);
            let mut old = self.all.remove(position);
            let before = self.terms().pop().expect("somebody leads");
            old.process.signal(Signal::TERM);
            assert_eq!(old.process.code(), if before.name == name { 0 } else { 143 }, "{name}");
            if before.name == name {
                self.until_led_after(before.token);
            }
            let now = self.terms().pop().expect("somebody leads");
            assert_eq!(now.token == before.token, before.name != name, "only the end of a leader moves anything");
        }
    }

    /// Replaces all so often: there is never a gap much longer than that of one hand-over, which is measured first. Whatever the ttl.
    pub fn rolls(mut self, rounds: u32) {
        self.resigns(None);
        self.until_candidates(3);
        let single = longest_gap(&self.terms());
        for _ in 0..rounds {
            self.replace_all();
        }
        let terms = self.end();
        println!("{} terms, at most {:?} between two; {single:?} in one hand-over", terms.len(), longest_gap(&terms));
        assert!(terms.iter().all(|term| term.stopped), "starts and stops are paired");
        assert!(longest_gap(&terms) < single + HAND_OVER, "{:?}", longest_gap(&terms));
    }

    /// Ends what is left, one after the other; everything was in order, and the observer has seen who led last.
    pub fn end(mut self) -> Vec<Term> {
        let last = self.terms().pop().expect("somebody leads");
        until("the observer to see the last one", || {
            self.room.read("seen").lines().last() == Some(&format!("{} {}", last.token, last.name))
        });
        // Those behind first, so that nobody leads for a moment only.
        self.all.sort_by_key(|replica| replica.name == last.name);
        for mut replica in std::mem::take(&mut self.all) {
            replica.process.signal(Signal::TERM);
            let code = replica.process.code();
            assert!([0, 143].contains(&code), "{}: {code}", replica.name);
        }
        until("the observer to see that", || self.room.read("seen").lines().last() == Some("-"));
        self.observer.signal(Signal::TERM);
        assert_eq!(self.observer.code(), 143);
        self.check_seen();
        thread::sleep(Duration::from_millis(100)); // a body that is left would write
        let terms = self.terms();
        assert!(terms.last().is_some_and(|term| term.token == last.token && term.stopped), "{:?}", terms.last());
        let (told, wanted) = (self.told(), self.faults + 1);
        let paired = (wanted..=wanted + told).contains(&terms.len());
        assert!(self.faults == 0 || paired, "{} faults, {told} times about to be lost, but {terms:?}", self.faults);
        until("the end of every body that has started", || self.room.inhabitants().is_empty());
        terms
    }

    /// How often a machine that was too busy for keep-alives has ended a term.
    fn told(&self) -> usize {
        let said = (1..=self.made).map(|number| self.room.read(&format!("r{number}.err")));
        said.map(|said| said.matches("is about to be lost").count()).sum()
    }

    /// Observers name nobody but those who led, in that order.
    fn check_seen(&self) {
        let seen = self.room.read("seen");
        let tokens: Vec<u64> = seen.lines().filter_map(|line| line.split(' ').next()?.parse().ok()).collect();
        assert!(tokens.windows(2).all(|pair| pair[0] < pair[1]), "{seen}");
    }
}
