//! A service that is told by its environment alone where to lock.

use std::{env, fs, process::Command};

use tenure_conformance::server::Place;

/// What it says, and whether it could lock.
fn user(variables: &[(&str, &str)]) -> (bool, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_env-user"));
    for (name, _) in env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("TENURE_")) {
        command.env_remove(name);
    }
    let output = command.envs(variables.iter().copied()).output().expect("it runs");
    (output.status.success(), String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_ways_to_tell_a_service_lead_to_one_place() {
    let _alone = crate::alone().await;
    let folder = tempfile::tempdir().expect("a directory");
    let file = folder.path().join("billing.toml").display().to_string();
    for place in Place::shared().await {
        let url = place.url("");
        let (backend, address) = url.split_once(':').expect("a URL");
        let address = address.trim_end_matches('?').trim_start_matches("//");
        let (variable, key) = if backend == "sqlite" { ("TENURE_PATH", "path") } else { ("TENURE_HOSTS", "hosts") };
        let common = format!("backend = '{backend}'\n{key} = '{address}'\nnamespace = 'live'\nttl = '7s'\n");
        fs::write(&file, format!("{common}[profile.env]\nnamespace = 'env'\n")).expect("written");
        let (url, of_file) = (place.url("namespace=env&ttl=8s"), ("TENURE_CONFIG", file.as_str()));
        let single =
            [("TENURE_BACKEND", backend), (variable, address), ("TENURE_NAMESPACE", "env"), ("TENURE_TTL", "9s")];
        let mut last = 0;
        for (variables, ttl) in [
            (&[("TENURE_URL", url.as_str())][..], "8s"),
            (&single, "9s"),
            (&[of_file, ("TENURE_PROFILE", "env")], "7s"),
            (&[of_file, ("TENURE_NAMESPACE", "env"), ("TENURE_TTL", "6s"), ("TENURE_PREFIX", "x")], "6s"),
        ] {
            let (locked, said) = user(variables);
            let (token, granted) = said.split_once(' ').filter(|_| locked).unwrap_or_else(|| panic!("{said}"));
            let token: u64 = token.parse().expect("a number");
            assert!(token > last && granted == ttl, "{}: {said} after {last}", place.label);
            last = token;
        }
        println!("{:8} four ways, last token {last}", place.label);
    }
}

#[test]
fn a_service_that_was_not_told_where_does_not_lock_somewhere() {
    for (variables, says) in [
        (&[][..], "there is no 'backend': write"),
        (&[("TENURE_NAMESPACE", "env")], "TENURE_NAMESPACE: there is no 'backend' beside 'namespace'"),
        (&[("TENURE_ULR", "memory://x")], "no setting TENURE_ULR: write TENURE_URL"),
        (&[("TENURE_PROFILE", "env")], "TENURE_PROFILE: there is no file"),
        (&[("TENURE_CONFIG", "/missing.toml")], "/missing.toml: there is no such file"),
        (&[("TENURE_CONFIG", "x"), ("TENURE_URL", "memory://x")], "TENURE_CONFIG: TENURE_URL says where as well"),
    ] {
        let (locked, said) = user(variables);
        assert!(!locked && said.contains(says), "{said}\n{says}");
    }
}
