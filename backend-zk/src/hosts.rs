//! The servers: which one a session may be on. No session is ever moved to a server that was not asked first, with a session of its own, what
//! it grants. One whose `maxSessionTimeout` is lower would shorten a session that is moved there, and end it long before its deadline: a
//! session of 20 s was gone after 3.2 s.

use std::{
    fmt,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use humantime::format_duration;
use tenure_core::{ErrorKind, random_hex};
use tokio::{
    sync::watch,
    task::JoinSet,
    time::{Instant, timeout, timeout_at},
};

use crate::{
    config::{Settings, Tls},
    diagnose::diagnose,
    error::{Blame, Failure, Fault},
    lease::validity,
    link::{Identity, Link, Way},
};

/// All servers of an ensemble.
pub(crate) struct Hosts(Arc<Servers>);

struct Servers {
    hosts: Vec<String>,
    way: Way,
    tls: Option<Tls>,
    /// Where the next session is opened: anywhere at first, so that not everybody is on the first one.
    current: AtomicUsize,
    /// The longest session that each of them was seen to grant.
    granted: Mutex<Vec<Duration>>,
}

impl Hosts {
    pub(crate) fn new(settings: Settings) -> Result<Self, Failure> {
        let Settings { hosts, tls, login, private, .. } = settings;
        let way = Way::new(tls.as_ref(), login, private).map_err(|fault| {
            let why = if let Fault::Broken(why) = fault { why } else { format!("{fault:?}") };
            let message = "ca, cert and key cannot be used: write PEM files that belong together";
            Failure::new(ErrorKind::Config, Blame::Request, message).because(why)
        })?;
        let anywhere = usize::from_str_radix(&random_hex()[..4], 16).unwrap_or(0) % hosts.len();
        let granted = Mutex::new(vec![Duration::ZERO; hosts.len()]);
        Ok(Self(Arc::new(Servers { hosts, way, tls, current: anywhere.into(), granted })))
    }

    pub(crate) fn count(&self) -> usize {
        self.0.hosts.len()
    }

    /// All addresses, for messages.
    pub(crate) fn names(&self) -> String {
        self.0.hosts.join(", ")
    }

    pub(crate) fn current(&self) -> usize {
        self.0.current.load(Ordering::Relaxed)
    }

    /// Others are tried first from now on, if nobody has said so before.
    pub(crate) fn turn_from(&self, host: &str) {
        let Some(at) = self.0.hosts.iter().position(|known| known == host) else { return };
        let next = (at + 1) % self.count();
        let _ = self.0.current.compare_exchange(at, next, Ordering::Relaxed, Ordering::Relaxed);
    }

    pub(crate) fn turn_from_at(&self, at: usize) {
        self.turn_from(&self.0.hosts[at]);
    }

    /// A connection to this server, with a new session or one that is known, within a limit. That it grants enough is for the caller to see.
    pub(crate) async fn connect(
        &self,
        at: usize,
        wanted: Duration,
        session: Option<&Identity>,
        limit: Duration,
    ) -> Result<Link, Failure> {
        self.0.connect(at, wanted, session, limit).await
    }

    /// Asks those that were not seen to grant as much what they grant, and waits for their answers a little. One that is not there is asked before a
    /// session is moved there.
    pub(crate) async fn ask_others(&self, than: usize, wanted: Duration, patience: Duration) -> Result<(), Failure> {
        let granted = self.0.granted.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut asking = JoinSet::new();
        for at in (0..self.count()).filter(|at| *at != than && granted[*at] < wanted) {
            let servers = self.0.clone();
            asking.spawn(async move { servers.ask(at, wanted, patience * 10).await });
        }
        let end = Instant::now() + patience;
        let mut answer = Ok(());
        while let Ok(Some(asked)) = timeout_at(end, asking.join_next()).await {
            match asked {
                Ok(Err(failure)) if failure.kind == ErrorKind::Config && failure.blame == Blame::Request => {
                    answer = Err(failure);
                }
                Ok(Err(failure)) => tracing::debug!(?failure, "a server could not be asked what it grants"),
                _ => {}
            }
        }
        asking.detach_all(); // they end by themselves, and close their sessions
        answer
    }

    /// A server that is there and grants enough, within a limit: the first to say so. They are asked one after the other, but the next one
    /// does not wait for an answer that takes long.
    pub(crate) async fn find(&self, wanted: Duration, limit: Duration) -> Result<usize, Failure> {
        let (count, first) = (self.count(), self.current());
        let (mut asking, found) = (JoinSet::new(), watch::Sender::new(false));
        for turn in 0..count {
            let (servers, at, mut found) = (self.0.clone(), (first + turn) % count, found.subscribe());
            let pause = limit / 10 * u32::try_from(turn).unwrap_or(u32::MAX);
            asking.spawn(async move {
                let needless = timeout(pause, async { drop(found.wait_for(|found| *found).await) }).await.is_ok();
                if needless {
                    return Err(Failure::server("nobody needs to know any more"));
                }
                servers.ask(at, wanted, limit).await.map(|()| at)
            });
        }
        let mut last = Failure::server(format!("no ZooKeeper server of {} answers", self.names()));
        while let Some(asked) = asking.join_next().await {
            match asked {
                Ok(Ok(at)) => {
                    found.send_replace(true);
                    asking.detach_all();
                    return Ok(at);
                }
                Ok(Err(failure)) => last = failure,
                Err(_) => {}
            }
        }
        Err(last)
    }
}

impl Servers {
    async fn connect(
        &self,
        at: usize,
        wanted: Duration,
        session: Option<&Identity>,
        limit: Duration,
    ) -> Result<Link, Failure> {
        let (host, end) = (&self.hosts[at], Instant::now() + limit);
        match timeout_at(end, self.way.connect(host, wanted, session)).await {
            Ok(Ok(link)) => Ok(link),
            Ok(Err(Fault::Broken(why))) => {
                tracing::debug!(host, why, "cannot connect"); // "no available hosts", whatever is the matter
                let left = end.saturating_duration_since(Instant::now()).max(limit / 4);
                Err(diagnose(host, self.tls.as_ref(), left).await)
            }
            Ok(Err(fault)) => Err(Failure::of(fault, host, "its sessions")),
            Err(_) => Err(Failure::silent(host, limit)),
        }
    }

    /// Asks a server what it grants, by a session that is ended at once.
    async fn ask(&self, at: usize, wanted: Duration, limit: Duration) -> Result<(), Failure> {
        let link = self.connect(at, wanted, None, limit).await?;
        let granted = link.granted;
        let _ = timeout(limit, link.close()).await;
        self.check(at, granted, wanted)
    }

    fn check(&self, at: usize, granted: Duration, wanted: Duration) -> Result<(), Failure> {
        check_grant(&self.hosts[at], granted, wanted)?;
        let mut longest = self.granted.lock().unwrap_or_else(PoisonError::into_inner);
        longest[at] = longest[at].max(granted);
        Ok(())
    }
}

/// Whether the grant of a server is enough.
///
/// # Errors
/// `Config`, with what to write instead.
pub(crate) fn check_grant(host: &str, granted: Duration, wanted: Duration) -> Result<(), Failure> {
    if granted >= wanted {
        return Ok(());
    }
    let most = Duration::from_millis(u64::try_from(validity(granted).as_millis()).unwrap_or(u64::MAX));
    let message = format!(
        "ZooKeeper at {host} grants sessions of {} at most, and this ttl takes {}: write ttl = {} or less, or raise its maxSessionTimeout",
        format_duration(granted),
        format_duration(wanted),
        format_duration(most)
    );
    Err(Failure::new(ErrorKind::Config, Blame::Request, message))
}

impl fmt::Debug for Hosts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Hosts").field(&self.names()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grant_that_is_too_short_is_refused_with_what_to_write() {
        let [short, long] = [4, 20].map(Duration::from_secs);
        assert!(check_grant("h1:2181", long, short).is_ok() && check_grant("h1:2181", short, short).is_ok());
        let error = check_grant("h1:2181", short, long).expect_err("too short").into_error();
        assert_eq!(error.kind(), ErrorKind::Config);
        assert!(error.to_string().contains("h1:2181 grants sessions of 4s at most"), "{error}");
        assert!(error.to_string().contains("write ttl = 2s 800ms or less"), "{error}");
    }
}
