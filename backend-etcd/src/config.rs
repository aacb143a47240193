//! What a configuration says about the servers, and how to reach them.

use std::time::Duration;

use etcd_client::{Certificate, ConnectOptions, Identity, TlsOptions};
use tenure_core::{Config, Result};

use crate::{error::config, keys::Keys};

const DEFAULT_PORT: u16 = 2379;

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
        let (hosts, tls) = (from.addresses(DEFAULT_PORT)?, tls || from.wants_tls());
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
        let options = match from.login()? {
            Some((user, password)) => anonymous.clone().with_user(user, password.expose()),
            None => anonymous.clone(),
        };
        let (scheme, keys) = (if tls { "https" } else { "http" }, Keys::new(namespace(&from.namespace)?));
        Ok(Self { hosts, scheme, keys, anonymous, options, connect_timeout: from.connect_timeout })
    }
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

fn tls_options(from: &Config) -> Result<TlsOptions> {
    let options = match from.authorities()? {
        Some(ca) => TlsOptions::new().ca_certificate(Certificate::from_pem(ca)),
        None => TlsOptions::new().with_native_roots(),
    };
    Ok(match from.identity()? {
        Some((cert, key)) => options.identity(Identity::from_pem(cert, key)),
        None => options,
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
    fn defaults_and_what_is_our_own() {
        let good = settings("etcd://h1,10.0.0.2:4001/billing/").expect("good");
        assert_eq!(good.hosts, ["h1:2379", "10.0.0.2:4001"]);
        assert_eq!((good.scheme, good.keys.token_base().as_str()), ("http", "billing/.tenure/token_base"));
        assert!(refused("etcd:").contains("write etcd://host/namespace"));
        assert!(refused("etcd://h/a/.tenure").contains("our own"));
        assert!(refused("etcd://h/x?cert=any").contains("write key"));
        assert_eq!(settings("etcds://h/x").expect("the system's authorities").scheme, "https");
    }
}
