//! Where the highest tokens are kept.

use std::{
    collections::HashMap,
    fmt::Debug,
    sync::{Mutex, PoisonError},
};

use async_trait::async_trait;
use tenure_core::{Error, FencingToken};

use crate::{Fenced, Refusal};

/// The highest token of each resource.
#[async_trait]
pub trait Marks: Debug + Send + Sync + 'static {
    /// Raises the mark of `resource` to `token`, unless it is higher. **When it returns, the mark must have been stored** so that it outlives
    /// whatever the protected data outlives. Marks never fall, whoever else raises them at that time.
    ///
    /// # Errors
    /// `Fenced` if the mark is higher. Whatever fails is an error: nobody may pass then.
    async fn raise(&self, resource: &str, token: FencingToken) -> Result<(), Refusal<Error>>;
}

/// In memory: forgotten with the process, so only for data that is too, and for tests.
#[derive(Debug, Default)]
pub struct MemoryMarks(Mutex<HashMap<String, FencingToken>>);

impl MemoryMarks {
    /// None yet.
    pub fn new() -> Self {
        Self::default()
    }
}

#[async_trait]
impl Marks for MemoryMarks {
    async fn raise(&self, resource: &str, token: FencingToken) -> Result<(), Refusal<Error>> {
        let mut marks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mark = marks.entry(resource.to_owned()).or_insert(token);
        if *mark > token {
            return Err(Refusal::Fenced(Fenced { resource: resource.to_owned(), token, winner: *mark }));
        }
        *mark = token;
        Ok(())
    }
}
