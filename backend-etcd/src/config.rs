//! What a configuration says about the servers, and how to reach them.

use std::{fs, path::Path, time::Duration};

use etcd_client::{Certificate, ConnectOptions, Identity, TlsOptions};
use tenure_core::{Config, Result};

use crate::{error::config, keys::Keys};

/// What connecting needs to know. It has the password in it, so it is never shown.
pub(crate) struct Settings {
    /// `host:port` each, at least one.
    pub(crate) hosts: Vec<String>,
    pub(crate) scheme: &'static str,
    pub(crate) keys: Keys,
    /// How to connect without a user, which takes no request.
    pub(crate) anonymous: ConnectOptions,
    /// How to connect.
    pub(crate) options: ConnectOptions,
    pub(crate) connect_timeout: Duration,
}

impl Settings {
    /// Reads a configuration and the files it names.
    pub(crate) fn of(from: &Config, tls: bool) -> Result<Self> {
        let hosts = hosts(&from.hosts)?;
        let tls = tls || from.ca.is_some() || from.cert.is_some() || from.key.is_some();
        let mut anonymous = ConnectOptions::new()
            .with_require_leader(true)
            .with_connect_timeout(from.connect_timeout)
            .with_auto_token_refresh(true)
            // Servers end connections that ping more often than every five seconds, or without an open stream.
            .with_keep_alive(Duration::from_secs(10), Duration::from_secs(5))
            .with_keep_alive_while_idle(false);
        if tls {
            anonymous = anonymous.with_tls(tls_options(from)?);
        }
        let options = match login(from)? {
            Some((user, password)) => anonymous.clone().with_user(user, password),
            None => anonymous.clone(),
        };
        let (scheme, keys) = (if tls { "https" } else { "http" }, Keys::new(namespace(&from.namespace)?));
        Ok(Self { hosts, scheme, keys, anonymous, options, connect_timeout: from.connect_timeout })
    }
}

fn hosts(from: &[String]) -> Result<Vec<String>> {
    const DEFAULT_PORT: u16 = 2379;
    if from.is_empty() {
        return Err(config("no server is named: write etcd://host/namespace, or etcd://host:port,host:port/namespace"));
    }
    let with_port = |host: &String| {
        let plain =
            |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._".contains(&b));
        let (name, port) = match host.rsplit_once(':') {
            Some((name, port)) if !host.ends_with(']') => (name, port.parse::<u16>().ok()),
            _ => (host.as_str(), Some(DEFAULT_PORT)),
        };
        let address = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
        let good = address.map_or_else(|| plain(name), |address| address.parse::<std::net::Ipv6Addr>().is_ok());
        match port.filter(|_| good) {
            Some(port) => Ok(format!("{name}:{port}")),
            None => {
                Err(config(format!("'{host}' is no address of a server: write host, host:port or [IPv6 address]:port")))
            }
        }
    };
    from.iter().map(with_port).collect()
}

/// A `/` at its end changes nothing, as in the path of a URL.
fn namespace(from: &str) -> Result<&str> {
    let namespace = from.trim_end_matches('/');
    if namespace.split('/').any(|part| part == Keys::RESERVED) {
        return Err(config(format!(
            "the namespace '{from}' has the part '{}', which is our own: write another one",
            Keys::RESERVED
        )));
    }
    Ok(namespace)
}

fn login(from: &Config) -> Result<Option<(String, String)>> {
    let password = match (&from.password, &from.password_file) {
        (Some(_), Some(_)) => return Err(config("both password and password_file are written: leave one out")),
        (Some(password), None) => Some(password.expose().to_owned()),
        (None, Some(path)) => Some(text(path, "password_file")?.lines().next().unwrap_or_default().to_owned()),
        (None, None) => None,
    };
    match (&from.user, password) {
        (Some(user), Some(password)) => Ok(Some((user.clone(), password))),
        (None, None) => Ok(None),
        (Some(user), None) => {
            Err(config(format!("the user '{user}' has no password: write password_file = the file it is in")))
        }
        (None, Some(_)) => Err(config("there is a password, but no user: write user")),
    }
}

fn tls_options(from: &Config) -> Result<TlsOptions> {
    let mut options = match &from.ca {
        Some(ca) => TlsOptions::new().ca_certificate(Certificate::from_pem(pem(ca, "ca", "CERTIFICATE")?)),
        None => TlsOptions::new().with_native_roots(),
    };
    options = match (&from.cert, &from.key) {
        (Some(cert), Some(key)) => {
            options.identity(Identity::from_pem(pem(cert, "cert", "CERTIFICATE")?, pem(key, "key", "PRIVATE KEY")?))
        }
        (None, None) => options,
        (Some(_), None) => return Err(config("there is a cert, but no key: write key = the file of its private key")),
        (None, Some(_)) => return Err(config("there is a key, but no cert: write cert = the file of its certificate")),
    };
    Ok(options)
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
    use tenure_core::ErrorKind;

    use super::*;

    fn settings(url: &str) -> Result<Settings> {
        Settings::of(&url.parse().expect("a URL"), url.starts_with("etcds"))
    }

    fn refused(url: &str) -> String {
        let error = settings(url).err().unwrap_or_else(|| panic!("{url} was accepted"));
        assert_eq!(error.kind(), ErrorKind::Config, "{url}");
        error.to_string()
    }

    #[test]
    fn hosts_have_ports_and_odd_ones_are_refused() {
        let good = settings("etcd://h1,10.0.0.2:4001,[::1],[::1]:4001/billing/").expect("good");
        assert_eq!(good.hosts, ["h1:2379", "10.0.0.2:4001", "[::1]:2379", "[::1]:4001"]);
        assert_eq!((good.scheme, good.keys.token_base().as_str()), ("http", "billing/.tenure/token_base"));
        assert!(refused("etcd:").contains("write etcd://host/namespace"));
        for bad in ["etcd://h:port/x", "etcd://::1/x", "etcd://[h]/x", "etcd://h%20x/x", "etcd://h:99999/x"] {
            assert!(refused(bad).contains("write host, host:port"), "{bad}");
        }
        assert!(refused("etcd://h/a/.tenure").contains("our own"));
    }

    #[test]
    fn passwords_need_a_user_and_one_source() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        fs::write(&file, "hunter2\nsecond line\n").expect("written");
        let url = |rest: &str| format!("etcd://h/x?{rest}").replace("FILE", &file.path().display().to_string());
        let from: Config = url("user=me&password_file=FILE").parse().expect("a URL");
        assert_eq!(login(&from).expect("good"), Some(("me".to_owned(), "hunter2".to_owned())));
        for (bad, says) in [
            ("user=me", "write password_file"),
            ("password=x", "write user"),
            ("user=me&password=x&password_file=FILE", "leave one out"),
            ("user=me&password_file=FILE.missing", "cannot be read"),
        ] {
            assert!(refused(&url(bad)).contains(says), "{bad}");
        }
    }

    #[test]
    fn files_that_are_no_certificates_are_refused() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        fs::write(&file, "no certificate").expect("written");
        let path = file.path().display();
        assert!(refused(&format!("etcd://h/x?ca={path}")).contains("has no CERTIFICATE in it"));
        assert!(refused(&format!("etcd://h/x?cert={path}")).contains("write key"));
        assert!(refused(&format!("etcd://h/x?key={path}")).contains("write cert"));
        assert!(refused(&format!("etcd://h/x?ca={path}.missing")).contains("cannot be read"));
        assert_eq!(settings("etcds://h/x").expect("the system's authorities").scheme, "https");
    }
}
