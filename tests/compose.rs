//! `docker-compose.yml` against the servers that the tests start themselves: the same flags, but for the differences listed here. No container
//! is started.

use std::{collections::BTreeMap, fs, path::Path};

use serde_json::Value;
use tenure_conformance::server::etcd::{Release, Setup};

/// Flags that both have, with values of their own.
const OTHER_VALUE: [&str; 6] = [
    // A volume, not a directory that goes with the test.
    "data-dir",
    // A network of containers, with names for hosts and the same ports in each; the second test looks at these.
    "listen-client-urls",
    "advertise-client-urls",
    "listen-peer-urls",
    "initial-advertise-peer-urls",
    "initial-cluster",
];

/// Flags that only the tests set.
const ONLY_IN_TESTS: [&str; 2] = [
    // The tests read health and counters there, TLS or not. A container asks `etcdctl`.
    "listen-metrics-urls",
    // No data outlives a test, and no test cuts the power.
    "unsafe-no-fsync",
];

type Flags = BTreeMap<String, String>;

/// An etcd server of the file.
struct Service {
    host: String,
    definition: Value,
    flags: Flags,
}

impl Service {
    fn new(host: &str, definition: &Value) -> Self {
        let environment = definition["environment"].as_object().expect("a mapping");
        let flags = environment.iter().map(|(variable, value)| {
            let flag = variable.strip_prefix("ETCD_").expect("etcd reads no other variable");
            (flag.to_lowercase().replace('_', "-"), text(value))
        });
        Self { host: host.to_owned(), definition: definition.clone(), flags: flags.collect() }
    }

    fn list(&self, key: &str) -> Vec<String> {
        self.definition[key].as_array().expect("a list").iter().map(text).collect()
    }
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn file() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docker-compose.yml");
    fs::read_to_string(path).expect("it is there")
}

fn services() -> Vec<Service> {
    let file: Value = serde_saphyr::from_str(&file()).expect("YAML");
    let all = file["services"].as_object().expect("services");
    let etcd = all.iter().filter(|(_, definition)| text(&definition["image"]).contains("/etcd:"));
    let etcd: Vec<_> = etcd.map(|(host, definition)| Service::new(host, definition)).collect();
    assert_eq!(etcd.len(), 3);
    etcd
}

fn flags_in_tests(at: usize) -> Flags {
    let flags = Setup::cluster(Release::Packaged).flags(Path::new("/folder"), at, [1, 2, 3], "members");
    let flags = flags.iter().map(|flag| {
        let flag = flag.strip_prefix("--").expect("a flag");
        let (name, value) = flag.split_once('=').unwrap_or((flag, "true"));
        (name.to_owned(), value.to_owned())
    });
    flags.collect()
}

#[test]
fn etcd_has_the_flags_that_the_tests_use() {
    for (at, Service { host, mut flags, .. }) in services().into_iter().enumerate() {
        let mut expected = flags_in_tests(at);
        for flag in ONLY_IN_TESTS {
            assert!(expected.remove(flag).is_some(), "{flag} is listed as one that only the tests set: they do not");
        }
        for flag in OTHER_VALUE {
            let (here, in_tests) = (flags.remove(flag), expected.remove(flag));
            assert!(here.is_some() && in_tests.is_some(), "{flag}: {host} has {here:?}, the tests {in_tests:?}");
            assert_ne!(here, in_tests, "{flag} is listed as different, but is not");
        }
        assert_eq!(flags, expected, "{host} (left) is not as the tests start it (right)");
    }
}

#[test]
fn etcd_is_one_cluster_that_this_machine_alone_reaches() {
    let services = services();
    let members = services.iter().map(|service| format!("{}=http://{}:2380", service.flags["name"], service.host));
    let members = members.collect::<Vec<_>>().join(",");
    let mut addresses = Vec::new();
    for service in &services {
        let Service { host, flags, .. } = service;
        assert_eq!(flags["initial-cluster"], members, "{host}");
        assert_eq!(flags["initial-advertise-peer-urls"], format!("http://{host}:2380"));
        assert_eq!(flags["listen-peer-urls"], "http://0.0.0.0:2380", "{host}");
        assert_eq!(flags["listen-client-urls"], "http://0.0.0.0:2379", "{host}");
        let address = flags["advertise-client-urls"].strip_prefix("http://").expect("no TLS");
        assert!(address.starts_with("127.0.0.1:"), "{host}: {address}");
        assert_eq!(service.list("ports"), [format!("{address}:2379")], "{host}");
        assert_eq!(service.list("volumes"), [format!("{host}:{}", flags["data-dir"])]);
        addresses.push(address);
    }
    let url = format!("'etcd://{}/", addresses.join(","));
    assert!(file().contains(&url), "the comment on top tells another URL than {url}..");
}

#[test]
fn etcd_is_pinned_to_a_release_that_keeps_renewed_leases() {
    for Service { host, definition, .. } in services() {
        let image = text(&definition["image"]);
        let patch = image.rsplit_once(":v3.5.").and_then(|(_, patch)| patch.parse::<u32>().ok());
        assert!(patch.is_some_and(|patch| patch >= 13), "{host}: {image}, but docs/backends.md says 3.5.13 at least");
        let health = &definition["healthcheck"];
        assert_eq!(text(&health["test"][1]), "etcdctl", "{host}");
        for key in ["interval", "timeout", "retries", "start_period"] {
            assert!(!health[key].is_null(), "{host}: no {key}");
        }
    }
}
