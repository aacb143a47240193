//! Tenure over one SQLite file.
use std::sync::Arc;

use tenure_core::{Backend, Clock, Config, Driver, Error, ErrorKind, Result, async_trait};

/// `sqlite:/path/to/file`.
#[derive(Clone, Copy, Debug)]
pub struct SqliteDriver;

#[async_trait]
impl Driver for SqliteDriver {
    fn scheme(&self) -> &'static str {
        "sqlite"
    }

    fn example(&self) -> &'static str {
        "sqlite:/var/lib/tenure/tenure.db"
    }

    async fn connect(&self, _: &Config, _: &Clock) -> Result<Arc<dyn Backend>> {
        Err(Error::new(ErrorKind::Unsupported, "not yet"))
    }
}
