//! What is known of the election, for whoever asks. The election writes it, and judges nothing; who reads it asks the clock.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use serde::Serialize;
use tenure::{Clock, Coordinator, Moment, State};

use crate::show::Shown;

/// Where it is written.
#[derive(Debug)]
pub(crate) struct Board {
    name: String,
    backend: String,
    coordinator: Coordinator,
    clock: Clock,
    notes: Mutex<Notes>,
}

/// Ourselves, while we lead.
#[derive(Clone, Debug)]
pub(crate) struct Office {
    pub(crate) leader: Shown,
    pub(crate) state: State,
}

#[derive(Debug, Default)]
struct Notes {
    /// As observed; nothing at first.
    leader: Option<Option<Shown>>,
    /// Until when that stands, unless the session is confirmed before.
    stands: Option<Moment>,
    office: Option<Office>,
    /// The token of the last leader.
    last: Option<u64>,
    transitions: u64,
    terms: u64,
    lost: u64,
    /// Until when somebody was told that we lead.
    promised: Option<Moment>,
}

/// What is true at the time of the question.
#[derive(Debug, Serialize)]
pub(crate) struct View {
    pub(crate) name: String,
    pub(crate) backend: String,
    /// Whether it is known who leads. If not, `leader` is null.
    pub(crate) known: bool,
    pub(crate) leader: Option<Shown>,
    /// Whether it is us.
    pub(crate) leads: bool,
    pub(crate) token: Option<u64>,
    /// The time to our deadline.
    pub(crate) deadline_ms: Option<u64>,
    pub(crate) session_held: bool,
    pub(crate) in_jeopardy: bool,
    #[serde(skip)]
    pub(crate) left: Duration,
    #[serde(skip)]
    pub(crate) transitions: u64,
    #[serde(skip)]
    pub(crate) terms: u64,
    #[serde(skip)]
    pub(crate) lost: u64,
}

impl Board {
    pub(crate) fn new(name: &str, backend: &str, coordinator: Coordinator) -> Self {
        let (name, backend) = (name.to_owned(), backend.to_owned());
        Self { name, backend, coordinator, clock: Clock::system(), notes: Mutex::default() }
    }

    /// This one leads; or nobody is known to, since it cannot be observed any more.
    pub(crate) fn sees(&self, leader: Option<Option<Shown>>) {
        let mut notes = self.notes();
        if let Some(Some(leader)) = &leader {
            notes.leads(leader.token);
        }
        notes.stands = leader.as_ref().and_then(|_| self.session());
        notes.leader = leader;
    }

    /// Whether what was seen stands, since the session has been held without a gap. To be asked again before long.
    pub(crate) fn confirms(&self) -> bool {
        let mut notes = self.notes();
        let is_whole = notes.stands.is_some_and(|stands| !self.clock.has_passed(stands));
        notes.stands = self.session().filter(|_| is_whole);
        notes.stands.is_some()
    }

    /// We lead, and it stands so; or not any more.
    pub(crate) fn leads(&self, office: Option<Office>) {
        let mut notes = self.notes();
        match (&notes.office, &office) {
            (None, Some(office)) => {
                let token = office.leader.token;
                notes.terms += 1;
                notes.leads(token);
            }
            (Some(before), None) => {
                let is_old = |leader: &Shown| leader.id == before.leader.id;
                if notes.leader.as_ref().is_some_and(|leader| leader.as_ref().is_some_and(is_old)) {
                    notes.leader = None; // whoever comes next will be observed, or that nobody does
                }
            }
            _ => {}
        }
        notes.office = office;
    }

    /// A term of ours was not given up, but lost.
    pub(crate) fn loses(&self) {
        self.notes().lost += 1;
    }

    /// Until when somebody may act on what was told.
    pub(crate) fn promised(&self) -> Option<Moment> {
        self.notes().promised
    }

    /// How things stand now, for somebody who may act on it until our deadline.
    pub(crate) fn promise(&self) -> View {
        let mut notes = self.notes();
        let view = self.view_of(&notes);
        let deadline = notes.office.as_ref().filter(|_| view.leads).and_then(|office| deadline(office.state));
        notes.promised = deadline.or(notes.promised);
        view
    }

    /// How things stand now, for somebody who only looks.
    pub(crate) fn view(&self) -> View {
        self.view_of(&self.notes())
    }

    fn view_of(&self, notes: &Notes) -> View {
        let session = self.coordinator.session_state().filter(|state| self.time_left(*state).is_some());
        let office = notes.office.as_ref().and_then(|office| Some((office, self.left(office)?)));
        let stands = notes.stands.is_some_and(|stands| !self.clock.has_passed(stands));
        let observed = notes.leader.clone().filter(|_| session.is_some() && stands);
        let leader = office.map(|(office, _)| Some(office.leader.clone())).or(observed);
        View {
            name: self.name.clone(),
            backend: self.backend.clone(),
            known: leader.is_some(),
            leader: leader.flatten(),
            leads: office.is_some(),
            token: office.map(|(office, _)| office.leader.token),
            deadline_ms: office.map(|(_, left)| u64::try_from(left.as_millis()).unwrap_or(u64::MAX)),
            session_held: session.is_some(),
            in_jeopardy: matches!(session, Some(State::InJeopardy { .. })),
            left: office.map(|(_, left)| left).unwrap_or_default(),
            transitions: notes.transitions,
            terms: notes.terms,
            lost: notes.lost,
        }
    }

    /// The deadline of the session, if it is held.
    fn session(&self) -> Option<Moment> {
        self.coordinator.session_state().filter(|state| self.time_left(*state).is_some()).and_then(deadline)
    }

    fn left(&self, office: &Office) -> Option<Duration> {
        self.time_left(office.state)
    }

    fn time_left(&self, state: State) -> Option<Duration> {
        deadline(state).map(|deadline| self.clock.until(deadline)).filter(|left| !left.is_zero())
    }

    fn notes(&self) -> std::sync::MutexGuard<'_, Notes> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn deadline(state: State) -> Option<Moment> {
    match state {
        State::Held { deadline } | State::InJeopardy { deadline } => Some(deadline),
        State::Lost(_) => None,
    }
}

impl Notes {
    fn leads(&mut self, token: u64) {
        if self.last.is_none_or(|last| last < token) {
            self.transitions += u64::from(self.last.is_some());
            self.last = Some(token);
        }
    }
}

impl View {
    pub(crate) fn to_json(&self) -> String {
        String::from_utf8(crate::protocol::line(self)).unwrap_or_default()
    }
}
