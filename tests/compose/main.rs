//! `docker-compose.yml` against the servers that the tests start themselves: the same settings, but for the differences listed here. No
//! container is started.

mod etcd;
mod zookeeper;

use std::{collections::BTreeMap, fs, path::Path};

use serde_json::Value;

type Settings = BTreeMap<String, String>;

fn file() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docker-compose.yml");
    fs::read_to_string(path).expect("it is there")
}

/// The services of this image, and what they are called, which is their host too.
fn definitions(image: &str) -> Vec<(String, Value)> {
    let file: Value = serde_saphyr::from_str(&file()).expect("YAML");
    let all = file["services"].as_object().expect("services");
    let of_image = all.iter().filter(|(_, definition)| text(&definition["image"]).contains(image));
    of_image.map(|(host, definition)| (host.clone(), definition.clone())).collect()
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn list(value: &Value) -> Vec<String> {
    value.as_array().expect("a list").iter().map(text).collect()
}

/// The command of a health check that says all it has to say.
fn health(definition: &Value) -> Vec<String> {
    let health = &definition["healthcheck"];
    for key in ["interval", "timeout", "retries", "start_period"] {
        assert!(!health[key].is_null(), "a health check without {key}");
    }
    list(&health["test"])
}

/// The same settings, but for those that only the tests have, and those that both have with values of their own.
fn compare(host: &str, mut here: Settings, mut in_tests: Settings, only_in_tests: &[&str], other_value: &[&str]) {
    for name in only_in_tests {
        assert!(in_tests.remove(*name).is_some(), "{name} is listed as one that only the tests set: they do not");
    }
    for name in other_value {
        let (here, in_tests) = (here.remove(*name), in_tests.remove(*name));
        assert!(here.is_some() && in_tests.is_some(), "{name}: {host} has {here:?}, the tests {in_tests:?}");
        assert_ne!(here, in_tests, "{name} is listed as different, but is not");
    }
    assert_eq!(here, in_tests, "{host} (left) is not as the tests start it (right)");
}
