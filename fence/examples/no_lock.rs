//! What needs no lock: three ways of `docs/no-lock.md`, on SQLite. `cargo run -p tenure-fence --example no_lock`

use rusqlite::{Connection, Result};

/// Does it once for each key, however often it is asked to. Whether this was the time.
fn pay(database: &mut Connection, key: &str, amount: i64) -> Result<bool> {
    let transaction = database.transaction()?;
    let first = transaction.execute("INSERT INTO done VALUES (?1) ON CONFLICT DO NOTHING", [key])? == 1;
    if first {
        transaction.execute("UPDATE account SET balance = balance - ?1", [amount])?;
    }
    transaction.commit()?; // the key and the work, or neither
    Ok(first)
}

/// Lets one have it. Whether it was this one.
fn book(database: &Connection, seat: &str, who: &str) -> Result<bool> {
    Ok(database.execute("INSERT INTO booking VALUES (?1, ?2) ON CONFLICT DO NOTHING", [seat, who])? == 1)
}

/// Changes what was read, unless somebody else has meanwhile.
fn save(database: &Connection, read: i64, body: &str) -> Result<bool> {
    let change = "UPDATE page SET body = ?1, version = version + 1 WHERE version = ?2";
    Ok(database.execute(change, (body, read))? == 1)
}

fn main() -> Result<()> {
    let mut database = Connection::open_in_memory()?;
    database.execute_batch(
        "CREATE TABLE done (key TEXT PRIMARY KEY);
         CREATE TABLE account (balance INT NOT NULL); INSERT INTO account VALUES (100);
         CREATE TABLE booking (seat TEXT PRIMARY KEY, who TEXT NOT NULL);
         CREATE TABLE page (version INT NOT NULL, body TEXT NOT NULL); INSERT INTO page VALUES (1, 'draft');",
    )?;

    assert!(pay(&mut database, "payment-4711", 30)?);
    assert!(!pay(&mut database, "payment-4711", 30)?);
    assert_eq!(database.query_row("SELECT balance FROM account", [], |row| row.get(0)), Ok(70));

    assert!(book(&database, "12A", "ann")?);
    assert!(!book(&database, "12A", "bob")?);

    assert!(save(&database, 1, "by ann")?);
    assert!(!save(&database, 1, "by bob")?);
    assert_eq!(
        database.query_row("SELECT version, body FROM page", [], |row| Ok((row.get(0)?, row.get(1)?))),
        Ok((2, "by ann".to_owned()))
    );
    Ok(())
}

#[test]
fn runs() -> Result<()> {
    main()
}
