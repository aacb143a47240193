//! What a configuration says about the servers, and how to reach them.

use std::{fs, path::Path, time::Duration};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use rustls::{crypto::CryptoProvider, pki_types::ServerName};
use tenure_core::{Config, Result};

use crate::{error::config, keys::Keys};

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
        let tls = tls || from.ca.is_some() || from.cert.is_some() || from.key.is_some();
        let hosts = hosts(&from.hosts, tls)?;
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

fn hosts(from: &[String], tls: bool) -> Result<Vec<String>> {
    const DEFAULT_PORT: u16 = 2181;
    if from.is_empty() {
        return Err(config("no server is named: write zk://host/namespace, or zk://host:port,host:port/namespace"));
    }
    let with_port = |host: &String| {
        let plain =
            |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._".contains(&b));
        let (name, port) = match host.rsplit_once(':') {
            Some((name, port)) if !host.ends_with(']') => (name, port.parse::<u16>().ok().filter(|port| *port > 0)),
            _ => (host.as_str(), Some(DEFAULT_PORT)),
        };
        let address = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
        let good = address.map_or_else(|| plain(name), |address| address.parse::<std::net::Ipv6Addr>().is_ok());
        // The client library panics on a name that no certificate can have.
        let good = good && (!tls || ServerName::try_from(address.unwrap_or(name)).is_ok());
        match port.filter(|_| good) {
            Some(port) => Ok(format!("{name}:{port}")),
            None => {
                Err(config(format!("'{host}' is no address of a server: write host, host:port or [IPv6 address]:port")))
            }
        }
    };
    from.iter().map(with_port).collect()
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
    let password = match (&from.password, &from.password_file) {
        (Some(_), Some(_)) => return Err(config("both password and password_file are written: leave one out")),
        (Some(password), None) => Some(password.expose().to_owned()),
        (None, Some(path)) => Some(text(path, "password_file")?.lines().next().unwrap_or_default().to_owned()),
        (None, None) => None,
    };
    match (&from.user, password) {
        (Some(user), Some(_)) if user.contains(':') => {
            Err(config(format!("the user '{user}' has a ':' in it, which ZooKeeper does not take: write another one")))
        }
        (Some(user), Some(password)) => Ok(Some(format!("{user}:{password}"))),
        (None, None) => Ok(None),
        (Some(user), None) => {
            Err(config(format!("the user '{user}' has no password: write password_file = the file it is in")))
        }
        (None, Some(_)) => Err(config("there is a password, but no user: write user")),
    }
}

fn tls_of(from: &Config) -> Result<Tls> {
    // The client library takes the one of the process, and panics if there is none and two could be meant.
    if CryptoProvider::get_default().is_none() {
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default(); // somebody else may be faster
    }
    let ca = match &from.ca {
        Some(ca) => pem(ca, "ca", "CERTIFICATE")?,
        None => system_authorities()?,
    };
    let identity = match (&from.cert, &from.key) {
        (Some(cert), Some(key)) => Some((pem(cert, "cert", "CERTIFICATE")?, pem(key, "key", "PRIVATE KEY")?)),
        (None, None) => None,
        (Some(_), None) => return Err(config("there is a cert, but no key: write key = the file of its private key")),
        (None, Some(_)) => return Err(config("there is a key, but no cert: write cert = the file of its certificate")),
    };
    Ok(Tls { ca, identity })
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

/// A file that has at least one PEM block of this kind. TLS itself would ignore one that has none, and then trust nobody.
fn pem(path: &Path, setting: &str, kind: &str) -> Result<String> {
    let text = text(path, setting)?;
    let begins = |line: &str| line.starts_with("-----BEGIN ") && line.trim_end().ends_with(&format!("{kind}-----"));
    if text.lines().any(begins) {
        return Ok(text);
    }
    Err(config(format!("{setting} = {} has no {kind} in it: write the path of a PEM file that has", path.display())))
}

fn text(path: &Path, setting: &str) -> Result<String> {
    fs::read_to_string(path).map_err(|error| {
        config(format!("{setting} = {} cannot be read: write the path of a file that can", path.display()))
            .with_source(error)
    })
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
    fn hosts_have_ports_and_odd_ones_are_refused() {
        let good = settings("zk://h1,10.0.0.2:4001,[::1],a_b:4001/billing/").expect("good");
        assert_eq!(good.hosts, ["h1:2181", "10.0.0.2:4001", "[::1]:2181", "a_b:4001"]);
        assert_eq!(good.keys.queue(&QueueName::new("x").expect("good")), "/billing/x");
        assert!(refused("zk:").contains("write zk://host/namespace"));
        for bad in
            ["zk://h:port/x", "zk://::1/x", "zk://[h]/x", "zk://h%20x/x", "zk://h:99999/x", "zk://h:0/x", "zks://-h/x"]
        {
            assert!(refused(bad).contains("write host, host:port"), "{bad}");
        }
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
    fn passwords_need_a_user_and_one_source() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        fs::write(&file, "hunter2\nsecond line\n").expect("written");
        let url = |rest: &str| format!("zk://h/x?{rest}").replace("FILE", &file.path().display().to_string());
        let good = settings(&url("user=me&password_file=FILE&acl=creator")).expect("good");
        assert_eq!((good.login.as_deref(), good.private), (Some("me:hunter2"), true));
        for (bad, says) in [
            ("user=me", "write password_file"),
            ("password=x", "write user"),
            ("user=a%3Ab&password=x", "has a ':'"),
            ("user=me&password=x&password_file=FILE", "leave one out"),
            ("user=me&password_file=FILE.missing", "cannot be read"),
            ("acl=creator", "write user and password"),
            ("acl=mine", "write open or creator"),
        ] {
            assert!(refused(&url(bad)).contains(says), "{bad}");
        }
    }

    #[test]
    fn files_that_are_no_certificates_are_refused() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        fs::write(&file, "no certificate").expect("written");
        let path = file.path().display();
        assert!(refused(&format!("zk://h/x?ca={path}")).contains("has no CERTIFICATE in it"));
        assert!(refused(&format!("zk://h/x?cert={path}")).contains("write"));
        assert!(refused(&format!("zk://h/x?ca={path}.missing")).contains("cannot be read"));
    }
}
