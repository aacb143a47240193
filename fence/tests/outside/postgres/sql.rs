//! The functions as they are, for any language: through `psql`.

use tenure_conformance::server::postgres::Postgres;
use tenure_fence::{SQL, SQLSTATE};

/// What psql says on its standard error, with SQLSTATE and DETAIL; or on its standard output, if nothing fails.
fn say(server: &Postgres, user: &str, statements: &str) -> Result<String, String> {
    let out = server.psql(user, &["-v", "VERBOSITY=verbose", "-c", statements]).output().expect("it runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end().to_owned();
    if out.status.success() { Ok(text(&out.stdout)) } else { Err(text(&out.stderr)) }
}

#[tokio::test(flavor = "multi_thread")]
async fn any_role_can_be_let_use_the_fence_and_none_can_lower_it() {
    let server = Postgres::start().await;
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/sql/tenure_fence.sql");
    for _ in 0..2 {
        let installed = server.psql("postgres", &["-1", "-f", file]).output().expect("it runs");
        assert!(installed.status.success(), "{}", String::from_utf8_lossy(&installed.stderr));
    }
    // Also two at one time, and after it was used.
    let both = [server.psql("postgres", &["-c", SQL]).spawn(), server.psql("postgres", &["-c", SQL]).spawn()];
    for child in both {
        assert!(child.expect("it runs").wait().expect("it ends").success());
    }

    server.control("CREATE ROLE app LOGIN");
    assert!(say(&server, "app", "SELECT tenure.fence('a', 5)").is_err_and(|said| said.contains("permission denied")));
    for line in SQL.lines().filter_map(|line| line.strip_prefix("--   ")).filter(|line| line.starts_with("GRANT")) {
        server.control(line);
    }
    assert_eq!(say(&server, "app", "SELECT tenure.fence('a', 5)").as_deref(), Ok("5"));
    server.control(SQL); // again: the rights stay
    assert_eq!(say(&server, "app", "SELECT tenure.fence_mark('a')").as_deref(), Ok("5"));
    assert_eq!(say(&server, "app", "SELECT tenure.fence_mark('b')").as_deref(), Ok(""));
    for change in
        ["UPDATE tenure.fence_marks SET token = 0", "DELETE FROM tenure.fence_marks", "TABLE tenure.fence_marks"]
    {
        assert!(say(&server, "app", change).is_err_and(|said| said.contains("permission denied")), "{change}");
    }

    let refused = say(&server, "app", "SELECT tenure.fence('a', 4); CREATE TABLE never ()").expect_err("too old");
    assert!(refused.contains(&format!("ERROR:  {SQLSTATE}: token 4 is too old for 'a'")), "{refused}");
    assert!(refused.lines().any(|line| line == "DETAIL:  5"), "{refused}");
    assert_eq!(server.control("SELECT to_regclass('never') IS NULL"), "t");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_token_is_refused_with_a_sentence() {
    let server = Postgres::start().await;
    server.control(SQL);
    for (call, sentence) in [
        ("'a', NULL", "no token for the fence of 'a': write the number that the lock was granted with"),
        ("NULL, 5", "a fence needs a resource"),
        ("'', 5", "a fence needs a resource"),
        ("repeat('x', 513), 5", "a fence needs a resource"),
        ("'a', -1", "-1 is no fencing token: write a whole number from 0 to 18446744073709551615"),
        ("'a', 1.5", "1.5 is no fencing token"),
        ("'a', 'NaN'", "NaN is no fencing token"),
        ("'a', 'Infinity'", "Infinity is no fencing token"),
        ("'a', 18446744073709551616", "18446744073709551616 is no fencing token"),
    ] {
        let said = say(&server, "postgres", &format!("SELECT tenure.fence({call})")).expect_err(call);
        assert!(said.contains(sentence), "{call}: {said}");
    }
    assert_eq!(server.control("SELECT count(*) FROM tenure.fence_marks"), "0");
    assert_eq!(server.control("SELECT tenure.fence('a', 18446744073709551615)"), "18446744073709551615");
    assert_eq!(
        server.control("SELECT tenure.fence(resource => 'b', token => 9223372036854775808)"),
        "9223372036854775808"
    );
    assert_eq!(server.control("SELECT tenure.fence('c', 0)"), "0");
}
