//! SQLite as the processes and users of one host meet on it: kills, stops, rights, mounts, time namespaces. Run as root.
#![cfg(target_os = "linux")]

use std::{path::Path, process::Command};

mod crash;
mod host;

fn process(wrapper: &[&str], what: &str, path: &Path) -> Command {
    tenure_tests::on_sqlite::process(Path::new(env!("CARGO_BIN_EXE_sqlite-process")), wrapper, what, path)
}
