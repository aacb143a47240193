//! The command `tenure`: runs commands under distributed locks and elections.

use std::{env, process::ExitCode};

mod acquire;
mod alarm;
mod args;
mod child;
mod children;
mod descendants;
mod elect;
#[cfg(feature = "http")]
mod http;
mod link;
mod lock;
mod observe;
mod once;
mod outcome;
mod protocol;
mod resign;
mod run;
mod settings;
mod show;
mod signals;
mod spawn;
mod start;
mod terminal;
mod verify;
mod watchdog;

fn main() -> ExitCode {
    let mut words = env::args_os().skip(1);
    if words.next().is_some_and(|word| word == child::WATCHDOG) {
        let socket = words.next().unwrap_or_default();
        return watchdog::main(&socket.to_string_lossy(), &words.collect::<Vec<_>>());
    }
    match args::parse() {
        Ok(args::Command::Lock(lock)) => lock::main(&lock),
        Ok(args::Command::Once(once)) => once::main(&once),
        Ok(args::Command::Elect(elect)) => elect::main(&elect),
        Ok(args::Command::Observe(observe)) => observe::main(&observe),
        Ok(args::Command::Resign(resign)) => resign::main(&resign),
        Ok(args::Command::Verify(verify)) => verify::main(&verify),
        Err(code) => code,
    }
}

/// Tells people something: one line on stderr, whatever the text holds.
pub(crate) fn say(text: &str) {
    use std::io::Write;
    let line = format!("tenure: {}\n", text.split(['\n', '\r']).map(str::trim).collect::<Vec<_>>().join(" "));
    let _ = std::io::stderr().write_all(line.as_bytes()); // a closed stderr is no reason to give up a lock
}
