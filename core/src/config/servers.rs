//! Where the servers are, whom to trust, and who to be: what is the same for every backend that has servers.

use std::{fs, net::Ipv6Addr, path::Path};

use super::{Config, Secret};
use crate::error::{Error, ErrorKind, Result};

impl Config {
    /// The servers as `host:port`, at least one. The port is optional where it was written.
    ///
    /// # Errors
    /// `Config`, with what to write instead.
    pub fn addresses(&self, default_port: u16) -> Result<Vec<String>> {
        let scheme = &self.backend;
        if self.hosts.is_empty() {
            return Err(refuse(format!(
                "no server is named: write {scheme}://host/namespace, or {scheme}://host:port,host:port/namespace"
            )));
        }
        self.hosts.iter().map(|host| address(host, default_port)).collect()
    }

    /// User and password, if there are any. Reads the `password_file`: its first line.
    ///
    /// # Errors
    /// `Config`, with what to write instead.
    pub fn login(&self) -> Result<Option<(String, Secret)>> {
        let password = match (&self.password, &self.password_file) {
            (Some(_), Some(_)) => return Err(refuse("both password and password_file are written: leave one out")),
            (Some(password), None) => Some(password.clone()),
            (None, Some(path)) => Some(Secret::new(text(path, "password_file")?.lines().next().unwrap_or_default())),
            (None, None) => None,
        };
        match (&self.user, password) {
            (Some(user), Some(password)) => Ok(Some((user.clone(), password))),
            (None, None) => Ok(None),
            (Some(user), None) => {
                Err(refuse(format!("the user '{user}' has no password: write password_file = the file it is in")))
            }
            (None, Some(_)) => Err(refuse("there is a password, but no user: write user")),
        }
    }

    /// Whether something is written that only TLS has a use for.
    pub fn wants_tls(&self) -> bool {
        self.ca.is_some() || self.cert.is_some() || self.key.is_some()
    }

    /// The authorities to trust, as PEM, if other than the system's.
    ///
    /// # Errors
    /// `Config` if the file has none, or cannot be read.
    pub fn authorities(&self) -> Result<Option<String>> {
        self.ca.as_ref().map(|ca| pem(ca, "ca", "CERTIFICATE")).transpose()
    }

    /// Our certificate and its key, as PEM, if we have one.
    ///
    /// # Errors
    /// `Config` if one is missing, or a file is not what it should be.
    pub fn identity(&self) -> Result<Option<(String, String)>> {
        match (&self.cert, &self.key) {
            (Some(cert), Some(key)) => Ok(Some((pem(cert, "cert", "CERTIFICATE")?, pem(key, "key", "PRIVATE KEY")?))),
            (None, None) => Ok(None),
            (Some(_), None) => Err(refuse("there is a cert, but no key: write key = the file of its private key")),
            (None, Some(_)) => Err(refuse("there is a key, but no cert: write cert = the file of its certificate")),
        }
    }
}

fn address(host: &str, default_port: u16) -> Result<String> {
    let plain = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._".contains(&b));
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) if !host.ends_with(']') => (name, port.parse::<u16>().ok().filter(|port| *port > 0)),
        _ => (host, Some(default_port)),
    };
    let ipv6 = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
    let good = ipv6.map_or_else(|| plain(name), |address| address.parse::<Ipv6Addr>().is_ok());
    port.filter(|_| good).map(|port| format!("{name}:{port}")).ok_or_else(|| {
        refuse(format!("'{host}' is no address of a server: write host, host:port or [IPv6 address]:port"))
    })
}

/// A file that has at least one PEM block of this kind. TLS itself would ignore one that has none, and then trust nobody.
fn pem(path: &Path, setting: &str, kind: &str) -> Result<String> {
    let text = text(path, setting)?;
    let begins = |line: &str| line.starts_with("-----BEGIN ") && line.trim_end().ends_with(&format!("{kind}-----"));
    if text.lines().any(begins) {
        return Ok(text);
    }
    Err(refuse(format!("{setting} = {} has no {kind} in it: write the path of a PEM file that has", path.display())))
}

fn text(path: &Path, setting: &str) -> Result<String> {
    fs::read_to_string(path).map_err(|error| {
        refuse(format!("{setting} = {} cannot be read: write the path of a file that can", path.display()))
            .with_source(error)
    })
}

fn refuse(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Config, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(url: &str) -> Config {
        url.parse().expect("a URL")
    }

    fn refused<T: std::fmt::Debug>(answer: Result<T>, says: &str) {
        let error = answer.expect_err("it was accepted");
        assert!(error.kind() == ErrorKind::Config && error.to_string().contains(says), "{error}");
    }

    #[test]
    fn servers_have_ports_and_odd_ones_are_refused() {
        let good = config("any://h1,10.0.0.2:4001,[::1],[::1]:4001,a_b:1/x").addresses(2379).expect("good");
        assert_eq!(good, ["h1:2379", "10.0.0.2:4001", "[::1]:2379", "[::1]:4001", "a_b:1"]);
        refused(config("any:").addresses(1), "write any://host/namespace");
        for bad in ["any://h:port/x", "any://::1/x", "any://[h]/x", "any://h%20x/x", "any://h:99999/x", "any://h:0/x"] {
            refused(config(bad).addresses(1), "write host, host:port");
        }
    }

    #[test]
    fn passwords_need_a_user_and_one_source() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        fs::write(&file, "hunter2\nsecond line\n").expect("written");
        let login = |rest: &str| {
            config(&format!("any://h/x?{rest}").replace("FILE", &file.path().display().to_string())).login()
        };
        let good = login("user=me&password_file=FILE").expect("good").expect("there");
        assert_eq!((good.0.as_str(), good.1.expose()), ("me", "hunter2"));
        assert!(login("").expect("good").is_none());
        for (bad, says) in [
            ("user=me", "write password_file"),
            ("password=x", "write user"),
            ("user=me&password=x&password_file=FILE", "leave one out"),
            ("user=me&password_file=FILE.missing", "cannot be read"),
        ] {
            refused(login(bad), says);
        }
    }

    #[test]
    fn files_that_are_no_certificates_are_refused() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let with = |setting: &str| config(&format!("any://h/x?{setting}={}", file.path().display()));
        fs::write(&file, "no certificate").expect("written");
        refused(with("ca").authorities(), "has no CERTIFICATE in it");
        refused(with("cert").identity(), "write key");
        refused(with("key").identity(), "write cert");
        refused(config("any://h/x?ca=/missing/ca.pem").authorities(), "cannot be read");
        assert!(with("ca").wants_tls() && with("key").wants_tls() && !config("any://h/x").wants_tls());
        fs::write(&file, "-----BEGIN CERTIFICATE-----\n..\n").expect("written");
        assert!(with("ca").authorities().expect("good").is_some());
    }
}
