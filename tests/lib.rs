//! What tests share.

pub mod ledger;
pub mod mount;
pub mod on_etcd;
pub mod on_sqlite;
