//! The grants of a history, put together from what the workers noted.

use std::collections::HashMap;

use tenure_core::FencingToken;

use super::{Answer, Event, Micros, What};

/// One grant, as its owner saw it.
#[derive(Clone, Debug)]
pub(super) struct Grant {
    pub(super) owner: String,
    pub(super) token: FencingToken,
    /// Before it was asked for.
    pub(super) asked: Micros,
    /// After it was granted.
    pub(super) granted: Micros,
    /// The first and the last time at which it was certainly held.
    pub(super) held: Option<(Micros, Micros)>,
    /// When the fence first refused it.
    pub(super) refused: Option<Micros>,
    pub(super) lost: bool,
}

/// Who noted it.
pub(super) fn owner(event: &Event) -> String {
    format!("{}.{}", event.worker, event.life)
}

/// A worker does one thing at a time: what it notes after a grant belongs to that grant, up to the next.
pub(super) fn grants(events: &[Event]) -> Vec<Grant> {
    let mut grants: Vec<Grant> = Vec::new();
    let (mut asked, mut current) = (HashMap::new(), HashMap::new());
    for event in events {
        let process = (event.worker, event.life);
        if let What::Granted { token } = event.what {
            current.insert(process, grants.len());
            grants.push(Grant {
                owner: owner(event),
                token,
                asked: asked.get(&process).copied().unwrap_or(event.at),
                granted: event.at,
                held: None,
                refused: None,
                lost: false,
            });
        } else if matches!(event.what, What::Asking) {
            asked.insert(process, event.at);
        } else if let Some(grant) = current.get(&process).and_then(|index: &usize| grants.get_mut(*index)) {
            grant.add(event);
        }
    }
    grants
}

impl Grant {
    fn add(&mut self, event: &Event) {
        match event.what {
            What::Holding { .. } => {
                let (from, to) = self.held.unwrap_or((event.at, event.at));
                self.held = Some((from.min(event.at), to.max(event.at)));
            }
            What::Read { answer: Answer::Refused(_), .. } | What::Wrote { answer: Answer::Refused(_), .. } => {
                self.refused.get_or_insert(event.at);
            }
            What::Lost { .. } => self.lost = true,
            _ => {}
        }
    }
}
