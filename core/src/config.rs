//! One vocabulary for all backends, as a URL or as a table: `scheme://[user[:password]@]host[:port][,host..]/namespace?ttl=10s&..`.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    path::PathBuf,
    str::FromStr,
    time::Duration,
};

use percent_encoding::percent_decode_str;
use serde::{Deserialize, Deserializer, de::Error as _};

use crate::{
    backend::Strength,
    error::{Error, ErrorKind, Result},
    options::Options,
};

/// A text that is never shown: not in `Debug`, logs or messages.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Hides a text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text, for the one call that needs it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// Which backend to use, and how. Read from a URL ([`FromStr`]) or from any serde format with the same keys.
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
/// "#).unwrap();
/// assert_eq!(same.hosts, config.hosts);
/// # Ok::<(), tenure_core::Error>(())
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
    /// Which keys were written.
    pub(crate) given: BTreeSet<String>,
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
            given: BTreeSet::new(),
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
                return Ok(());
            }
        }
        self.given.insert(key.to_owned());
        Ok(())
    }

    fn set_address(&mut self, address: &str) -> Result<()> {
        let Some(rest) = address.strip_prefix("//") else {
            return if address.is_empty() { Ok(()) } else { self.set("path", &decoded(address)?) };
        };
        let (authority, path) = rest.split_once('/').map_or((rest, ""), |(authority, path)| (authority, path));
        if authority.is_empty() {
            return if path.is_empty() { Ok(()) } else { self.set("path", &decoded(&format!("/{path}"))?) };
        }
        let (credentials, hosts) =
            authority.rsplit_once('@').map_or((None, authority), |(who, hosts)| (Some(who), hosts));
        if let Some(credentials) = credentials {
            let (user, password) =
                credentials.split_once(':').map_or((credentials, None), |(user, word)| (user, Some(word)));
            if user.is_empty() {
                return Err(refusal("there is a password or an '@', but no user: write user:password@host".to_owned()));
            }
            self.set("user", &decoded(user)?)?;
            password.map_or(Ok(()), |word| self.set("password", &decoded(word)?))?;
        }
        if path.contains('@') {
            return Err(at_sign());
        }
        self.set("hosts", hosts)?;
        if path.is_empty() { Ok(()) } else { self.set("namespace", &decoded(path)?) }
    }
}

fn refusal(message: String) -> Error {
    Error::new(ErrorKind::Config, message)
}

/// Most likely a password is not escaped, and has been taken for something that is shown.
fn at_sign() -> Error {
    refusal("there is an '@' after the host: write / ? # @ in a user, password or name as %2F %3F %23 %40".to_owned())
}

fn hosts(text: &str) -> Result<Vec<String>> {
    let hosts: Vec<_> = text.split(',').map(|host| host.trim().to_owned()).collect();
    if hosts.iter().any(String::is_empty) {
        return Err(refusal("a host is empty: write host[:port], several with a comma between them".to_owned()));
    }
    Ok(hosts)
}

fn duration(key: &str, text: &str) -> Result<Duration> {
    humantime::parse_duration(text)
        .map_err(|_| refusal(format!("{key} = '{text}' is no duration: write it like 10s or 1m30s")))
}

fn decoded(text: &str) -> Result<String> {
    let decoded = percent_decode_str(text).decode_utf8();
    decoded.map(Into::into).map_err(|_| {
        refusal("the URL has a %-sequence that is not UTF-8: write every byte of the text as %XX".to_owned())
    })
}

impl FromStr for Config {
    type Err = Error;

    /// No message repeats the URL: it may hold a password.
    fn from_str(url: &str) -> Result<Self> {
        let is_scheme = |scheme: &str| {
            !scheme.is_empty() && scheme.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b))
        };
        let Some((scheme, rest)) = url.split_once(':').filter(|(scheme, _)| is_scheme(scheme)) else {
            return Err(refusal(
                "the URL has no scheme: write it like scheme://host/namespace, or sqlite:/path/to/file".to_owned(),
            ));
        };
        let (address, query) = rest.split_once('?').map_or((rest, ""), |(address, query)| (address, query));
        let mut config = Self::new(scheme);
        config.set_address(address)?;
        if address.starts_with("//") && !address.starts_with("///") && query.contains('@') {
            return Err(at_sign());
        }
        let mut seen = config.given.clone();
        seen.insert("backend".to_owned());
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let Some((key, text)) = pair.split_once('=') else {
                return Err(refusal("a setting has no value: write them like ttl=10s&namespace=billing".to_owned()));
            };
            let (key, text) = (decoded(key)?, decoded(text)?);
            if !seen.insert(key.clone()) {
                return Err(refusal(format!("'{key}' is written twice: leave one out")));
            }
            config.set(&key, &text)?;
        }
        Ok(config)
    }
}

/// A value in a table: texts, and what people write without quotes.
#[derive(Deserialize)]
#[serde(untagged)]
enum Value {
    Text(String),
    Switch(bool),
    Number(i64),
    Large(u64),
    Fraction(f64),
    List(Vec<String>),
}

impl<'de> Deserialize<'de> for Config {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut table = BTreeMap::<String, Value>::deserialize(deserializer)?;
        let text = |value| match value {
            Value::Text(text) => text,
            Value::Switch(switch) => switch.to_string(),
            Value::Number(number) => number.to_string(),
            Value::Large(number) => number.to_string(),
            Value::Fraction(number) => number.to_string(),
            Value::List(list) => list.join(","),
        };
        let mut config = match (table.remove("url").map(text), table.remove("backend").map(text)) {
            (Some(url), None) => url.parse().map_err(D::Error::custom)?,
            (None, Some(backend)) => Self::new(backend),
            (Some(_), Some(_)) => return Err(D::Error::custom("both 'url' and 'backend' are written: leave one out")),
            (None, None) => {
                return Err(D::Error::custom(
                    "there is no 'backend': write backend = \"sqlite\", or url = \"sqlite:/path\"",
                ));
            }
        };
        for (key, value) in table {
            if config.given.contains(&key) || config.options.contains_key(&key) {
                return Err(D::Error::custom(format!("'{key}' is written beside the url and in it: leave one out")));
            }
            config.set(&key, &text(value)).map_err(D::Error::custom)?;
        }
        Ok(config)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parsed(url: &str) -> Config {
        url.parse().unwrap_or_else(|error| panic!("{url}: {error}"))
    }

    #[test]
    fn urls_of_all_shapes() {
        let config = parsed("etcd://us%40er:p%3Aw@h1,h2:2379,[::1]:2379/shop/orders?ttl=1m30s&token_base=7&odd=x%26y");
        assert_eq!(
            (config.user.as_deref(), config.password.as_ref().map(Secret::expose)),
            (Some("us@er"), Some("p:w"))
        );
        assert_eq!(config.hosts, ["h1", "h2:2379", "[::1]:2379"]);
        assert_eq!((&*config.namespace, config.ttl, config.token_base), ("shop/orders", Duration::from_secs(90), 7));
        assert_eq!(config.options["odd"], "x&y");
        for (url, path) in
            [("sqlite:///var/x.db", "/var/x.db"), ("sqlite:/var/x.db", "/var/x.db"), ("sqlite:x%20y.db", "x y.db")]
        {
            assert_eq!(parsed(url).path, Some(path.into()), "{url}");
        }
        for url in ["sqlite:", "sqlite://", "sqlite:?ttl=3s"] {
            assert_eq!((parsed(url).path, parsed(url).hosts), (None, Vec::<String>::new()), "{url}");
        }
    }

    #[test]
    fn bad_urls_get_a_sentence_without_the_password() {
        let cases = [
            ("", "no scheme"),
            ("/var/x.db", "no scheme"),
            ("etcd://u:hunter2@h1,,h2/x", "a host is empty"),
            ("etcd://u:hunter2@h1/x?ttl=10", "ttl = '10' is no duration: write it like 10s"),
            ("etcd://u:hunter2@h1/x?ttl", "has no value"),
            ("etcd://u:abc?hunter2@h1/x", "write / ? # @ in"),
            ("etcd://u:abc/hunter2@h1/x", "write / ? # @ in"),
            ("etcd://:hunter2@h1/x", "no user"),
            ("etcd://u:hunter2@h1/x?backend=zk", "twice"),
            ("etcd://u:hunter2@h1/x?ttl=1s&ttl=2s", "twice"),
            ("etcd://u:hunter2@h1/x?user=v", "twice"),
            ("etcd://u:hunter2@h1/x?require=iron", "write one of process, host, single-server, consensus"),
            ("etcd://u:hunter2@h1/x?token_base=-1", "whole number"),
            ("etcd://u:hunter2@h1/%FF", "not UTF-8"),
        ];
        for (url, says) in cases {
            let error = url.parse::<Config>().expect_err(url);
            assert_eq!(error.kind(), ErrorKind::Config, "{url}");
            assert!(error.to_string().contains(says) && !error.to_string().contains("hunter2"), "{url}: {error}");
        }
        assert!(!format!("{:?}", parsed("etcd://u:hunter2@h1/x")).contains("hunter2"));
    }

    #[test]
    fn tables_say_the_same_as_urls() {
        let table: Config = toml::from_str(
            "backend = 'etcd'\nhosts = ['h1', 'h2:1']\nnamespace = 'a/b'\nttl = '5s'\ntoken_base = 3\nodd = true",
        )
        .expect("good");
        assert_eq!(table, parsed("etcd://h1,h2:1/a/b?ttl=5s&token_base=3&odd=true"));
        let url: Config = toml::from_str("url = 'etcd://h1/a'\nttl = '5s'").expect("good");
        assert_eq!(url, parsed("etcd://h1/a?ttl=5s"));
        for (bad, says) in [
            ("ttl = '5s'", "no 'backend'"),
            ("url = 'etcd://h?ttl=1s'\nttl = '5s'", "beside the url"),
            ("backend = 'x'\nttl = 5", "no duration"),
            ("backend = 'x'\ntoken_base = -1", "token_base = '-1' is no whole number"),
            ("backend = 'x'\ntoken_base = 1.5", "token_base = '1.5' is no whole number"),
            ("backend = 'x'\nhosts = []", "a host is empty"),
            ("backend = 'x'\nhosts = 'h1,,h2'", "a host is empty"),
        ] {
            let error = toml::from_str::<Config>(bad).expect_err(bad).to_string();
            assert!(error.contains(says), "{error}");
        }
    }

    proptest! {
        #[test]
        fn no_text_breaks_the_parser(text in "\\PC{0,60}", query in "[a-z%=&?/@:,0-9]{0,60}") {
            let _ = text.parse::<Config>();
            let _ = format!("etcd:{query}").parse::<Config>();
        }
    }
}
