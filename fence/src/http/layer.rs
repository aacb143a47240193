//! The layer.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use ::http::{HeaderValue, Request, Response, StatusCode, header::CONTENT_TYPE, request::Parts};
use tenure_core::FencingToken;
use tower_layer::Layer;
use tower_service::Service;

use super::{
    gate::Gate,
    header::{FENCING_TOKEN, Malformed, token},
    marks::Marks,
};
use crate::{Fenced, Refusal};

/// Refuses the requests of old holders, before they reach the service.
///
/// Each request that is let in has raised the mark of its resource first, on the disk. Requests with equal tokens run beside each other;
/// one with a higher token waits until those with lower ones have ended, and after its patience has them dropped where they are waiting
/// (they may be uploads of a paused client). What a service does on other tasks or threads is not stopped by that.
///
/// | status | means | done? |
/// |---|---|---|
/// | 412 | a newer holder has been there; its token is in the header | no |
/// | 428, 400 | no token, or none that can be read | no |
/// | 503 | the marks cannot be stored now | no, unless the service itself has said so |
/// | 500 with the header `Fencing-Token` | dropped in the midst of the service, for the newer holder with that token | perhaps, wholly or in part |
///
/// The resource is the path of the request, as it was sent: without the query, and without decoding it. If one thing can be reached under several
/// paths, name it by [`FenceLayer::with_resource`]. Clones of a layer are one fence; two layers over the same marks are not: each would
/// let in a newer request beside an older one of the other.
#[derive(Clone)]
pub struct FenceLayer {
    fence: Arc<Fence>,
}

struct Fence {
    marks: Arc<dyn Marks>,
    resource: Naming,
    patience: Duration,
    gate: Arc<Gate>,
}

type Naming = Arc<dyn Fn(&Parts) -> Option<String> + Send + Sync>;

impl FenceLayer {
    /// With its marks in this place.
    pub fn new(marks: impl Marks) -> Self {
        let resource: Naming = Arc::new(|parts| Some(parts.uri.path().to_owned()));
        let patience = Duration::from_secs(10);
        Self { fence: Arc::new(Fence { marks: Arc::new(marks), resource, patience, gate: Arc::default() }) }
    }

    /// Names the resource of a request; `None` for one that needs no fence.
    #[must_use]
    pub fn with_resource(self, resource: impl Fn(&Parts) -> Option<String> + Send + Sync + 'static) -> Self {
        self.change(|fence| fence.resource = Arc::new(resource))
    }

    /// How long a newer holder's request waits for older ones before these are dropped; 10 seconds unless set.
    #[must_use]
    pub fn with_patience(self, patience: Duration) -> Self {
        self.change(|fence| fence.patience = patience)
    }

    fn change(self, change: impl FnOnce(&mut Fence)) -> Self {
        let Fence { marks, resource, patience, gate } = &*self.fence;
        let mut fence =
            Fence { marks: marks.clone(), resource: resource.clone(), patience: *patience, gate: gate.clone() };
        change(&mut fence);
        Self { fence: Arc::new(fence) }
    }
}

impl fmt::Debug for FenceLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FenceLayer").field("marks", &self.fence.marks).finish_non_exhaustive()
    }
}

impl<S> Layer<S> for FenceLayer {
    type Service = FenceService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        FenceService { inner, layer: self.clone() }
    }
}

/// A service behind a [`FenceLayer`].
#[derive(Clone, Debug)]
pub struct FenceService<S> {
    inner: S,
    layer: FenceLayer,
}

impl<S, A, B> Service<Request<A>> for FenceService<S>
where
    S: Service<Request<A>, Response = Response<B>> + Clone + Send + 'static,
    S::Future: Send,
    A: Send + 'static,
    B: From<String>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<A>) -> Self::Future {
        // The one that was ready; the copy has not been asked yet.
        let copy = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, copy);
        let fence = self.layer.fence.clone();
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let asked = fence.what(&parts);
            let request = Request::from_parts(parts, body);
            match asked {
                Err(refused) => Ok(refused.into()),
                Ok(None) => inner.call(request).await,
                Ok(Some((resource, token))) => fence.pass(&resource, token, || inner.call(request)).await,
            }
        })
    }
}

impl Fence {
    /// The resource and the token of a request, or `None` if it may pass without.
    fn what(&self, parts: &Parts) -> Result<Option<(String, FencingToken)>, No> {
        let Some(resource) = (self.resource)(parts) else { return Ok(None) };
        match token(&parts.headers) {
            Ok(Some(token)) => Ok(Some((resource, token))),
            // Those that change nothing, by the standard.
            Ok(None) if parts.method.is_safe() => Ok(None),
            Ok(None) => Err(No::Missing),
            Err(malformed) => Err(No::Malformed(malformed)),
        }
    }

    async fn pass<F, B, E>(
        &self,
        resource: &str,
        token: FencingToken,
        call: impl FnOnce() -> F,
    ) -> Result<Response<B>, E>
    where
        F: Future<Output = Result<Response<B>, E>>,
        B: From<String>,
    {
        let inside = self.gate.enter(resource, token);
        match self.marks.raise(resource, token).await {
            Ok(()) => {}
            Err(Refusal::Fenced(fenced)) => return Ok(No::Fenced(fenced).into()),
            Err(Refusal::Failed(error)) => return Ok(No::Unavailable(error.report()).into()),
        }
        tokio::select! {
            biased;
            winner = inside.has_to_leave() => {
                return Ok(No::Fenced(Fenced { resource: resource.to_owned(), token, winner }).into());
            }
            () = inside.older_have_left(self.patience) => {}
        }
        // From here on it may change something, and an answer that is there is the true one.
        tokio::select! {
            biased;
            response = call() => response,
            winner = inside.has_to_leave() => {
                Ok(No::Dropped(Fenced { resource: resource.to_owned(), token, winner }).into())
            }
        }
    }
}

/// Why a request does not reach the service, or has no answer from it.
enum No {
    Missing,
    Malformed(Malformed),
    Fenced(Fenced),
    /// In the midst of it.
    Dropped(Fenced),
    Unavailable(String),
}

impl<B: From<String>> From<No> for Response<B> {
    fn from(no: No) -> Self {
        let (status, text, winner) = match no {
            No::Missing => {
                let text = "this needs a lock: send its token in the header Fencing-Token".to_owned();
                (StatusCode::PRECONDITION_REQUIRED, text, None)
            }
            No::Malformed(malformed) => (StatusCode::BAD_REQUEST, malformed.to_string(), None),
            No::Fenced(fenced) => (StatusCode::PRECONDITION_FAILED, fenced.to_string(), Some(fenced.winner)),
            No::Dropped(fenced) => {
                let text =
                    format!("{fenced}, and this request was dropped midway: it may have been done, wholly or in part");
                (StatusCode::INTERNAL_SERVER_ERROR, text, Some(fenced.winner))
            }
            No::Unavailable(report) => (StatusCode::SERVICE_UNAVAILABLE, report, None),
        };
        let mut response = Self::new(B::from(text + "\n"));
        *response.status_mut() = status;
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
        if let Some(winner) = winner {
            response.headers_mut().insert(FENCING_TOKEN, HeaderValue::from(winner.get()));
        }
        response
    }
}
