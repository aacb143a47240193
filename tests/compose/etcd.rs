//! The servers of etcd.

use std::path::Path;

use serde_json::Value;
use tenure_conformance::server::etcd::{Release, Setup};

use super::{Settings, compare, definitions, file, health, list, text};

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

/// A server of the file.
struct Service {
    host: String,
    definition: Value,
    flags: Settings,
}

fn services() -> Vec<Service> {
    let of = |(host, definition): (String, Value)| {
        let environment = definition["environment"].as_object().expect("a mapping");
        let flags = environment.iter().map(|(variable, value)| {
            let flag = variable.strip_prefix("ETCD_").expect("etcd reads no other variable");
            (flag.to_lowercase().replace('_', "-"), text(value))
        });
        Service { host, flags: flags.collect(), definition }
    };
    let services: Vec<_> = definitions("/etcd:").into_iter().map(of).collect();
    assert_eq!(services.len(), 3);
    services
}

fn flags_in_tests(at: usize) -> Settings {
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
    for (at, Service { host, flags, .. }) in services().into_iter().enumerate() {
        compare(&host, flags, flags_in_tests(at), &ONLY_IN_TESTS, &OTHER_VALUE);
    }
}

#[test]
fn etcd_is_one_cluster_that_this_machine_alone_reaches() {
    let services = services();
    let members = services.iter().map(|service| format!("{}=http://{}:2380", service.flags["name"], service.host));
    let members = members.collect::<Vec<_>>().join(",");
    let mut addresses = Vec::new();
    for service in &services {
        let Service { host, flags, definition } = service;
        assert_eq!(flags["initial-cluster"], members, "{host}");
        assert_eq!(flags["initial-advertise-peer-urls"], format!("http://{host}:2380"));
        assert_eq!(flags["listen-peer-urls"], "http://0.0.0.0:2380", "{host}");
        assert_eq!(flags["listen-client-urls"], "http://0.0.0.0:2379", "{host}");
        let address = flags["advertise-client-urls"].strip_prefix("http://").expect("no TLS");
        assert!(address.starts_with("127.0.0.1:"), "{host}: {address}");
        assert_eq!(list(&definition["ports"]), [format!("{address}:2379")], "{host}");
        assert_eq!(list(&definition["volumes"]), [format!("{host}:{}", flags["data-dir"])]);
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
        assert_eq!(health(&definition)[1], "etcdctl", "{host}");
    }
}
