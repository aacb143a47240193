//! What the tests on one kind of backend share.

pub mod on_etcd;
pub mod on_sqlite;
