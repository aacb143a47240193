//! The servers of ZooKeeper.

use std::{path::Path, process::Command, time::Duration};

use serde_json::Value;
use tenure_conformance::server::zookeeper::Setup;

use super::{Settings, compare, definitions, file, health, list, text};

/// Settings that both have, with values of their own.
const OTHER_VALUE: [&str; 5] = [
    // A volume, not a directory that goes with the test.
    "dataDir",
    // A network of containers, with names for hosts and the same ports in each; the second test looks at these.
    "server.1",
    "server.2",
    "server.3",
    // The tests read counters; a container asks only whether it serves.
    "4lw.commands.whitelist",
];

/// Settings that only the tests have.
const ONLY_IN_TESTS: [&str; 2] = [
    // No data outlives a test, and no test cuts the power.
    "forceSync",
    // Room on the disk for a test's few changes.
    "preAllocSize",
];

/// What the image's start script makes of its variables; those of `ZOO_CFG_EXTRA` and `ZOO_SERVERS` are settings themselves.
const VARIABLES: [(&str, &str); 8] = [
    ("ZOO_DATA_DIR", "dataDir"),
    ("ZOO_TICK_TIME", "tickTime"),
    ("ZOO_INIT_LIMIT", "initLimit"),
    ("ZOO_SYNC_LIMIT", "syncLimit"),
    ("ZOO_MAX_CLIENT_CNXNS", "maxClientCnxns"),
    ("ZOO_ADMINSERVER_ENABLED", "admin.enableServer"),
    ("ZOO_4LW_COMMANDS_WHITELIST", "4lw.commands.whitelist"),
    ("ZOO_DATA_LOG_DIR", "dataLogDir"),
];

/// A server of the file.
struct Service {
    host: String,
    definition: Value,
    settings: Settings,
    id: String,
}

impl Service {
    fn new(host: String, definition: Value) -> Self {
        let (mut settings, mut id) = (Settings::new(), None);
        for (variable, value) in definition["environment"].as_object().expect("a mapping") {
            match variable.as_str() {
                "ZOO_MY_ID" => id = Some(text(value)),
                "ZOO_SERVERS" | "ZOO_CFG_EXTRA" => settings.extend(text(value).split_whitespace().map(setting)),
                _ => {
                    let known = VARIABLES.iter().find(|(name, _)| name == variable);
                    let (_, name) = known.unwrap_or_else(|| panic!("{host}: what is {variable}?"));
                    settings.insert((*name).to_owned(), text(value));
                }
            }
        }
        Self { host, definition, settings, id: id.expect("an id") }
    }
}

fn setting(line: &str) -> (String, String) {
    let (name, value) = line.split_once('=').expect("a setting");
    (name.to_owned(), value.to_owned())
}

fn services() -> Vec<Service> {
    let services: Vec<_> = definitions("zookeeper:").into_iter().map(|(host, of)| Service::new(host, of)).collect();
    assert_eq!(services.len(), 3);
    services
}

#[test]
fn zookeeper_has_the_settings_that_the_tests_use() {
    let members = [1, 2, 3].map(|id| format!("server.{id}=elsewhere"));
    let in_tests: Settings =
        Setup::cluster().lines(Path::new("/folder"), &members).iter().map(|l| setting(l)).collect();
    for Service { host, mut settings, .. } in services() {
        // What is acknowledged is in the log: it has to be on the volume, too. The tests have no place of its own for it.
        assert_eq!(settings.remove("dataLogDir"), Some(settings["dataDir"].clone()), "{host}");
        compare(&host, settings, in_tests.clone(), &ONLY_IN_TESTS, &OTHER_VALUE);
    }
}

#[test]
fn zookeeper_is_one_ensemble_that_this_machine_alone_reaches() {
    let mut addresses = Vec::new();
    let services = services();
    for (at, Service { host, definition, settings, id }) in services.iter().enumerate() {
        assert_eq!(*id, (at + 1).to_string(), "{host}");
        for member in &services {
            let expected = format!("{}:2888:3888;2181", member.host);
            assert_eq!(settings[&format!("server.{}", member.id)], expected, "{host}");
        }
        let ports = list(&definition["ports"]);
        let address = ports[0].strip_suffix(":2181").expect("the port for clients");
        assert!(ports.len() == 1 && address.starts_with("127.0.0.1:"), "{host}: {ports:?}");
        assert_eq!(list(&definition["volumes"]), [format!("{host}:{}", settings["dataDir"])]);
        addresses.push(address.to_owned());
    }
    let url = format!("'zk://{}/", addresses.join(","));
    assert!(file().contains(&url), "the comment on top tells another URL than {url}..");
}

/// The command of the health check, run beside a server of ours.
fn is_healthy(definition: &Value, port: u16) -> bool {
    let command = health(definition);
    let [kind, program, arguments @ ..] = &command[..] else { panic!("no command") };
    assert_eq!((kind.as_str(), program.as_str()), ("CMD", "bash"));
    let arguments = arguments.iter().map(|argument| argument.replace("/2181", &format!("/{port}")));
    Command::new("timeout").args(["5", "bash"]).args(arguments).output().expect("it runs").status.success()
}

#[tokio::test]
async fn zookeeper_is_pinned_and_healthy_only_while_it_serves() {
    let mut zookeeper = Setup::cluster().start().await;
    let ports: Vec<_> = zookeeper.nodes.iter().map(|node| node.client.port()).collect();
    for (Service { host, definition, settings, .. }, port) in services().iter().zip(&ports) {
        let image = text(&definition["image"]);
        assert!(image.strip_prefix("zookeeper:3.8.").is_some_and(|patch| patch.parse::<u32>().is_ok()), "{image}");
        assert_eq!(settings["4lw.commands.whitelist"], "srvr", "{host}");
        assert!(is_healthy(definition, *port), "{host}");
    }
    for node in &mut zookeeper.nodes[..2] {
        node.process.kill();
    }
    tokio::time::sleep(Duration::from_secs(4)).await; // more than the syncLimit
    for (Service { host, definition, .. }, port) in services().iter().zip(&ports) {
        assert!(!is_healthy(definition, *port), "{host}: without a majority");
    }
}
