//! The data of a service without its fence: for tests that show what is lost then.

use tenure_conformance::server::zookeeper::Operator;
use tenure_core::{Config, Datum, EditId, FencingToken, Stored};

/// A number as it is stored.
pub fn text(number: u64) -> String {
    number.to_string()
}

/// The number that is stored; 0 if there is none.
///
/// # Panics
/// If it is none.
pub fn number(stored: Option<&Stored>) -> u64 {
    stored.map_or(0, |stored| String::from_utf8_lossy(&stored.value).parse().expect("a number"))
}

/// Writes as anybody can who may write to the service, without a look at who holds the lock.
///
/// # Panics
/// If it fails.
pub async fn put(url: &str, name: &str, key: &str, token: FencingToken, value: &[u8]) {
    let config: Config = url.parse().expect("a URL");
    match config.backend.as_str() {
        "sqlite" => {
            let database = rusqlite::Connection::open(config.path.expect("a path")).expect("it opens");
            database.busy_timeout(std::time::Duration::from_secs(5)).expect("it waits");
            let sql = "REPLACE INTO data (namespace, queue, key, token, edit, value) VALUES (?, ?, ?, ?, '', ?)";
            let token = i64::try_from(token.get()).expect("small");
            database.execute(sql, rusqlite::params![config.namespace, name, key, token, value]).expect("written");
        }
        "etcd" => {
            let path = format!("{}/.tenure/data/{name}/{key}", config.namespace);
            let bytes = Datum::to_bytes(token, &EditId::random(), value);
            let client = etcd_client::Client::connect(&config.hosts, None).await.expect("a client");
            client.kv_client().put(path, bytes, None).await.expect("written");
        }
        "zk" => {
            let path = format!("/{}/.tenure/data/{name}/{key}", config.namespace);
            let mut operator = Operator::at(&config.hosts[0]).await;
            let bytes = Datum::to_bytes(token, &EditId::random(), value);
            if operator.get(&path).await.is_some() {
                operator.set(&path, &bytes).await;
            } else {
                operator.create(&path, &bytes).await;
            }
            operator.close().await;
        }
        other => panic!("there is no raw way into {other} here"),
    }
}
