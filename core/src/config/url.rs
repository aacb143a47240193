//! A URL, taken apart into settings.

use std::str::FromStr;

use percent_encoding::percent_decode_str;

use super::{Config, Setting, layer::Layer, refusal};
use crate::error::{Error, Result};

type Pairs = Vec<(&'static str, String)>;

impl FromStr for Config {
    type Err = Error;

    /// No message repeats the URL: it may hold a password.
    fn from_str(url: &str) -> Result<Self> {
        Layer::new([Setting::new("", "url", url)])?.config()
    }
}

/// Each key with its text, in the order in which they are written.
pub(super) fn settings(url: &str) -> Result<Vec<(String, String)>> {
    let is_scheme =
        |scheme: &str| !scheme.is_empty() && scheme.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b));
    let Some((scheme, rest)) = url.split_once(':').filter(|(scheme, _)| is_scheme(scheme)) else {
        return Err(refusal("the URL has no scheme: write it like scheme://host/namespace, or sqlite:/path/to/file"));
    };
    let (address, query) = rest.split_once('?').map_or((rest, ""), |(address, query)| (address, query));
    let mut settings = vec![("backend".to_owned(), scheme.to_owned())];
    settings.extend(address_settings(address)?.into_iter().map(|(key, text)| (key.to_owned(), text)));
    if address.starts_with("//") && !address.starts_with("///") && query.contains('@') {
        return Err(at_sign());
    }
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let Some((key, text)) = pair.split_once('=') else {
            return Err(refusal("a setting has no value: write them like ttl=10s&namespace=billing"));
        };
        let (key, text) = (decoded(key)?, decoded(text)?);
        if key == "url" {
            return Err(refusal("the URL has a setting 'url': write what is in it instead"));
        }
        settings.push((key, text));
    }
    Ok(settings)
}

fn address_settings(address: &str) -> Result<Pairs> {
    let path = |path: &str| -> Result<Pairs> {
        if path.is_empty() { Ok(Vec::new()) } else { Ok(vec![("path", decoded(path)?)]) }
    };
    let Some(rest) = address.strip_prefix("//") else { return path(address) };
    let (authority, namespace) = rest.split_once('/').unwrap_or((rest, ""));
    if authority.is_empty() {
        return if namespace.is_empty() { Ok(Vec::new()) } else { path(&format!("/{namespace}")) };
    }
    let (who, hosts) = authority.rsplit_once('@').map_or((None, authority), |(who, hosts)| (Some(who), hosts));
    let mut settings = who.map_or(Ok(Vec::new()), credentials)?;
    if namespace.contains('@') {
        return Err(at_sign());
    }
    settings.push(("hosts", hosts.to_owned()));
    if !namespace.is_empty() {
        settings.push(("namespace", decoded(namespace)?));
    }
    Ok(settings)
}

fn credentials(who: &str) -> Result<Pairs> {
    let (user, password) = who.split_once(':').map_or((who, None), |(user, word)| (user, Some(word)));
    if user.is_empty() {
        return Err(refusal("there is a password or an '@', but no user: write user:password@host"));
    }
    let mut settings = vec![("user", decoded(user)?)];
    if let Some(password) = password {
        settings.push(("password", decoded(password)?));
    }
    Ok(settings)
}

/// Most likely a password is not escaped, and has been taken for something that is shown.
fn at_sign() -> Error {
    refusal("there is an '@' after the host: write / ? # @ in a user, password or name as %2F %3F %23 %40")
}

fn decoded(text: &str) -> Result<String> {
    let decoded = percent_decode_str(text).decode_utf8();
    decoded
        .map(Into::into)
        .map_err(|_| refusal("the URL has a %-sequence that is not UTF-8: write every byte of the text as %XX"))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;
    use crate::{config::Secret, error::ErrorKind};

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

    proptest! {
        #[test]
        fn no_text_breaks_the_parser(text in "\\PC{0,60}", query in "[a-z%=&?/@:,0-9]{0,60}") {
            let _ = text.parse::<Config>();
            let _ = format!("etcd:{query}").parse::<Config>();
        }
    }
}
