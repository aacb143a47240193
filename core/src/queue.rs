//! The words a queue is described with: its name, its contenders, and what a client saw of them.

use std::{fmt, num::NonZeroU32, sync::Arc};

use crate::{
    error::{Error, ErrorKind, Result},
    rule::Mode,
    token::FencingToken,
};

/// The largest value an entry may carry, in bytes.
pub const MAX_VALUE: usize = 64 * 1024;

/// Checks the size of a value: for backends, which refuse what is too large before they send it.
///
/// # Errors
/// `Config` if it is larger than [`MAX_VALUE`].
pub fn check_value(queue: &QueueName, value: &[u8]) -> Result<()> {
    if value.len() <= MAX_VALUE {
        return Ok(());
    }
    let message = format!("a value of {} bytes for '{queue}' is too large: write at most {MAX_VALUE}", value.len());
    Err(Error::new(ErrorKind::Config, message))
}

/// What contenders contend for: any UTF-8 of 1 to 512 bytes without NUL. Two names are the same queue only if they are equal byte by
/// byte: `a` and `a/b` are strangers, and so are `é` composed and `é` decomposed.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueueName(Arc<str>);

impl QueueName {
    /// The longest name, in bytes.
    pub const MAX_LEN: usize = 512;

    /// Checks a name.
    ///
    /// # Errors
    /// `Config` if it is empty, longer than 512 bytes, or has a NUL.
    pub fn new(name: &str) -> Result<Self> {
        checked("name", name).map(Self)
    }

    /// The name as it was given.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name of what is kept beside this queue: no user's name is equal to it, since it has a NUL.
    pub(crate) fn beside(&self, what: &str) -> Self {
        Self(format!("{}\0{what}", self.0).into())
    }

    /// The name in letters, digits, `-`, `_` and `%XX` only: for backends whose keys are paths. Different names stay different, and
    /// none becomes `.`, `..` or a path of several parts.
    pub fn escaped(&self) -> String {
        escaped(&self.0)
    }
}

/// What all names obey: those of queues, and those of the data in them.
pub(crate) fn checked(what: &str, text: &str) -> Result<Arc<str>> {
    let complaint = match text.len() {
        0 => format!("a {what} must not be empty: write 1 to 512 bytes"),
        n if n > QueueName::MAX_LEN => format!("a {what} of {n} bytes is too long: write 1 to 512 bytes"),
        _ if text.contains('\0') => format!("the {what} {text:?} has a NUL in it: leave it out"),
        _ => return Ok(text.into()),
    };
    Err(Error::new(ErrorKind::Config, complaint))
}

pub(crate) fn escaped(text: &str) -> String {
    const PLAIN: percent_encoding::AsciiSet = percent_encoding::NON_ALPHANUMERIC.remove(b'-').remove(b'_');
    percent_encoding::utf8_percent_encode(text, &PLAIN).to_string()
}

impl fmt::Display for QueueName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for QueueName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", &*self.0)
    }
}

/// Names one entry. Ours are made before the request is sent, from 128 random bits, and tell the [`Mode`]; an id of any other shape
/// belongs to a stranger. Lower-case letters, digits and `-` only.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContenderId(Arc<str>);

impl ContenderId {
    /// A new id that nobody else has.
    pub fn random(mode: Mode) -> Self {
        let mark = match mode {
            Mode::Write => "w".to_owned(),
            Mode::Read => "r".to_owned(),
            Mode::Permit(of) => format!("p{of}-"),
        };
        Self(format!("{mark}{}", random_hex()).into())
    }

    /// The id as a backend read it.
    pub fn from_backend(id: impl Into<Arc<str>>) -> Self {
        Self(id.into())
    }

    /// The id as a backend stores it.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// What the entry contends for, or `None` for a stranger's.
    pub fn mode(&self) -> Option<Mode> {
        let (mark, random) = self.0.split_at_checked(self.0.len().checked_sub(32)?)?;
        if !random.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')) {
            return None;
        }
        match mark {
            "w" => Some(Mode::Write),
            "r" => Some(Mode::Read),
            _ => {
                let of = mark.strip_prefix('p')?.strip_suffix('-')?;
                let canonical = of.bytes().all(|b| b.is_ascii_digit()) && !of.starts_with('0');
                of.parse::<NonZeroU32>().ok().filter(|_| canonical).map(Mode::Permit)
            }
        }
    }
}

impl fmt::Display for ContenderId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for ContenderId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// 128 random bits as 32 lower-case hexadecimal digits: for ids that must never meet again.
pub fn random_hex() -> String {
    let mut bytes = [0; 16];
    // An operating system that cannot give random numbers cannot run anything that needs unique ids.
    getrandom::fill(&mut bytes).expect("the operating system has random numbers");
    format!("{:032x}", u128::from_be_bytes(bytes))
}

/// One place in a queue, as a snapshot shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contender {
    /// Who it is.
    pub id: ContenderId,
    /// Where the backend keeps it; only the backend knows how to read this. An entry that was made anew, even under the same id, has
    /// another key: core takes it for a stranger.
    pub key: Arc<str>,
}

/// A queue at one moment, first to last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The backend's number for that moment; only the backend knows how to read it.
    pub revision: u64,
    /// The contenders in order.
    pub queue: Vec<Contender>,
}

/// Which change a waiter wants to be woken by.
#[derive(Clone, Copy, Debug)]
pub enum Wake<'a> {
    /// This contender has gone.
    Gone(&'a Contender),
    /// Any of those in front of this contender has gone, or it has gone itself.
    Ahead(&'a Contender),
    /// Anything: an entry came, went, or has a new value.
    Any,
}

/// What [`Session::enter`](crate::Session::enter) found or made.
#[derive(Clone, Debug)]
pub struct Entered {
    /// Our entry's number.
    pub token: FencingToken,
    /// The version of its value.
    pub version: Version,
    /// The queue no earlier than our entry.
    pub snapshot: Snapshot,
}

/// The version of an entry's value; only the backend knows how to read it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(pub u64);

/// An entry with what it carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The entry's number.
    pub token: FencingToken,
    /// The version of its value.
    pub version: Version,
    /// Its value: at most [`MAX_VALUE`] bytes.
    pub value: Vec<u8>,
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_are_checked_with_a_sentence() {
        for good in ["a", "a/b", "..", "%", " ", "naïve 名前", &"x".repeat(512)] {
            assert_eq!(QueueName::new(good).expect("a good name").as_str(), good);
        }
        for (bad, says) in [("", "empty"), (&*"x".repeat(513), "513 bytes"), ("a\0b", "NUL")] {
            let error = QueueName::new(bad).expect_err("a bad name");
            assert_eq!(error.kind(), ErrorKind::Config);
            assert!(error.to_string().contains(says), "{error}");
        }
    }

    #[test]
    fn ids_tell_their_mode_and_strangers_have_none() {
        let of = NonZeroU32::new(12).expect("not zero");
        for mode in [Mode::Write, Mode::Read, Mode::Permit(of)] {
            assert_eq!(ContenderId::random(mode).mode(), Some(mode));
        }
        let hex = "0".repeat(32);
        for stranger in [
            "",
            "w",
            "694d7a1b",
            "r-1",
            &format!("x{hex}"),
            &format!("p0-{hex}"),
            &format!("p03-{hex}"),
            &format!("p+3-{hex}"),
            &hex,
        ] {
            assert_eq!(ContenderId::from_backend(stranger).mode(), None, "{stranger}");
        }
        let ids: HashSet<_> = (0..1000).map(|_| ContenderId::random(Mode::Write)).collect();
        assert_eq!(ids.len(), 1000);
    }

    proptest! {
        #[test]
        fn escaping_is_injective_and_one_plain_path_part(a in "\\PC{1,80}", b in "\\PC{1,80}") {
            let (x, y) = (QueueName::new(&a).expect("valid"), QueueName::new(&b).expect("valid"));
            prop_assert_eq!(a == b, x.escaped() == y.escaped());
            prop_assert!(x.escaped().bytes().all(|c| c.is_ascii_alphanumeric() || b"-_%".contains(&c)));
        }

        #[test]
        fn no_text_breaks_the_reading_of_ids(text in "\\PC{0,60}") {
            let _ = ContenderId::from_backend(text.as_str()).mode();
        }
    }
}
