//! The SQL in the docs: run as it stands there, and held to the output that stands below it.

use std::{
    fs::{self, File},
    path::Path,
};

use tenure_conformance::server::postgres::Postgres;
use tenure_fence::SQL;

/// Each block of SQL, with the text that follows it.
fn blocks(page: &str) -> Vec<(&str, &str)> {
    let mut parts = page.split("```");
    let mut found = Vec::new();
    while let Some(part) = parts.next() {
        if let Some(statements) = part.strip_prefix("sql\n") {
            assert!(parts.next().is_some_and(|between| between.trim().is_empty()), "no output below {statements}");
            let text = parts.next().and_then(|part| part.strip_prefix("text\n"));
            found.push((statements, text.unwrap_or_else(|| panic!("no output below {statements}"))));
        }
    }
    found
}

/// As `psql -A -t` does it for a person: it tells what each statement did, and goes on after an error.
fn run(server: &Postgres, folder: &Path, statements: &str) -> String {
    let (script, said) = (folder.join("script"), folder.join("said"));
    fs::write(&script, format!("\\set QUIET off\n\\set ON_ERROR_STOP off\n{statements}")).expect("it can be written");
    let both = File::create(&said).expect("it can be made");
    let mut psql = server.psql("postgres", &[]);
    psql.stdin(File::open(&script).expect("written")).stdout(both.try_clone().expect("a file")).stderr(both);
    psql.status().expect("it runs");
    fs::read_to_string(&said).expect("it is text")
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_docs_show_is_what_postgres_does() {
    let (server, folder) = (Postgres::start().await, tempfile::tempdir().expect("a folder"));
    server.control(SQL);
    let pages = [include_str!("../../../docs/no-lock.md"), include_str!("../../../docs/fencing-outside.md")];
    for (page, least) in pages.into_iter().zip([4, 3]) {
        let blocks = blocks(page);
        assert_eq!(blocks.len(), least);
        for (statements, text) in blocks {
            let said = run(&server, folder.path(), statements);
            // Where in a function an error was raised is of no interest to the reader.
            let said: Vec<_> = said.lines().filter(|line| !line.starts_with("CONTEXT:")).collect();
            assert_eq!(said, text.lines().collect::<Vec<_>>(), "{statements}");
            server.control("DROP TABLE IF EXISTS account");
        }
    }
}
