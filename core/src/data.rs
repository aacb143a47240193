//! The data of a name, as anybody can read it.

use crate::{
    coordinator::Coordinator,
    error::Result,
    fenced::{DataKey, Datum, Stored, store},
    queue::QueueName,
};

/// The data of a name, for anybody to read. Made by [`Coordinator::data`].
#[derive(Clone, Debug)]
pub struct Data {
    coordinator: Coordinator,
    name: QueueName,
}

impl Coordinator {
    /// The data of a name, which its holders write by [`LockGuard::fenced`](crate::LockGuard::fenced). Nothing is sent yet.
    ///
    /// # Errors
    /// `Config` for a bad name.
    pub fn data(&self, name: &str) -> Result<Data> {
        Ok(Data { coordinator: self.clone(), name: QueueName::new(name)? })
    }
}

impl Data {
    /// What is stored, no older than the last write that was answered to anybody. The lock is not needed; what was read may be out of date as
    /// soon as it is here, unless a [`Fenced::put_if`](crate::Fenced::put_if) with its version says that it was not.
    ///
    /// # Errors
    /// `Config` for a bad key; `Unsupported` if the backend has no such data; `Unavailable` if it does not serve within the
    /// `connect_timeout`.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn get(&self, key: &str) -> Result<Option<Stored>> {
        self.get_at(&DataKey::new(key)?).await
    }

    /// As [`Data::get`].
    pub(crate) async fn get_at(&self, key: &DataKey) -> Result<Option<Stored>> {
        let found: Option<Datum> = self
            .coordinator
            .within_limit(|keeper| {
                let name = &self.name;
                async move {
                    let store = store(&keeper)?;
                    keeper.call(|| store.get(name, key)).await
                }
            })
            .await?;
        Ok(found.map(|datum| datum.stored))
    }
}
