//! Where things stand in etcd.
//!
//! An entry is `namespace/name/id`, as in the Go package `concurrency`, so that whatever waits there waits for ours, and the other way
//! round. Whatever else we keep is under `namespace/.tenure/`: no queue is called so, since names are escaped to letters, digits, `-`,
//! `_` and `%XX`. Only the direct children of a queue's prefix are its entries: what another namespace keeps below it is not.

use etcd_client::KeyValue;
use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, percent_encode};
use tenure_core::{Contender, ContenderId, DataKey, QueueName};

/// The keys of one namespace.
#[derive(Clone, Debug)]
pub(crate) struct Keys {
    root: String,
}

impl Keys {
    /// The part that no namespace may have, since our own keys have it.
    pub(crate) const RESERVED: &str = ".tenure";

    pub(crate) fn new(namespace: &str) -> Self {
        Self { root: if namespace.is_empty() { String::new() } else { format!("{namespace}/") } }
    }

    /// What all keys of a queue begin with.
    pub(crate) fn queue(&self, queue: &QueueName) -> String {
        format!("{}{}/", self.root, queue.escaped())
    }

    pub(crate) fn entry(&self, queue: &QueueName, id: &ContenderId) -> String {
        format!("{}{id}", self.queue(queue))
    }

    /// The key that stands for a session, and carries its epoch.
    pub(crate) fn session(&self, lease: i64) -> String {
        format!("{}{lease:016x}", self.sessions())
    }

    /// What the keys of all sessions begin with.
    pub(crate) fn sessions(&self) -> String {
        format!("{}{}/session-", self.root, Self::RESERVED)
    }

    /// Data of a name: below none of the prefixes that a queue has, so that nobody waits for it.
    pub(crate) fn datum(&self, queue: &QueueName, key: &DataKey) -> String {
        format!("{}{}/data/{}/{}", self.root, Self::RESERVED, queue.escaped(), key.escaped())
    }

    pub(crate) fn token_base(&self) -> String {
        format!("{}{}/token_base", self.root, Self::RESERVED)
    }
}

/// The contender that an entry under this prefix is; `None` for what is no entry.
pub(crate) fn contender(prefix: &str, entry: &KeyValue) -> Option<Contender> {
    let id = entry.key().strip_prefix(prefix.as_bytes())?;
    if id.contains(&b'/') {
        return None;
    }
    Some(Contender { id: ContenderId::from_backend(String::from_utf8_lossy(id)), key: incarnation(entry).into() })
}

/// What a contender's `key` is: the entry's key, whatever bytes a stranger made it of, and the revision that tells it from one made anew in
/// the same place.
pub(crate) fn incarnation(entry: &KeyValue) -> String {
    const ODD: AsciiSet = CONTROLS.add(b'%');
    format!("{}@{}", percent_encode(entry.key(), &ODD), entry.create_revision())
}

/// The key in etcd of a contender.
pub(crate) fn path_of(who: &Contender) -> Vec<u8> {
    percent_decode_str(who.key.rsplit_once('@').map_or(&*who.key, |(path, _)| path)).collect()
}

#[cfg(test)]
mod tests {
    use tenure_core::Mode;

    use super::*;

    fn name(text: &str) -> QueueName {
        QueueName::new(text).expect("a good name")
    }

    #[test]
    fn plain_names_stand_where_go_programs_look() {
        assert_eq!(Keys::new("billing").queue(&name("invoices")), "billing/invoices/");
        assert_eq!(Keys::new("shop/orders").queue(&name("nightly-run_2")), "shop/orders/nightly-run_2/");
        assert_eq!(Keys::new("").queue(&name("a")), "a/");
        let id = ContenderId::random(Mode::Write);
        assert_eq!(Keys::new("n").entry(&name("a"), &id), format!("n/a/{id}"));
    }

    #[test]
    fn no_two_queues_share_a_prefix_and_none_has_our_own_keys() {
        let names = ["a", "a/", "a/b", "ab", "a%2Fb", ".", "..", ".tenure", ".tenure/session-1", "session-1"];
        let spaces = ["", "a", "a/b", "b"];
        let mut prefixes = Vec::new();
        for keys in spaces.map(Keys::new) {
            prefixes.extend(names.iter().map(|text| keys.queue(&name(text))));
        }
        for keys in spaces.map(Keys::new) {
            let datum = keys.datum(&name("a"), &DataKey::new("a/b").expect("a good key"));
            for own in [keys.session(0x2a), keys.token_base(), datum] {
                let parent = &own[..=own.rfind('/').expect("it has one")];
                assert!(!prefixes.iter().any(|prefix| prefix == parent), "{own} would be an entry of a queue");
            }
        }
        let all = prefixes.len();
        prefixes.sort();
        prefixes.dedup();
        assert_eq!(prefixes.len(), all, "two queues are one");
    }

    #[test]
    fn a_session_has_one_key_whatever_its_lease() {
        let keys = Keys::new("n");
        assert_eq!(keys.session(0x694d), "n/.tenure/session-000000000000694d");
        assert_eq!(keys.session(i64::MAX).len(), keys.session(1).len());
    }
}
