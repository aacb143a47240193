//! The servers that elections are held on.

use std::{net::SocketAddr, time::Duration};

use rusqlite::Connection;
use tempfile::TempDir;
use tenure_conformance::server::{
    etcd::{Etcd, Release, Setup},
    until,
    zookeeper::{self, Zookeeper},
};
use tenure_core::{Coordinator, Election};

/// One server, or a file and somebody who can lock it.
pub(crate) enum Service {
    Etcd(Etcd),
    Zookeeper(Zookeeper),
    Sqlite(TempDir, Connection),
}

/// An entry as the service has it.
struct Entry {
    key: String,
    session: String,
}

impl Service {
    pub(crate) async fn etcd() -> Self {
        Self::Etcd(Setup::single(Release::Packaged).start().await)
    }

    pub(crate) async fn zookeeper() -> Self {
        Self::Zookeeper(zookeeper::Setup::single().start().await)
    }

    pub(crate) fn sqlite() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let writer = Connection::open(folder.path().join("x.db")).expect("it opens");
        writer.busy_timeout(Duration::from_secs(5)).expect("set");
        Self::Sqlite(folder, writer)
    }

    /// Where its server answers.
    pub(crate) fn client(&self) -> SocketAddr {
        match self {
            Self::Etcd(etcd) => etcd.nodes[0].client,
            Self::Zookeeper(zookeeper) => zookeeper.nodes[0].client,
            Self::Sqlite(..) => panic!("there is no server"),
        }
    }

    /// A coordinator of its own.
    pub(crate) async fn coordinator(&self, settings: &str) -> Coordinator {
        let hosts = match self {
            Self::Sqlite(..) => String::new(),
            server => server.client().to_string(),
        };
        self.coordinator_at(&hosts, settings).await
    }

    /// The same on another way to the server.
    pub(crate) async fn coordinator_at(&self, hosts: &str, settings: &str) -> Coordinator {
        let url = match self {
            Self::Etcd(_) => format!("etcd://{hosts}/n?{settings}"),
            Self::Zookeeper(_) => format!("zk://{hosts}/n?{settings}"),
            Self::Sqlite(folder, _) => format!("sqlite:{}?{settings}", folder.path().join("x.db").display()),
        };
        tenure::connect(&url).await.unwrap_or_else(|error| panic!("{url}: {}", error.report()))
    }

    /// Of a coordinator of its own.
    pub(crate) async fn election(&self, settings: &str) -> Election {
        self.coordinator(settings).await.election("x")
    }

    pub(crate) fn kill(&mut self) {
        match self {
            Self::Etcd(etcd) => etcd.nodes[0].process.kill(),
            Self::Zookeeper(zookeeper) => zookeeper.nodes[0].process.kill(),
            Self::Sqlite(_, writer) => writer.execute_batch("BEGIN IMMEDIATE").expect("it is free soon"),
        }
    }

    pub(crate) fn takes_to_start(&self) -> Duration {
        match self {
            Self::Etcd(_) => Duration::from_millis(500),
            Self::Zookeeper(_) => Duration::from_secs(2),
            Self::Sqlite(..) => Duration::ZERO,
        }
    }

    pub(crate) async fn restart(&mut self) {
        let serves = match self {
            Self::Etcd(etcd) => {
                etcd.nodes[0].process.restart().expect("it starts");
                etcd.serves(Duration::from_secs(20)).await
            }
            Self::Zookeeper(zookeeper) => {
                zookeeper.nodes[0].process.restart().expect("it starts");
                zookeeper.serves(Duration::from_secs(30)).await
            }
            Self::Sqlite(_, writer) => writer.execute_batch("ROLLBACK").is_ok(),
        };
        assert!(serves, "it does not come back");
    }

    /// Throws away its past, if it keeps one.
    pub(crate) fn compact(&self) {
        match self {
            Self::Etcd(etcd) => {
                let status = etcd.control(&["endpoint", "status", "--write-out=json"]);
                let rest = status.split("\"revision\":").nth(1).expect("a revision");
                let revision = rest.split([',', '}']).next().expect("a revision");
                etcd.control(&["compact", "--physical", revision]);
            }
            Self::Zookeeper(_) | Self::Sqlite(..) => {} // they keep none
        }
    }

    /// How many requests it has got, as it counts them itself: those for us, and pings.
    pub(crate) async fn requests(&self) -> u64 {
        const METHODS: [&str; 8] =
            ["Txn", "Range", "Put", "DeleteRange", "LeaseGrant", "LeaseRevoke", "LeaseKeepAlive", "Watch"];
        match self {
            Self::Etcd(etcd) => {
                let mut sum = 0;
                for method in METHODS {
                    sum += etcd.nodes[0].requests(method).await;
                }
                sum
            }
            Self::Zookeeper(zookeeper) => {
                let received = zookeeper.nodes[0].metric("packets_received").await.expect("it counts");
                format!("{received:.0}").parse().expect("a whole number")
            }
            Self::Sqlite(..) => panic!("there is no server"),
        }
    }

    /// The sessions of those who stand in line, the leader's first: a lease of etcd, the owner of a node of ZooKeeper, a row.
    pub(crate) async fn sessions(&self) -> Vec<String> {
        self.line().await.into_iter().map(|entry| entry.session).collect()
    }

    /// Until so many stand in line.
    pub(crate) async fn until_queued(&self, count: usize) {
        let queued = async || self.line().await.len() == count;
        assert!(until(Duration::from_secs(20), queued).await, "there are never {count}");
    }

    /// As an operator does.
    pub(crate) async fn remove_first(&self) {
        let first = self.line().await.swap_remove(0);
        match self {
            Self::Etcd(etcd) => drop(etcd.control(&["del", &first.key])),
            Self::Zookeeper(zookeeper) => zookeeper.operator().await.delete(&first.key).await,
            Self::Sqlite(_, writer) => {
                writer.execute("DELETE FROM entries WHERE id = ?", [&first.key]).expect("removed");
            }
        }
    }

    async fn line(&self) -> Vec<Entry> {
        match self {
            Self::Etcd(etcd) => {
                let in_order = ["get", "--prefix", "--sort-by=CREATE", "--order=ASCEND", "-w", "fields", "n/x/"];
                let fields = etcd.control(&in_order);
                let field = |name: &str| {
                    let start = format!("\"{name}\" : ");
                    let values = fields.lines().filter_map(move |line| line.strip_prefix(&start));
                    values.map(|value| value.trim_matches('"').to_owned()).collect::<Vec<_>>()
                };
                let entries = field("Key").into_iter().zip(field("Lease"));
                entries.map(|(key, session)| Entry { key, session }).collect()
            }
            Self::Zookeeper(zookeeper) => {
                let mut operator = zookeeper.operator().await;
                let mut names = operator.list("/n/x").await;
                names.sort_by_key(|name| name.rsplit('-').next().map(str::to_owned));
                let mut entries = Vec::new();
                for name in names {
                    let key = format!("/n/x/{name}");
                    let found = operator.get(&key).await;
                    entries.extend(found.map(|(_, stat)| Entry { key, session: stat.owner.to_string() }));
                }
                operator.close().await;
                entries
            }
            Self::Sqlite(_, writer) => {
                let all = "SELECT id, session FROM entries WHERE queue = 'x' ORDER BY token";
                let mut statement = writer.prepare(all).expect("the tables are there");
                let entry = |row: &rusqlite::Row<'_>| Ok(Entry { key: row.get(0)?, session: row.get(1)? });
                let entries = statement.query_map([], entry).expect("asked");
                entries.collect::<Result<_, _>>().expect("read")
            }
        }
    }
}
