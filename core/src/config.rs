//! One vocabulary for all backends, as a URL, as a table, or as variables of the environment:
//! `scheme://[user[:password]@]host[:port][,host..]/namespace?ttl=10s&..`.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

pub use self::{
    profiles::Profiles,
    secret::Secret,
    sources::{Setting, Sources},
};
use crate::{
    backend::Strength,
    error::{Error, ErrorKind, Result},
    options::Options,
};

mod environment;
mod layer;
mod profiles;
mod secret;
mod servers;
mod sources;
mod table;
mod url;

/// Which backend to use, and how. Read from a URL ([`FromStr`](std::str::FromStr)), from any serde format with the same keys, or from
/// several places at once ([`Sources`]).
///
/// A key that the backend does not know is refused when connecting, with the list of those it knows. No error of ours shows a password;
/// but a TOML or JSON parser's own error may show the line it is in.
///
/// ```
/// use std::time::Duration;
/// use tenure_core::Config;
///
/// let config: Config = "etcd://10.0.0.1,10.0.0.2:2379/billing?ttl=15s&require=consensus".parse()?;
/// assert_eq!(config.hosts, ["10.0.0.1", "10.0.0.2:2379"]);
/// assert_eq!((config.namespace.as_str(), config.ttl), ("billing", Duration::from_secs(15)));
///
/// let same: Config = toml::from_str(r#"
///     backend = "etcd"
///     hosts = ["10.0.0.1", "10.0.0.2:2379"]
///     namespace = "billing"
///     ttl = "15s"
///     require = "consensus"
/// "#)?;
/// assert_eq!(same, config);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Config {
    /// The scheme: which backend.
    pub backend: String,
    /// The servers, `host[:port]` each.
    pub hosts: Vec<String>,
    /// What keeps one application's names apart from another's on the same service.
    pub namespace: String,
    /// The file, for a backend that has one: `sqlite:/path` or `sqlite:///path`.
    pub path: Option<PathBuf>,
    /// The validity wanted; see [`Options::ttl`].
    pub ttl: Duration,
    /// See [`Options::connect_timeout`].
    pub connect_timeout: Duration,
    /// The weakest backend that is good enough.
    pub require: Option<Strength>,
    /// See [`Options::token_base`].
    pub token_base: u64,
    /// Who to be for the service.
    pub user: Option<String>,
    /// The password for `user`; `password_file` keeps it out of URLs.
    pub password: Option<Secret>,
    /// A file whose first line is the password.
    pub password_file: Option<PathBuf>,
    /// The certificate authority to trust, as a PEM file.
    pub ca: Option<PathBuf>,
    /// Our certificate, as a PEM file.
    pub cert: Option<PathBuf>,
    /// Its key, as a PEM file.
    pub key: Option<PathBuf>,
    /// What only this backend knows.
    pub options: BTreeMap<String, String>,
    /// Which keys were written, and where.
    pub(crate) given: BTreeMap<String, Origin>,
}

/// Where something is written, for messages; empty if there is nothing to tell. It makes no difference between configurations.
#[derive(Clone, Debug, Default)]
pub(crate) struct Origin(pub(crate) String);

impl PartialEq for Origin {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Config {
    /// The keys that every backend shares.
    pub(crate) const KEYS: [&str; 14] = [
        "backend",
        "hosts",
        "namespace",
        "path",
        "ttl",
        "connect_timeout",
        "require",
        "token_base",
        "user",
        "password",
        "password_file",
        "ca",
        "cert",
        "key",
    ];

    /// The defaults, for a backend of this scheme.
    pub fn new(backend: impl Into<String>) -> Self {
        let Options { ttl, connect_timeout, token_base, .. } = Options::default();
        Self {
            backend: backend.into(),
            hosts: Vec::new(),
            namespace: String::new(),
            path: None,
            ttl,
            connect_timeout,
            require: None,
            token_base,
            user: None,
            password: None,
            password_file: None,
            ca: None,
            cert: None,
            key: None,
            options: BTreeMap::new(),
            given: BTreeMap::new(),
        }
    }

    /// Sets one key from its text form; a key that is not common to all backends is kept for this one's.
    ///
    /// # Errors
    /// `Config`, with what to write instead.
    pub fn set(&mut self, key: &str, text: &str) -> Result<()> {
        match key {
            "backend" => text.clone_into(&mut self.backend),
            "hosts" => self.hosts = hosts(text)?,
            "namespace" => text.clone_into(&mut self.namespace),
            "path" => self.path = Some(text.into()),
            "ttl" => self.ttl = duration(key, text)?,
            "connect_timeout" => self.connect_timeout = duration(key, text)?,
            "require" => self.require = Some(text.parse()?),
            "token_base" => {
                self.token_base = text
                    .parse()
                    .map_err(|_| refusal(format!("token_base = '{text}' is no whole number: write 0 or more")))?
            }
            "user" => self.user = Some(text.to_owned()),
            "password" => self.password = Some(Secret::new(text)),
            "password_file" => self.password_file = Some(text.into()),
            "ca" => self.ca = Some(text.into()),
            "cert" => self.cert = Some(text.into()),
            "key" => self.key = Some(text.into()),
            other => {
                self.options.insert(other.to_owned(), text.to_owned());
            }
        }
        self.given.insert(key.to_owned(), Origin::default());
        Ok(())
    }
}

fn hosts(text: &str) -> Result<Vec<String>> {
    let hosts: Vec<_> = text.split(',').map(|host| host.trim().to_owned()).collect();
    if hosts.iter().any(String::is_empty) {
        return Err(refusal("a host is empty: write host[:port], several with a comma between them"));
    }
    Ok(hosts)
}

fn duration(key: &str, text: &str) -> Result<Duration> {
    humantime::parse_duration(text)
        .map_err(|_| refusal(format!("{key} = '{text}' is no duration: write it like 10s or 1m30s")))
}

fn refusal(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Config, message)
}

/// The message, with the place that it is about in front.
pub(crate) fn located(origin: &str, error: Error) -> Error {
    if origin.is_empty() { error } else { Error::new(error.kind(), format!("{origin}: {}", error.report())) }
}
