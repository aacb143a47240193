//! The commands of `docs/moving.md`, as they stand there.

use std::{env, fs, path::Path, process::Command};

use tenure_conformance::server::Place;

use crate::support::{Room, text};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/moving.md");

/// All that is to be typed, with these places instead of those on the page.
fn script(from: &str, to: &Place) -> String {
    let page = fs::read_to_string(PAGE).expect("the page");
    let typed: Vec<_> = page.split("```sh").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert_eq!(typed.len(), 3, "blocks of commands on {PAGE}");
    let script = typed.concat();
    let (old, new) = ("sqlite:/var/lib/app/tenure.db", "etcd://10.0.0.1,10.0.0.2,10.0.0.3/billing?");
    assert!(script.contains(old) && script.contains(new), "{script}");
    script.replace(old, from).replace(new, &to.url("ttl=10s&"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_commands_on_the_page_move_a_resource_and_bring_it_back() {
    let _alone = crate::alone().await;
    let places = Place::shared().await;
    let back = places.iter().rev().skip(1);
    let way: Vec<_> = places.iter().chain(back).collect();
    let mut before = 0; // the base of the old place, which came from the one before it
    for pair in way.windows(2) {
        let [from, to] = pair else { unreachable!("windows of two") };
        let room = Room::on(from.url(&format!("ttl=10s&token_base={before}")));
        for _ in 0..20 {
            assert_eq!(room.run(&["lock", "nightly-invoices", "true"]).status.code(), Some(0));
        }
        let program = Path::new(env!("CARGO_BIN_EXE_tenure")).parent().expect("a folder");
        let path = env::join_paths(
            [program.to_owned()].into_iter().chain(env::split_paths(&env::var_os("PATH").expect("set"))),
        );
        let script = format!("set -e\n{}\necho $base", script(&room.url(), to));
        let output =
            Command::new("sh").args(["-c", &script]).env("PATH", path.expect("good names")).output().expect("it runs");
        let said = text(&output.stdout);
        assert!(output.status.success(), "{said}{}", text(&output.stderr));
        let numbers: Vec<u64> = said.lines().map(|line| line.parse().expect("a number")).collect();
        let [token, base] = numbers[..] else { panic!("{said}") };
        println!("{} to {}: base {base}, then {token}", from.label, to.label);
        assert!(base > before + 20 && token > base, "{said}");
        before = base;
    }
}
