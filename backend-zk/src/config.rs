//! What a configuration says about the servers, and how to reach them.

use std::time::Duration;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use rustls::{crypto::CryptoProvider, pki_types::ServerName};
use tenure_core::{Config, Result};

use crate::{error::config, keys::Keys};

const DEFAULT_PORT: u16 = 2181;

/// What connecting needs to know. It has the password in it, so it is never shown.
pub(crate) struct Settings {
    /// `host:port` each, at least one.
    pub(crate) hosts: Vec<String>,
    pub(crate) keys: Keys,
    pub(crate) tls: Option<Tls>,
    /// `user:password`.
    pub(crate) login: Option<String>,
    /// Whether only we ourselves may use what we make.
    pub(crate) private: bool,
    pub(crate) connect_timeout: Duration,
}

/// Whom to trust, and who to be, as PEM.
pub(crate) struct Tls {
    pub(crate) ca: String,
    /// Certificate and key.
    pub(crate) identity: Option<(String, String)>,
}

impl Settings {
    /// Reads a configuration and the files it names.
    pub(crate) fn of(from: &Config, tls: bool) -> Result<Self> {
        let (hosts, tls) = (from.addresses(DEFAULT_PORT)?, tls || from.wants_tls());
        if tls {
            check_names(&hosts)?;
        }
        let login = login(from)?;
        let private = match from.options.get("acl").map(String::as_str) {
            None | Some("open") => false,
            Some("creator") if login.is_some() => true,
            Some("creator") => return Err(config("acl = creator needs somebody to create: write user and password")),
            Some(other) => return Err(config(format!("acl = '{other}' is unknown: write open or creator"))),
        };
        let (keys, tls) = (Keys::new(namespace(&from.namespace)?), if tls { Some(tls_of(from)?) } else { None });
        Ok(Self { hosts, keys, tls, login, private, connect_timeout: from.connect_timeout })
    }
}

/// The client library panics on a name that no certificate can have.
fn check_names(hosts: &[String]) -> Result<()> {
    for host in hosts {
        let name = host.rsplit_once(':').map_or(&**host, |(name, _)| name).trim_matches(['[', ']']);
        if ServerName::try_from(name).is_err() {
            return Err(config(format!(
                "'{host}' is no name that a certificate can have: write host, host:port or [IPv6 address]:port"
            )));
        }
    }
    Ok(())
}

/// A `/` at its ends changes nothing, as in the path of a URL.
fn namespace(from: &str) -> Result<&str> {
    let namespace = from.trim_matches('/');
    let refuse = |part: &str, why: &str| {
        Err(config(format!(
            "the namespace '{}' has the part '{part}', which {why}: write another one",
            from.escape_debug()
        )))
    };
    for (at, part) in namespace.split('/').enumerate().filter(|_| !namespace.is_empty()) {
        if part == Keys::RESERVED || (at == 0 && part == "zookeeper") {
            return refuse(part, "is not for users");
        }
        // As ZooKeeper's PathUtils says.
        let bad = |c: char| matches!(c, '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{e000}'..='\u{f8ff}' | '\u{fff0}'..='\u{ffff}' | '\u{10000}'..);
        if part.is_empty() || part == "." || part == ".." || part.contains(bad) {
            return refuse(&part.escape_debug().to_string(), "ZooKeeper does not take");
        }
        if part.len() >= 10 && part.bytes().rev().take(10).all(|b| b.is_ascii_digit()) {
            return refuse(part, "looks like an entry of a queue, since it ends in ten digits");
        }
    }
    Ok(namespace)
}

fn login(from: &Config) -> Result<Option<String>> {
    match from.login()? {
        Some((user, _)) if user.contains(':') => {
            Err(config(format!("the user '{user}' has a ':' in it, which ZooKeeper does not take: write another one")))
        }
        login => Ok(login.map(|(user, password)| format!("{user}:{}", password.expose()))),
    }
}

fn tls_of(from: &Config) -> Result<Tls> {
    // The client library takes the one of the process, and panics if there is none and two could be meant.
    if CryptoProvider::get_default().is_none() {
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default(); // somebody else may be faster
    }
    let ca = from.authorities()?.map_or_else(system_authorities, Ok)?;
    Ok(Tls { ca, identity: from.identity()? })
}

fn system_authorities() -> Result<String> {
    let found = rustls_native_certs::load_native_certs().certs;
    if found.is_empty() {
        return Err(config(
            "this system has no certificate authorities: write ca = the file of the servers' authority",
        ));
    }
    let block = |der: &[u8]| {
        format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", BASE64_STANDARD.encode(der))
    };
    Ok(found.iter().map(|certificate| block(certificate)).collect())
}

#[cfg(test)]
mod tests {
    use tenure_core::{ErrorKind, QueueName};

    use super::*;

    fn settings(url: &str) -> Result<Settings> {
        Settings::of(&url.parse().expect("a URL"), url.starts_with("zks"))
    }

    fn refused(url: &str) -> String {
        let error = settings(url).err().unwrap_or_else(|| panic!("{url} was accepted"));
        assert_eq!(error.kind(), ErrorKind::Config, "{url}");
        error.to_string()
    }

    #[test]
    fn defaults_and_names_that_no_certificate_can_have() {
        let good = settings("zk://h1,10.0.0.2:4001,[::1],a_b:4001/billing/").expect("good");
        assert_eq!(good.hosts, ["h1:2181", "10.0.0.2:4001", "[::1]:2181", "a_b:4001"]);
        assert_eq!(good.keys.queue(&QueueName::new("x").expect("good")), "/billing/x");
        assert!(refused("zk:").contains("write zk://host/namespace"));
        assert!(settings("zks://h,[::1]:1,10.0.0.1/x").is_ok());
        assert!(refused("zks://-h/x").contains("write host, host:port"));
    }

    #[test]
    fn namespaces_that_zookeeper_does_not_take_or_that_would_be_entries_are_refused() {
        for bad in
            ["a/.tenure", "zookeeper/a", "a//b", "a/..", ".", "a%01", "\u{1f600}", "a/job0000000001/b", "0000000001"]
        {
            assert!(refused(&format!("zk://h/{bad}")).contains("write another one"), "{bad}");
        }
        for good in ["", "a", "a/zookeeper", "/a/", "caf\u{e9}", "job000000001"] {
            assert!(settings(&format!("zk://h/{good}")).is_ok(), "{good}");
        }
    }

    #[test]
    fn a_creator_needs_a_login_that_zookeeper_takes() {
        let good = settings("zk://h/x?user=me&password=hunter2&acl=creator").expect("good");
        assert_eq!((good.login.as_deref(), good.private), (Some("me:hunter2"), true));
        for (bad, says) in [
            ("user=a%3Ab&password=x", "has a ':'"),
            ("acl=creator", "write user and password"),
            ("acl=mine", "write open or creator"),
            ("cert=any", "write key"),
        ] {
            assert!(refused(&format!("zk://h/x?{bad}")).contains(says), "{bad}");
        }
    }
}
