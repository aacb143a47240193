//! Where things stand in ZooKeeper.
//!
//! An entry is the node `/namespace/name/_c_<id>-lock-NNNNNNNNNN`, made sequential, so that Curator's `InterProcessMutex` and kazoo's `Lock`
//! with `extra_lock_patterns=["-lock-"]` wait for it, and are woken by it. Whatever in a queue ends in ten digits is an entry too, a
//! stranger's; anything else is none. Whatever else we keep is under `/namespace/.tenure`: no queue is called so, since names are escaped to
//! letters, digits, `-`, `_` and `%XX`.
//!
//! The order is that of the ten digits. The servers count them per queue in the order of the transactions, so it is the order of `czxid` too
//! (contract clauses 1 and 2), and a list of names is enough to know it. The count begins anew if the node of the queue is removed,
//! which takes that nobody is in it, and ends at 2^31 - 1. After that the servers give this number again and again, or numbers below zero, and
//! refuse nothing: who came last could be the first. So nobody of ours stays in a queue under such a number (`has_place`).

use tenure_core::{Contender, ContenderId, QueueName, Snapshot};

use crate::link::Children;

const BEFORE_ID: &str = "_c_";
const AFTER_ID: &str = "-lock-";
const DIGITS: usize = 10;

/// The nodes of one namespace.
#[derive(Clone, Debug)]
pub(crate) struct Keys {
    root: String,
}

impl Keys {
    /// The part that no namespace may have, since our own nodes have it.
    pub(crate) const RESERVED: &str = ".tenure";

    /// Of a namespace without `/` at its ends; empty for the root.
    pub(crate) fn new(namespace: &str) -> Self {
        Self { root: if namespace.is_empty() { String::new() } else { format!("/{namespace}") } }
    }

    pub(crate) fn queue(&self, queue: &QueueName) -> String {
        let mut name = queue.escaped();
        // It would look like an entry where the namespace is somebody's queue; or it is ZooKeeper's own.
        if sequence(&name).is_some() || (self.root.is_empty() && name == "zookeeper") {
            let last = name.pop().map_or(0, u32::from);
            name.push_str(&format!("%{last:02X}"));
        }
        format!("{}/{name}", self.root)
    }

    /// What the sessions stand in. It counts them by the version of its value.
    pub(crate) fn sessions(&self) -> String {
        format!("{}/{}/sessions", self.root, Self::RESERVED)
    }

    /// What the data of a queue stands in.
    pub(crate) fn data(&self, queue: &QueueName) -> String {
        format!("{}/{}/data/{}", self.root, Self::RESERVED, queue.escaped())
    }

    pub(crate) fn token_base(&self) -> String {
        format!("{}/{}/token_base", self.root, Self::RESERVED)
    }
}

/// What the path of an entry begins with, up to its ten digits.
pub(crate) fn prefix(queue: &str, id: &ContenderId) -> String {
    format!("{queue}/{BEFORE_ID}{id}{AFTER_ID}")
}

/// The queue at this path, as its children show it.
pub(crate) fn snapshot(revision: u64, queue: &str, children: &Children) -> Snapshot {
    let entry = |name: &String| Some((sequence(name)?, contender(queue, children.parent.made, name)));
    let mut entries: Vec<_> = children.names.iter().filter_map(entry).collect();
    entries.sort_by(|(one, first), (other, second)| one.cmp(other).then_with(|| first.key.cmp(&second.key)));
    Snapshot { revision, queue: entries.into_iter().map(|(_, contender)| contender).collect() }
}

/// The paths of the entries with this id, first to last.
pub(crate) fn paths_with(queue: &str, id: &ContenderId, children: &Children) -> Vec<String> {
    snapshot(0, queue, children).queue.iter().filter(|who| who.id == *id).map(|who| path_of(who).to_owned()).collect()
}

/// What a contender's `key` is: its path, and the number of the queue's node, which tells it from one in a queue made anew.
fn contender(queue: &str, incarnation: i64, name: &str) -> Contender {
    let ours = name.strip_prefix(BEFORE_ID).and_then(|rest| {
        let rest = &rest[..rest.len() - DIGITS];
        rest.strip_suffix(AFTER_ID).or_else(|| rest.strip_suffix('-')?.strip_suffix(AFTER_ID)) // below zero
    });
    let id = ours.map(ContenderId::from_backend).filter(|id| id.mode().is_some()).unwrap_or_else(|| {
        // A stranger's name that looks like an id of ours is none.
        let id = ContenderId::from_backend(name);
        if id.mode().is_some() { ContenderId::from_backend(format!("./{name}")) } else { id }
    });
    Contender { id, key: format!("{queue}/{name}@{incarnation:x}").into() }
}

/// The path of a contender.
pub(crate) fn path_of(who: &Contender) -> &str {
    who.key.rsplit_once('@').map_or(&*who.key, |(path, _)| path)
}

/// Whether the contender stands in this incarnation of its queue.
pub(crate) fn is_in(who: &Contender, incarnation: i64) -> bool {
    who.key.rsplit_once('@').is_some_and(|(_, known)| known == format!("{incarnation:x}"))
}

/// Whether the number at the end of this path, which begins with the prefix, is one that no other entry of the queue has or will have. The last
/// one that the servers count to is not: they give it again.
pub(crate) fn has_place(entry: &str, prefix: &str) -> bool {
    let number = entry.strip_prefix(prefix).and_then(|number| number.parse::<i32>().ok());
    number.is_some_and(|number| (0..i32::MAX).contains(&number))
}

/// The place in its queue of a node of this name; `None` for what is no entry. After 2^31 - 1 the servers may count below zero: what has
/// a sign comes later than what has none.
fn sequence(name: &str) -> Option<u64> {
    let (rest, digits) = name.split_at_checked(name.len().checked_sub(DIGITS)?)?;
    let number: u64 = digits.bytes().all(|b| b.is_ascii_digit()).then(|| digits.parse().ok())??;
    // A lower number of ten digits would not need that many behind a sign: then the sign is a part of the name before it.
    let negative = number >= 1_000_000_000 && (rest.ends_with("--") || rest.ends_with("_-"));
    Some(if negative { (1_u64 << 32).saturating_sub(number) } else { number })
}

#[cfg(test)]
mod tests {
    use tenure_core::Mode;

    use super::*;
    use crate::link::Node;

    fn name(text: &str) -> QueueName {
        QueueName::new(text).expect("a good name")
    }

    fn children(names: &[&str]) -> Children {
        let parent = Node { made: 0x2a, changed: 0x2a, version: 0, owner: 0 };
        Children { names: names.iter().map(ToString::to_string).collect(), parent }
    }

    #[test]
    fn entries_of_all_families_stand_in_the_order_of_their_digits() {
        let id = ContenderId::random(Mode::Read);
        let ours = format!("_c_{id}-lock-0000000010");
        let names = [
            "_c_5c1ba5b4-5a51-4b1f-b1a7-4a3ea21ae63a-lock-0000000011",
            &ours,
            "config",
            "4d5c06ac1bd04d1eb1b9b1dbb9ee94e8__lock__0000000009",
            "x-7205759-0000000002",
            "_c_-lock-",
            "n\u{e4}me-lock-000000001",
            "_c_w-lock--2147483648",
        ];
        let seen = snapshot(7, "/n/q", &children(&names));
        let found: Vec<_> = seen.queue.iter().map(|who| (who.id.as_str(), who.id.mode())).collect();
        assert_eq!(
            found,
            [(names[4], None), (names[3], None), (id.as_str(), Some(Mode::Read)), (names[0], None), (names[7], None)]
        );
        assert_eq!((path_of(&seen.queue[2]), seen.revision), (&*format!("/n/q/{ours}"), 7));
        assert!(is_in(&seen.queue[2], 0x2a) && !is_in(&seen.queue[2], 0x2b));
        assert_eq!(paths_with("/n/q", &id, &children(&names)), [format!("/n/q/{ours}")]);
        assert_eq!(format!("{}0000000010", prefix("/n/q", &id)), format!("/n/q/{ours}"));
    }

    #[test]
    fn the_last_number_and_those_below_zero_are_nobodys_place() {
        let prefix = prefix("/n/q", &ContenderId::random(Mode::Write));
        for (number, has) in [
            ("0000000000", true),
            ("2147483646", true),
            ("2147483647", false),
            ("-2147483648", false),
            ("-000000001", false),
        ] {
            assert_eq!(has_place(&format!("{prefix}{number}"), &prefix), has, "{number}");
        }
    }

    /// Or nobody would find it to remove it.
    #[test]
    fn an_entry_below_zero_is_known_for_ours() {
        let id = ContenderId::random(Mode::Write);
        let seen = snapshot(0, "/q", &children(&[&format!("_c_{id}-lock--2147483648")]));
        assert_eq!(seen.queue[0].id, id);
    }

    #[test]
    fn strangers_are_exclusive_whatever_they_are_called() {
        let hex = "0".repeat(32);
        for odd in [format!("w{hex}"), format!("r{hex}"), format!("p3-{hex}"), format!("_c_x{hex}-lock-0000000001")] {
            let seen = snapshot(0, "/q", &children(&[&odd]));
            assert_eq!(seen.queue[0].id.mode(), None, "{odd}");
        }
    }

    #[test]
    fn no_two_queues_share_a_node_and_none_looks_like_an_entry_or_is_our_own() {
        let names =
            ["a", "a/", "a/b", "ab", "a%2Fb", ".", "..", ".tenure", "zookeeper", "job0000000001", "job000000000%31"];
        let spaces = ["", "a", "a/b", "b"];
        let mut all = Vec::new();
        for keys in spaces.map(Keys::new) {
            all.extend(names.iter().map(|text| keys.queue(&name(text))));
        }
        for path in &all {
            assert!(path.rsplit('/').next().and_then(sequence).is_none(), "{path} looks like an entry");
            assert!(!path.starts_with("/zookeeper") && !path.contains("/.tenure"), "{path}");
        }
        assert_eq!(Keys::new("billing").queue(&name("invoices")), "/billing/invoices");
        assert_eq!(Keys::new("").queue(&name("a")), "/a");
        let count = all.len();
        all.sort();
        all.dedup();
        assert_eq!(all.len(), count, "two queues are one");
    }
}
