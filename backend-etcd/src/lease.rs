//! The stream that keeps a lease alive. It is opened anew after anything but a good answer: an answer that comes late on an old stream
//! would be taken for the answer to a later request, and the deadline would count from the wrong time.

use std::time::Duration;

use etcd_client::{LeaseKeepAliveResponse, LeaseKeepAliveStream, LeaseKeeper};
use tenure_core::Result;
use tokio::time::timeout;

use crate::{
    endpoints::{Endpoints, Link},
    error::{Failure, lost},
};

/// An open stream, with no request under way.
#[derive(Debug)]
pub(crate) struct Beat {
    link: Link,
    requests: LeaseKeeper,
    answers: LeaseKeepAliveStream,
}

impl Beat {
    /// Opens a stream on the current server; that includes one keep-alive.
    ///
    /// # Errors
    /// `SessionLost` if the lease has gone, `Unavailable` otherwise.
    pub(crate) async fn open(endpoints: &Endpoints, lease: i64, limit: Duration) -> Result<Self> {
        let opening = |link: Link| async move {
            let (requests, answers) = link.client.lease_client().keep_alive(lease).await?;
            Ok(Self { link, requests, answers })
        };
        Ok(endpoints.attempt(limit, opening).await?)
    }

    /// One keep-alive. The stream is given back only with a good answer.
    ///
    /// # Errors
    /// As [`Beat::open`].
    pub(crate) async fn again(
        mut self,
        endpoints: &Endpoints,
        limit: Duration,
    ) -> Result<(Self, LeaseKeepAliveResponse)> {
        let host = endpoints.host(&self.link);
        let failure = match timeout(limit, self.exchange()).await {
            Ok(Ok(Some(answer))) if answer.ttl() > 0 => return Ok((self, answer)),
            Ok(Ok(Some(_))) => return Err(lost("the session is over: its lease has expired, or was revoked")),
            Ok(Ok(None)) => Failure::ended(host, "keep-alive stream", ""),
            Ok(Err(error)) => Failure::of(&error, host),
            Err(_) => Failure::silent(host, limit),
        };
        endpoints.suspect(&self.link, &failure);
        Err(failure.into())
    }

    /// Whether calls still go to the server of this stream.
    pub(crate) fn is_current(&self, endpoints: &Endpoints) -> bool {
        endpoints.is_current(&self.link)
    }

    async fn exchange(&mut self) -> Result<Option<LeaseKeepAliveResponse>, etcd_client::Error> {
        self.requests.keep_alive().await?;
        self.answers.message().await
    }
}
