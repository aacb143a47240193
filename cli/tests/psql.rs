//! What the docs show for a shell and Postgres: run as it stands there.

mod support;

use std::{
    env,
    path::Path,
    process::{Command, Output},
};

use support::{Room, text};
use tenure_conformance::server::postgres::Postgres;

/// The blocks for a shell that go to Postgres under a lock.
fn blocks() -> Vec<&'static str> {
    let page = include_str!("../../docs/fencing-outside.md");
    let blocks = page.split("```").filter_map(|part| part.strip_prefix("sh\n"));
    blocks.filter(|block| block.contains("psql")).collect()
}

/// With `tenure`, its backend and the database as a user has them set.
fn shell(room: &Room, server: &Postgres, script: &str) -> Output {
    let psql = server.psql("postgres", &[]);
    let folders = [Path::new(env!("CARGO_BIN_EXE_tenure")), Path::new(psql.get_program())];
    let folders = folders.map(|program| program.parent().expect("a folder").to_owned());
    let path = env::var_os("PATH").unwrap_or_default();
    let path = env::join_paths(folders.into_iter().chain(env::split_paths(&path))).expect("good names");
    let mut command = Command::new("sh");
    command.args(["-c", script]).current_dir(room.path("")).env("PATH", path).env("TENURE_URL", room.url());
    let port = server.address.port().to_string();
    command.env("PGHOST", "127.0.0.1").env("PGPORT", port).env("PGUSER", "postgres").env("PGDATABASE", "postgres");
    command.output().expect("it runs")
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_docs_show_for_a_shell_writes_with_the_lock_and_not_without() {
    let (room, server) = (Room::new(), Postgres::start().await);
    server.control(include_str!("../../fence/sql/tenure_fence.sql"));
    server.control("CREATE TABLE invoice (number int PRIMARY KEY)");
    let numbers = || server.control("SELECT string_agg(number::text, ' ' ORDER BY number) FROM invoice");
    let good = |script: &str| {
        let output = shell(&room, &server, script);
        assert!(output.status.success(), "{script}: {}", text(&output.stderr));
    };
    let [fenced, verified] = blocks()[..] else { panic!("{:?}", blocks()) };

    good(fenced);
    good(fenced);
    assert_eq!(numbers(), "1 2");
    let mark = server.control("SELECT token FROM tenure.fence_marks WHERE resource = 'invoices'");
    assert!(mark.parse::<u64>().expect("a token") > 1, "{mark}");
    good(verified);
    assert_eq!(numbers(), "101 102");

    let late = verified.replace("\"$TENURE_TOKEN\"", &mark);
    assert_eq!(shell(&room, &server, &late).status.code(), Some(1), "the token of a holder before");
    server.control("SELECT tenure.fence('invoices', 1000)");
    let output = shell(&room, &server, fenced);
    assert!(!output.status.success() && text(&output.stderr).contains("with token 1000"), "{output:?}");
    assert_eq!(numbers(), "101 102", "nothing was written");
}
