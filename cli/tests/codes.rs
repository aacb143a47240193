//! Exit codes, result files, and where the configuration comes from.

mod support;

use std::{fs, os::unix::fs::PermissionsExt};

use rustix::process::Signal;
use serde_json::json;
use support::{Room, Running, assert_one_line, text};

#[test]
fn the_codes_of_the_command_and_of_what_cannot_be_run() {
    let room = Room::new();
    room.write("plain", "not a program");
    room.write("script", "exit 9");
    fs::set_permissions(room.path("script"), fs::Permissions::from_mode(0o755)).expect("set");
    for (command, code, says) in [
        (&["true"][..], 0, ""),
        (&["sh", "-c", "exit 7"], 7, ""),
        (&["sh", "-c", "exit 255"], 255, ""),
        (&["sh", "-c", "exit 75"], 75, ""),
        (&["sh", "-c", "kill -KILL $$"], 137, ""),
        (&["sh", "-c", "kill -TERM $$"], 143, ""),
        (&["./script"], 9, ""),
        (&["no-such-command"], 127, "the command 'no-such-command' was not found"),
        (&["./plain"], 126, "the command './plain' cannot be run: Permission denied"),
        (&["."], 126, "the command '.' cannot be run"),
    ] {
        let output = room.run(&[&["lock", "job", "--"], command].concat());
        assert_eq!(output.status.code(), Some(code), "{command:?}");
        assert_eq!(room.entries(), 0, "{command:?}");
        if !says.is_empty() {
            assert_one_line(&output, says);
        }
    }
}

#[test]
fn wrong_words_are_refused_with_64() {
    let room = Room::new();
    for (words, says) in [
        (&[][..], "write tenure lock NAME -- COMMAND"),
        (&["lock"], "required"),
        (&["lock", "job"], "COMMAND"),
        (&["lok", "job", "true"], "'lok'"),
        (&["lock", "-n", "-w", "3", "job", "touch", "ran"], "cannot be used with"),
        (&["lock", "-s", "-x", "job", "touch", "ran"], "cannot be used with"),
        (&["lock", "-s", "--permits", "2", "job", "touch", "ran"], "cannot be used with"),
        (&["lock", "-x", "--permits", "2", "job", "touch", "ran"], "cannot be used with"),
        (&["lock", "--permits", "0", "job", "touch", "ran"], "--permits"),
        (&["lock", "-E", "256", "job", "touch", "ran"], "256"),
        (&["lock", "-w", "soon", "job", "touch", "ran"], "'soon' is no duration: write it like 5, 1.5, 10s"),
        (&["lock", "--url", "sqlite:x", "--config", "y", "job", "touch", "ran"], "cannot be used with"),
        (&["lock", "--url", "sqlite:x", "--profile", "y", "job", "touch", "ran"], "cannot be used with"),
        (&["lock", "--odd", "job", "touch", "ran"], "--odd"),
    ] {
        let output = room.run(words);
        assert_eq!(output.status.code(), Some(64), "{words:?}");
        assert_one_line(&output, says);
    }
    assert!(!room.path("ran").exists() && !room.path("tenure.db").exists());
}

#[test]
fn help_and_version_go_to_stdout() {
    let room = Room::new();
    for words in [&["--help"][..], &["--version"], &["lock", "--help"], &["lock", "-h"], &["help", "lock"]] {
        let output = room.run(words);
        assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()), "{words:?}");
        assert!(!output.stdout.is_empty());
    }
    let help = text(&room.run(&["lock", "--help"]).stdout);
    for told in ["TENURE_TOKEN", "75", "kill -9", "-- ./send-invoices", "sudo"] {
        assert!(help.contains(told), "{told}");
    }
    assert!(!help.contains("__watchdog"));
}

#[test]
fn configurations_that_cannot_work_are_refused_with_78() {
    let room = Room::new();
    room.write("bad.toml", "backend = \"sqlite\"\nttl = 5\n");
    room.write("broken.toml", "backend = \"sqlite\"\npassword = hunter2\n");
    room.write(
        "plain",
        "no database, but long enough to be looked at: ----------------------------------------------------",
    );
    for (words, says) in [
        (&["--url", "oracle://u@h/x"][..], "there is no backend 'oracle'"),
        (&["--url", "oracle://u:hunter2@h/x"], "--url: all users of this host can read a password there"),
        (&["--url", "sqlite:x?user=u&password=hunter2"], "set TENURE_PASSWORD"),
        (&["--set", "password=hunter2"], "set TENURE_PASSWORD"),
        (&["--set", "password:hunter2"], "write it like --set ttl=30s"),
        (&["--set", "=hunter2"], "write it like --set ttl=30s"),
        (&["--set", "url=sqlite:hunter2"], "--set has no url: write --url"),
        (&["--set", "ttl=5s", "--set", "ttl=6s"], "--set: 'ttl' is written twice"),
        (&["--url", "sqlite:x?ttl=3s", "--set", "ttl=6s"], "'ttl' is written in --url as well"),
        (&["--url", "sqlite:x?colour=red"], "colour"),
        (&["--url", "sqlite:x?ttl=0s"], "ttl"),
        (&["--url", "sqlite:x?require=consensus"], "require = consensus"),
        (&["--url", "memory://x"], "excludes nobody but this process"),
        (&["--url", "no url:hunter2"], "--url: the URL has no scheme"),
        (&["--url", "sqlite:plain"], "plain"),
        (
            &["--grace", "3s"],
            "--grace 3s does not fit into a ttl of 5s with two tries to renew: write 1s 166ms or less, or ttl=13s",
        ),
        (&["--result-file", "no/such/folder"], "the result file no/such/folder cannot be opened"),
    ] {
        let output = room.run(&[&["lock"], words, &["job", "touch", "ran"]].concat());
        assert_eq!(output.status.code(), Some(78), "{words:?}: {}", text(&output.stderr));
        assert_one_line(&output, says);
        assert!(!text(&output.stderr).contains("hunter2"), "{words:?}");
    }
    for (file, says) in [
        ("bad.toml", "bad.toml: ttl = '5' is no duration"),
        ("broken.toml", "broken.toml, line 2"),
        ("missing.toml", "missing.toml: there is no such file"),
    ] {
        let mut command = room.tenure(&["lock", "--config", file, "job", "touch", "ran"]);
        let output = Running::start(command.env_remove("TENURE_URL")).output();
        assert_eq!(output.status.code(), Some(78), "{file}");
        assert_one_line(&output, says);
        assert!(!text(&output.stderr).contains("hunter2"), "{file}");
    }
    assert!(!room.path("ran").exists());
}

#[test]
fn a_grace_that_fits_is_taken() {
    let room = Room::new();
    assert_eq!(room.run(&["lock", "--grace", "1.1", "job", "true"]).status.code(), Some(0));
}

#[test]
fn a_database_that_nobody_gives_free_is_unreachable() {
    let room = Room::new();
    assert_eq!(room.run(&["lock", "job", "true"]).status.code(), Some(0));
    let mut database = room.database();
    let _blocking = database.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate).expect("free");
    let url = format!("{}&connect_timeout=1s", room.url());
    let output = room.run(&["lock", "--url", &url, "job", "touch", "ran"]);
    assert_eq!(output.status.code(), Some(69), "{}", text(&output.stderr));
    assert_one_line(&output, "");
    assert!(!room.path("ran").exists());
}

/// Which database was used, among those with these names.
fn used(room: &Room, names: &[&str]) -> Vec<String> {
    let made: Vec<String> =
        names.iter().filter(|name| room.path(name).exists()).map(|name| (*name).to_owned()).collect();
    for name in &made {
        fs::remove_file(room.path(name)).expect("removed");
    }
    made
}

#[test]
fn the_configuration_is_looked_for_in_this_order() {
    let room = Room::new();
    fs::create_dir_all(room.path(".config/tenure")).expect("made");
    fs::create_dir_all(room.path("xdg/tenure")).expect("made");
    let names = ["url.db", "env.db", "config.db", "here.db", "xdg.db", "home.db", ".local/state/tenure/tenure.db"];
    room.write("other.toml", "backend = \"sqlite\"\npath = \"config.db\"\n");
    room.write("tenure.toml", "url = \"sqlite:here.db\"\n");
    room.write("xdg/tenure/tenure.toml", "url = \"sqlite:xdg.db\"\n");
    room.write(".config/tenure/tenure.toml", "url = \"sqlite:home.db\"\n");
    let run = |words: &[&str], env: &[(&str, &str)]| {
        let mut command = room.tenure(&[&["lock"], words, &["job", "true"]].concat());
        let xdg = room.path("xdg");
        command.env_remove("TENURE_URL").envs(env.iter().copied()).env("XDG_CONFIG_HOME", xdg);
        let output = Running::start(&mut command).output();
        (output.status.code(), used(&room, &names).join(" "))
    };
    let env = ("TENURE_URL", "sqlite:env.db");
    let ok = |name: &str| (Some(0), name.to_owned());
    assert_eq!(run(&["--url", "sqlite:url.db"], &[env]), ok("url.db"));
    assert_eq!(run(&[], &[env]), ok("env.db"));
    assert_eq!(run(&["--config", "other.toml"], &[]), ok("config.db"));
    assert_eq!(run(&["--config", "other.toml"], &[env]), (Some(78), String::new()));
    assert_eq!(run(&[], &[("TENURE_URL", "")]), ok("here.db"));
    fs::remove_file(room.path("tenure.toml")).expect("removed");
    assert_eq!(run(&[], &[]), ok("xdg.db"));
    fs::remove_file(room.path("xdg/tenure/tenure.toml")).expect("removed");
    assert_eq!(run(&[], &[]), ok(".local/state/tenure/tenure.db"));
    let mut command = room.tenure(&["lock", "job", "true"]);
    assert_eq!(Running::start(command.env_remove("TENURE_URL")).code(), 0);
    assert_eq!(used(&room, &names), ["home.db"]);
}

fn checked(room: &Room, expected: &serde_json::Value) {
    let result = room.result();
    for (key, value) in expected.as_object().expect("an object") {
        assert_eq!(&result[key], value, "{key} in {result}");
    }
    assert_eq!(result.as_object().expect("an object").len(), 9, "{result}");
}

#[test]
fn the_result_file_tells_the_outcomes_apart() {
    let room = Room::new();
    let file = ["--result-file", "result.json"];
    let run = |words: &[&str]| room.run(&[&["lock"], &file[..], words].concat()).status.code();
    assert_eq!(run(&["job", "sh", "-c", "exit 75"]), Some(75));
    checked(
        &room,
        &json!({ "name": "job", "outcome": "completed", "exit_code": 75, "child": { "code": 75 }, "backend": "sqlite", "reason": null }),
    );
    let result = room.result();
    assert!(result["token"].is_u64() && result["waited_ms"].is_u64() && result["held_ms"].is_u64(), "{result}");

    assert_eq!(run(&["-s", "job", "sh", "-c", "kill $$"]), Some(143));
    checked(&room, &json!({ "outcome": "completed", "child": { "signal": 15 }, "token": null }));

    assert_eq!(run(&["job", "no-such-command"]), Some(127));
    checked(&room, &json!({ "outcome": "command-not-started", "exit_code": 127, "child": null }));

    assert_eq!(run(&["--url", "sqlite:x?odd=1", "job", "true"]), Some(78));
    checked(&room, &json!({ "outcome": "error", "exit_code": 78, "token": null, "held_ms": null }));

    let _holder = room.start_ready(&["job"], "touch ready; sleep 60");
    assert_eq!(run(&["-n", "-E", "7", "job", "true"]), Some(7));
    checked(&room, &json!({ "outcome": "not-acquired", "exit_code": 7, "child": null, "token": null }));

    let mut waiter = room.start(&[&["lock"], &file[..], &["job", "true"]].concat());
    room.until_entries(2);
    assert_eq!(room.read("result.json"), "", "an earlier outcome is not taken for this one");
    waiter.signal(Signal::TERM);
    assert_eq!(waiter.code(), 143);
    checked(&room, &json!({ "outcome": "interrupted", "exit_code": 143, "reason": "signal 15 while waiting" }));
}

#[test]
fn a_result_file_may_be_a_device() {
    let room = Room::new();
    let output = room.run(&["lock", "--result-file", "/dev/stderr", "job", "true"]);
    assert!(text(&output.stderr).starts_with("{\"name\":\"job\""), "{}", text(&output.stderr));
}
