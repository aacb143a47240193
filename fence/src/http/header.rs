//! The header, on both sides.

use std::fmt;

use ::http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode};
use tenure_core::{Error, FencingToken, LockGuard, Lost, State};

/// `Fencing-Token`: the token as a decimal number. In a request the sender's; in an answer 412 that of the newer holder.
pub const FENCING_TOKEN: HeaderName = HeaderName::from_static("fencing-token");

/// What is wrong with a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "Fencing-Token must be one decimal number from 0 to 18446744073709551615: send the token of the lock",
        )
    }
}

impl std::error::Error for Malformed {}

/// The token in these headers, if there is one.
///
/// # Errors
/// [`Malformed`]: also if there are several, for it cannot be told which one the sender was granted.
pub fn token(headers: &HeaderMap) -> Result<Option<FencingToken>, Malformed> {
    let mut values = headers.get_all(FENCING_TOKEN).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(Malformed);
    }
    let digits = value.to_str().map_err(|_| Malformed)?;
    // Rust's own parser takes a plus sign.
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(Malformed);
    }
    digits.parse().map(Some).map_err(|_| Malformed)
}

/// The token of the newer holder, if this answer is the refusal of a fence.
pub fn winner<B>(response: &Response<B>) -> Option<FencingToken> {
    (response.status() == StatusCode::PRECONDITION_FAILED).then(|| token(response.headers()).ok().flatten()).flatten()
}

/// Requests that carry the token of a lock.
pub trait FencedRequest {
    /// Sets the header to the token of this lock, in place of any other.
    ///
    /// # Errors
    /// `SessionLost` if the lock is lost: there is nothing to send any more.
    fn set_token(&mut self, guard: &LockGuard) -> Result<(), Error>;
}

impl FencedRequest for HeaderMap {
    fn set_token(&mut self, guard: &LockGuard) -> Result<(), Error> {
        if let State::Lost(reason) = guard.state() {
            return Err(Lost { reason }.into());
        }
        self.insert(FENCING_TOKEN, HeaderValue::from(guard.token().get()));
        Ok(())
    }
}

impl<B> FencedRequest for Request<B> {
    fn set_token(&mut self, guard: &LockGuard) -> Result<(), Error> {
        self.headers_mut().set_token(guard)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tenure_core::{Coordinator, ErrorKind, MemoryBackend, Options};

    use super::*;

    fn parse(values: &[&str]) -> Result<Option<FencingToken>, Malformed> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(FENCING_TOKEN, value.parse().expect("a header"));
        }
        token(&headers)
    }

    #[test]
    fn only_one_plain_number_is_a_token() {
        assert_eq!(parse(&[]), Ok(None));
        assert_eq!(parse(&["0"]), Ok(Some(FencingToken::new(0))));
        assert_eq!(parse(&["18446744073709551615"]), Ok(Some(FencingToken::new(u64::MAX))));
        for wrong in ["", "18446744073709551616", "-1", "+1", "1.0", "1e3", "0x10", "1, 1", "1 2", "one", "١"] {
            assert_eq!(parse(&[wrong]), Err(Malformed), "{wrong}");
        }
        assert_eq!(parse(&["1", "1"]), Err(Malformed));
    }

    #[tokio::test]
    async fn a_lost_lock_sets_no_header() {
        let backend = MemoryBackend::new();
        let mut options = Options::default();
        options.ttl = Duration::from_secs(1);
        let coordinator = Coordinator::new(std::sync::Arc::new(backend), options).expect("good options");
        let guard = coordinator.lock("x").await.expect("granted");
        let mut request = Request::new(());
        request.headers_mut().append(FENCING_TOKEN, HeaderValue::from(99));
        request.set_token(&guard).expect("held");
        assert_eq!(token(request.headers()), Ok(Some(guard.token())));
        // The runtime stands still, as in a process that is paused.
        std::thread::sleep(Duration::from_millis(1100));
        let mut late = HeaderMap::new();
        let error = late.set_token(&guard).expect_err("lost");
        assert_eq!(error.kind(), ErrorKind::SessionLost);
        assert!(late.is_empty());
    }
}
