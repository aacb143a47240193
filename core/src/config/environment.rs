//! Variables of the environment: `TENURE_` and a key in capitals.

use std::ffi::{OsStr, OsString};

use super::{Setting, located, refusal};
use crate::error::{Error, Result};

const PREFIX: &str = "TENURE_";

/// What the command line tells the commands that it runs. In a command of a command they are there, and are no settings.
const TOLD: [&str; 2] = ["NAME", "TOKEN"];

/// What the variables say.
#[derive(Debug, Default)]
pub(super) struct Environment {
    pub(super) settings: Vec<Setting>,
    /// `TENURE_CONFIG`.
    pub(super) file: Option<String>,
    /// `TENURE_PROFILE`.
    pub(super) profile: Option<String>,
    /// Variables that look like ours and are none. An environment is shared, so they may be somebody else's.
    pub(super) unknown: Vec<String>,
}

impl Environment {
    /// An empty variable counts as one that is not set.
    pub(super) fn of(variables: &[(OsString, OsString)], keys: &[String]) -> Result<Self> {
        let mut found = Self::default();
        for (name, value) in variables.iter().filter(|(_, value)| !value.is_empty()) {
            let Some(rest) = name.to_str().and_then(|name| name.strip_prefix(PREFIX)) else { continue };
            let key = keys.iter().find(|key| key.to_ascii_uppercase() == rest);
            match (rest, key) {
                (_, Some(key)) => found.settings.push(Setting::new(variable(rest), key, text(rest, value)?)),
                ("CONFIG", _) => found.file = Some(text(rest, value)?),
                ("PROFILE", _) => found.profile = Some(text(rest, value)?),
                _ if TOLD.contains(&rest) || is_service_link(rest, value) => {}
                _ => match keys.iter().map(String::as_str).chain(["config", "profile"]).find(|key| alike(key, rest)) {
                    Some(meant) => return Err(slip(rest, meant)),
                    None => found.unknown.push(variable(rest)),
                },
            }
        }
        Ok(found)
    }
}

/// The variable of this key.
pub(super) fn variable(key: &str) -> String {
    format!("{PREFIX}{}", key.to_ascii_uppercase())
}

fn text(rest: &str, value: &OsStr) -> Result<String> {
    let text = value.to_str().map(str::to_owned);
    text.ok_or_else(|| located(&variable(rest), refusal("it is not UTF-8: write UTF-8, in a URL other bytes as %XX")))
}

/// To ignore it could mean to lock at a place where nobody else does.
fn slip(rest: &str, meant: &str) -> Error {
    refusal(format!("there is no setting {PREFIX}{rest}: write {}, or unset it", variable(meant)))
}

/// What Kubernetes sets in every container if there is a service called `tenure`, or `tenure-` and something.
fn is_service_link(rest: &str, value: &OsStr) -> bool {
    let mut words = rest.rsplit('_').skip_while(|word| ["PROTO", "PORT", "ADDR"].contains(word));
    let port = ["TCP", "UDP", "SCTP"].contains(&words.next().unwrap_or_default())
        && words.next().is_some_and(|number| number.parse::<u16>().is_ok());
    let scheme = value.to_str().and_then(|value| value.split_once("://")).map(|(scheme, _)| scheme);
    let link = rest.ends_with("PORT") && scheme.is_some_and(|scheme| ["tcp", "udp", "sctp"].contains(&scheme));
    port || link || rest.ends_with("SERVICE_HOST") || rest.contains("SERVICE_PORT")
}

/// Whether one is a slip of the pen for the other: a letter of a short word, two of a long one, and any `_`.
fn alike(key: &str, written: &str) -> bool {
    let letters = |text: &str| text.bytes().filter(|b| *b != b'_').map(|b| b.to_ascii_uppercase()).collect::<Vec<_>>();
    let (key, written) = (letters(key), letters(written));
    distance(&key, &written) <= if key.len() < 6 { 1 } else { 2 }
}

/// How many letters have to be changed, added, left out, or swapped with the next one.
fn distance(one: &[u8], other: &[u8]) -> usize {
    let mut rows = vec![(0..=other.len()).collect::<Vec<_>>()];
    for (at, letter) in one.iter().enumerate() {
        let mut row = vec![at + 1];
        for (column, theirs) in other.iter().enumerate() {
            let changed = rows[at][column] + usize::from(letter != theirs);
            let swapped = at > 0 && column > 0 && one[at - 1] == *theirs && other[column - 1] == *letter;
            let swapped = if swapped { rows[at - 1][column - 1] + 1 } else { usize::MAX };
            row.push(changed.min(swapped).min(rows[at][column + 1] + 1).min(row[column] + 1));
        }
        rows.push(row);
    }
    rows[one.len()][other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<Environment> {
        let keys: Vec<_> = ["url", "ttl", "hosts", "namespace", "key", "token_base"].map(str::to_owned).into();
        let variables: Vec<_> = variables.iter().map(|(name, value)| (name.into(), value.into())).collect();
        Environment::of(&variables, &keys)
    }

    #[test]
    fn what_is_ours_is_taken_and_what_may_be_others_is_not() {
        let found = read(&[
            ("TENURE_TTL", "5s"),
            ("TENURE_HOSTS", ""),
            ("TENURE_PROFILE", "staging"),
            ("TENURE_NAME", "job"),
            ("TENURE_TOKEN", "7"),
            ("TENURE_PREFIX", "x"),
            ("TENURE", "x"),
            ("PATH", "/bin"),
        ])
        .expect("good");
        let settings: Vec<_> = found.settings.iter().map(|setting| (&*setting.origin, &*setting.key)).collect();
        assert_eq!(settings, [("TENURE_TTL", "ttl")]);
        assert_eq!((found.profile.as_deref(), found.file), (Some("staging"), None));
        assert_eq!(found.unknown, ["TENURE_PREFIX"]);
    }

    #[test]
    fn slips_of_the_pen_are_refused() {
        for (written, meant) in [
            ("TENURE_TLL", "TENURE_TTL"),
            ("TENURE_HOST", "TENURE_HOSTS"),
            ("TENURE_NAMESPAC", "TENURE_NAMESPACE"),
            ("TENURE_NAMSPACES", "TENURE_NAMESPACE"),
            ("TENURE_TOKENBASE", "TENURE_TOKEN_BASE"),
            ("TENURE_ttl", "TENURE_TTL"),
            ("TENURE_URLS", "TENURE_URL"),
            ("TENURE_ULR", "TENURE_URL"),
            ("TENURE_PROFIL", "TENURE_PROFILE"),
        ] {
            let error = read(&[(written, "x")]).expect_err(written).to_string();
            assert!(error.contains(&format!("no setting {written}: write {meant},")), "{error}");
        }
    }

    #[test]
    fn services_of_kubernetes_are_no_settings() {
        let found = read(&[
            ("TENURE_SERVICE_HOST", "10.0.0.1"),
            ("TENURE_SERVICE_PORT", "80"),
            ("TENURE_SERVICE_PORT_HTTP", "80"),
            ("TENURE_PORT", "tcp://10.0.0.1:80"),
            ("TENURE_PORT_80_TCP", "tcp://10.0.0.1:80"),
            ("TENURE_PORT_80_TCP_ADDR", "10.0.0.1"),
            ("TENURE_ETCD_PORT_2379_TCP_PROTO", "tcp"),
        ])
        .expect("good");
        assert!(found.unknown.is_empty() && found.settings.is_empty(), "{found:?}");
        assert_eq!(read(&[("TENURE_PORT", "2379")]).expect("may be somebody's").unknown, ["TENURE_PORT"]);
    }
}
