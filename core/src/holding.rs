//! Who holds a name, as anybody can ask.

use crate::{coordinator::Coordinator, election::observe::Leader, error::Result};

impl Coordinator {
    /// Who holds the name alone: the first entry of its queue, as of a moment after the call, with its token and its value. `None` if nobody
    /// does, readers and permit holders included: they have no tokens. A lock's value says who it is, as JSON: see
    /// [`Holder`](crate::Holder).
    ///
    /// It may be over by the time the answer is read. **To ask before an act is no fence**: only what checks the token, in the same step
    /// as the act, is.
    ///
    /// # Errors
    /// As [`Coordinator::try_lock`].
    ///
    /// # Cancel safety
    /// Cancel safe.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
    /// use tenure_core::{Coordinator, MemoryBackend, Options};
    ///
    /// let coordinator = Coordinator::new(MemoryBackend::new(), Options::default())?;
    /// assert!(coordinator.holder("invoices").await?.is_none());
    /// let guard = coordinator.lock("invoices").await?;
    /// assert_eq!(coordinator.holder("invoices").await?.map(|holder| holder.token), Some(guard.token()));
    /// # Ok::<(), tenure_core::Error>(()) }).unwrap();
    /// ```
    pub async fn holder(&self, name: &str) -> Result<Option<Leader>> {
        self.election(name).leader().await
    }
}
