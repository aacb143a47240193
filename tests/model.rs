//! A model of a lock that expires, holders that do not know it, and a store with a fence: every order of events is tried.
//!
//! What it shows: a fence on writes alone loses updates; one that reads raise too, a version that each write compares, or a service that asks
//! with each write who holds the lock, does not. A model in which nothing can go wrong would show that as well, so each
//! kind of fence has to show what it does *not* prevent, and all of them that two can believe to hold, and that work gets done.

#![expect(clippy::print_stdout, reason = "the sizes are to be seen beside the result of the test")]

use stateright::{Checker, Model, Property};

/// What the store checks when a write arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Fence {
    Off,
    /// No token lower than the highest that has written.
    Writes,
    /// No token lower than the highest that has read or written.
    ReadsAndWrites,
    /// That nobody has written since the read.
    Version,
    /// That the writer holds the lock at this moment: `guard.fenced()`.
    Holder,
}

/// What a client believes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Client {
    Idle,
    Holds {
        token: u8,
        read: Option<Read>,
    },
    /// Its write is under way: it arrives at any time later, or never.
    Sent {
        token: u8,
        read: Read,
    },
    Dead,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Read {
    value: u8,
    version: u8,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    /// Who holds the lock as the service sees it, with the token.
    holder: Option<(usize, u8)>,
    last_token: u8,
    clients: Vec<Client>,
    value: u8,
    version: u8,
    highest: u8,
    accepted: u8,
    /// The highest token that has written.
    written: u8,
    is_stale: bool,
    has_fallen: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Acquire(usize),
    /// At any time: that a process was paused, or cut off, is nothing else.
    Expire,
    Read(usize),
    Send(usize),
    Arrive(usize),
    LoseWrite(usize),
    Release(usize),
    Die(usize),
}

struct Lock {
    clients: usize,
    tokens: u8,
    fence: Fence,
}

impl Lock {
    fn admits(&self, state: &State, token: u8, read: Read, client: usize) -> bool {
        match self.fence {
            Fence::Off => true,
            Fence::Writes | Fence::ReadsAndWrites => token >= state.highest,
            Fence::Version => read.version == state.version,
            Fence::Holder => state.holder == Some((client, token)),
        }
    }

    fn read(&self, state: &mut State, client: usize, token: u8) {
        if self.fence == Fence::ReadsAndWrites {
            if token < state.highest {
                state.clients[client] = Client::Idle; // refused: it knows now
                return;
            }
            state.highest = token;
        }
        let read = Some(Read { value: state.value, version: state.version });
        state.clients[client] = Client::Holds { token, read };
    }

    fn write(&self, state: &mut State, client: usize, token: u8, read: Read) {
        if !self.admits(state, token, read, client) {
            state.clients[client] = Client::Idle;
            return;
        }
        state.is_stale |= token < state.last_token;
        state.has_fallen |= token < state.written;
        state.written = state.written.max(token);
        state.highest = state.highest.max(token);
        (state.value, state.version, state.accepted) = (read.value + 1, state.version + 1, state.accepted + 1);
        state.clients[client] = Client::Holds { token, read: None };
    }
}

impl Model for Lock {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            holder: None,
            last_token: 0,
            clients: vec![Client::Idle; self.clients],
            value: 0,
            version: 0,
            highest: 0,
            accepted: 0,
            written: 0,
            is_stale: false,
            has_fallen: false,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if state.holder.is_some() {
            actions.push(Action::Expire);
        }
        for (client, belief) in state.clients.iter().enumerate() {
            match belief {
                Client::Dead => continue,
                Client::Idle if state.holder.is_none() && state.last_token < self.tokens => {
                    actions.push(Action::Acquire(client));
                }
                Client::Idle => {}
                Client::Holds { read: None, .. } => actions.extend([Action::Read(client), Action::Release(client)]),
                Client::Holds { .. } => actions.push(Action::Send(client)),
                // What is under way does not need its sender any more: that it dies is no case of its own.
                Client::Sent { .. } => {
                    actions.extend([Action::Arrive(client), Action::LoseWrite(client)]);
                    continue;
                }
            }
            actions.push(Action::Die(client));
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        match action {
            Action::Expire => state.holder = None,
            Action::Acquire(client) => {
                state.last_token += 1;
                state.holder = Some((client, state.last_token));
                state.clients[client] = Client::Holds { token: state.last_token, read: None };
            }
            Action::Read(client) => {
                let Client::Holds { token, .. } = state.clients[client] else { return None };
                self.read(&mut state, client, token);
            }
            Action::Send(client) => {
                let Client::Holds { token, read: Some(read) } = state.clients[client] else { return None };
                state.clients[client] = Client::Sent { token, read };
            }
            Action::Arrive(client) => {
                let Client::Sent { token, read } = state.clients[client] else { return None };
                self.write(&mut state, client, token, read);
            }
            Action::LoseWrite(client) => state.clients[client] = Client::Idle,
            Action::Die(client) => state.clients[client] = Client::Dead,
            Action::Release(client) => {
                let Client::Holds { token, .. } = state.clients[client] else { return None };
                state.holder = state.holder.filter(|holder| *holder != (client, token));
                state.clients[client] = Client::Idle;
            }
        }
        (state.accepted <= 3).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("no update is lost", |_, state: &State| state.value == state.accepted),
            Property::always("no write is accepted after a newer grant", |_, state: &State| !state.is_stale),
            Property::always("accepted tokens do not fall", |_, state: &State| !state.has_fallen),
            Property::sometimes("two believe to hold", |_, state: &State| {
                let believes = |client: &&Client| !matches!(client, Client::Idle | Client::Dead);
                state.clients.iter().filter(believes).count() >= 2
            }),
            Property::sometimes("three writes are accepted", |_, state: &State| state.accepted == 3),
        ]
    }
}

/// Which of the properties a fence breaks: updates are lost, writes are accepted after a newer grant, accepted tokens fall.
fn broken(fence: Fence) -> [bool; 3] {
    let checker = Lock { clients: 2, tokens: 3, fence }.checker().threads(2).spawn_bfs().join();
    println!("{fence:?}: {} states, depth {}", checker.unique_state_count(), checker.max_depth());
    for must_be in ["two believe to hold", "three writes are accepted"] {
        assert!(checker.discovery(must_be).is_some(), "{fence:?}: never: {must_be}");
    }
    ["no update is lost", "no write is accepted after a newer grant", "accepted tokens do not fall"]
        .map(|name| checker.discovery(name).is_some())
}

#[test]
fn without_a_fence_updates_are_lost() {
    assert_eq!(broken(Fence::Off), [true, true, true]);
}

#[test]
fn a_fence_on_writes_alone_loses_updates() {
    assert_eq!(broken(Fence::Writes), [true, true, false]);
}

/// Before a newer holder has read, nobody can tell that the older one is over.
#[test]
fn a_fence_that_reads_raise_loses_nothing() {
    assert_eq!(broken(Fence::ReadsAndWrites), [false, true, false]);
}

/// An old holder may still write, if it has read what is there: then the newer one's write is refused, and it has to read again.
#[test]
fn a_compared_version_loses_nothing_but_lets_old_holders_write() {
    assert_eq!(broken(Fence::Version), [false, true, true]);
}

#[test]
fn a_service_that_asks_who_holds_loses_nothing_and_accepts_nothing_stale() {
    assert_eq!(broken(Fence::Holder), [false, false, false]);
}
