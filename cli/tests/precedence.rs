//! The table of `docs/configuration.md`, row by row: which source counts, by what is then found in the database.

mod support;

use std::{fs, path::Path};

use support::{LONG, Room, Running, assert_one_line, now_ms, text, until};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/configuration.md");
const DEFAULT: &str = ".local/state/tenure/tenure.db";

/// A row of the table: what is written where, and what comes of it.
#[derive(Debug)]
struct Row {
    file: Vec<String>,
    variables: Vec<String>,
    flags: Vec<String>,
    used: String,
}

/// All texts in backticks.
fn codes(cell: &str) -> Vec<String> {
    cell.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

fn rows() -> Vec<Row> {
    let page = fs::read_to_string(PAGE).expect("the page");
    let lines = page.lines().enumerate().skip_while(|(_, line)| !line.contains("| what is used |")).skip(2);
    let row = |(at, line): (usize, &str)| {
        let cells: Vec<_> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [file, variables, flags, used] = cells[..] else { panic!("line {}: not four cells", at + 1) };
        let flags = codes(flags).iter().flat_map(|flag| flag.split(' ')).map(str::to_owned).collect();
        Row { file: codes(file), variables: codes(variables), flags, used: used.to_owned() }
    };
    lines.take_while(|(_, line)| line.starts_with('|')).map(row).collect()
}

/// What a database says of who uses it.
#[derive(Debug, PartialEq)]
struct Used {
    file: String,
    namespace: String,
    token_base: i64,
    /// To the next ten seconds.
    ttl: i64,
}

impl Used {
    fn by(url: &str) -> Self {
        let url = url.trim_matches('`').strip_prefix("sqlite:").expect("a URL of sqlite");
        let (file, query) = url.split_once('?').unwrap_or((url, ""));
        let get = |key: &str| query.split('&').find_map(|pair| pair.strip_prefix(key)?.strip_prefix('='));
        Self {
            file: if file.is_empty() { DEFAULT } else { file }.to_owned(),
            namespace: get("namespace").unwrap_or_default().to_owned(),
            token_base: get("token_base").map_or(0, |base| base.parse().expect("a number")),
            ttl: get("ttl").map_or(10, |ttl| ttl.trim_end_matches('s').parse().expect("seconds")),
        }
    }

    /// From the database, while it is used.
    fn found(room: &Room, file: &str) -> Self {
        let database = rusqlite::Connection::open(room.path(file)).expect("a database");
        database.busy_timeout(LONG).expect("it waits");
        let sql = "SELECT name, token_base, (SELECT max(expires_ms) FROM sessions) FROM namespaces";
        let row = database.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?, row.get::<_, i64>(2)?)));
        let (namespace, token_base, expires) = row.expect("one user");
        let left = expires - i64::try_from(now_ms()).expect("some years");
        Self { file: file.to_owned(), namespace, token_base, ttl: (left + 9999) / 10_000 * 10 }
    }
}

fn databases(folder: &Path) -> Vec<String> {
    let files = fs::read_dir(folder).expect("a folder").flatten().map(|entry| entry.file_name().into_string());
    let mut found: Vec<_> = files.flatten().filter(|name| name.ends_with(".db")).collect();
    found.extend(folder.join(DEFAULT).exists().then(|| DEFAULT.to_owned()));
    found
}

fn start(room: &Room, row: &Row) -> Running {
    room.write("other.toml", "url = \"sqlite:o.db\"\n");
    if !row.file.is_empty() {
        room.write("tenure.toml", &row.file.join("\n"));
    }
    let flags: Vec<_> = row.flags.iter().map(String::as_str).collect();
    let script = "touch ready; until [ -e go ]; do sleep 0.01; done";
    let mut command = room.tenure(&[&["lock"], &flags[..], &["job", "sh", "-c", script]].concat());
    command.env_remove("TENURE_URL");
    command.envs(row.variables.iter().map(|pair| pair.split_once('=').expect("NAME=VALUE")));
    Running::start(&mut command)
}

#[test]
fn every_row_of_the_table_is_so() {
    let rows = rows();
    assert!(rows.len() >= 30, "only {} rows were found in {PAGE}", rows.len());
    for row in &rows {
        let room = Room::new();
        let mut running = start(&room, row);
        if let Some(says) = row.used.strip_prefix("refused: ") {
            let output = running.output();
            assert_eq!(output.status.code(), Some(78), "{row:?}: {}", text(&output.stderr));
            assert_one_line(&output, says);
            assert!(!room.path("ready").exists(), "{row:?}");
            continue;
        }
        until("the command, or a complaint", || room.path("ready").exists() || !running.is_running());
        let expected = Used::by(&row.used);
        let made = databases(&room.path(""));
        assert_eq!(
            made,
            [expected.file.as_str()],
            "{row:?}: {}",
            if made.is_empty() { text(&running.output().stderr) } else { String::new() }
        );
        assert_eq!(Used::found(&room, &expected.file), expected, "{row:?}");
        room.write("go", "");
        assert_eq!(running.code(), 0, "{row:?}");
        let said = text(&running.output().stderr);
        let ignored = row.variables.iter().any(|variable| variable == "TENURE_PREFIX=x");
        assert_eq!(said.contains("TENURE_PREFIX is no setting of tenure, and is ignored"), ignored, "{said}");
        assert_eq!(said.lines().count(), usize::from(ignored), "{row:?}: {said}");
    }
    println!("{} rows", rows.len());
}
