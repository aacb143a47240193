//! What tests share.

pub mod client;
pub mod laggard;
pub mod ledger;
pub mod load;
pub mod mount;
pub mod on_etcd;
pub mod on_sqlite;
pub mod on_zk;
pub mod raw;
pub mod siege;

/// How often something is repeated: `TENURE_ROUNDS` times, or so many times by default.
pub fn rounds(default: usize) -> usize {
    std::env::var("TENURE_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}
