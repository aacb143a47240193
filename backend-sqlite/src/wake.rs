//! Waking waiters in other processes: a datagram to a socket in the kernel's abstract namespace. It only says "look again": a lost one
//! delays until the next regular look, a forged one wakes for nothing.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    io,
    os::{
        linux::net::SocketAddrExt,
        unix::net::{SocketAddr, UnixDatagram as StdDatagram},
    },
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use tenure_core::random_hex;
use tokio::{net::UnixDatagram, sync::Notify};

/// What a datagram tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum News {
    /// The entry with this token has gone.
    Gone(i64),
    /// The queue of this watch has changed.
    Watched(i64),
    /// More than fits, or than is known.
    Anything,
}

impl News {
    fn line(self) -> String {
        match self {
            Self::Gone(token) => format!("gone {token}"),
            Self::Watched(number) => format!("watched {number}"),
            Self::Anything => "anything".to_owned(),
        }
    }

    fn parse(line: &str) -> Option<Self> {
        match line.split_once(' ') {
            Some(("gone", token)) => token.parse().ok().map(Self::Gone),
            Some(("watched", number)) => number.parse().ok().map(Self::Watched),
            None if line == "anything" => Some(Self::Anything),
            _ => None,
        }
    }
}

/// News to be sent once what they tell is committed, by address.
#[derive(Debug, Default)]
pub(crate) struct Outbox(BTreeMap<String, Vec<News>>);

impl Outbox {
    /// More news than this for one address is told as "anything".
    const MOST: usize = 100;

    pub(crate) fn add(&mut self, address: String, news: News) {
        self.0.entry(address).or_default().push(news);
    }

    /// Sends without waiting. A receiver that is too busy to take it in will look at everything, and one that has ended is no matter.
    pub(crate) fn send(self, socket: &StdDatagram) {
        for (address, news) in self.0 {
            let news = if news.len() > Self::MOST { vec![News::Anything] } else { news };
            let text = news.into_iter().map(News::line).collect::<Vec<_>>().join("\n");
            let sent =
                SocketAddr::from_abstract_name(&address).and_then(|to| socket.send_to_addr(text.as_bytes(), &to));
            if let Err(error) = sent {
                tracing::trace!(%address, %error, "a waiter was not told");
            }
        }
    }
}

/// A socket to send news from.
pub(crate) fn sender() -> io::Result<StdDatagram> {
    let socket = StdDatagram::unbound()?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// Where a session hears news.
#[derive(Debug)]
pub(crate) struct Mailbox {
    pub(crate) address: String,
    socket: UnixDatagram,
}

impl Mailbox {
    /// What the kernel keeps for a socket that nobody reads, unless told otherwise: a reader who finds so many may have missed some.
    const BACKLOG: usize = 10;

    pub(crate) fn open() -> io::Result<Self> {
        let address = format!("tenure-{}", random_hex());
        let socket = StdDatagram::bind_addr(&SocketAddr::from_abstract_name(&address)?)?;
        socket.set_nonblocking(true)?;
        Ok(Self { address, socket: UnixDatagram::from_std(socket)? })
    }

    /// The news there are, once there are any.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub(crate) async fn read(&self) -> io::Result<Vec<News>> {
        self.socket.readable().await?;
        let (mut buffer, mut news) = ([0; 8192], Vec::new());
        for count in 1.. {
            match self.socket.try_recv(&mut buffer) {
                Ok(length) => news.extend(String::from_utf8_lossy(&buffer[..length]).lines().filter_map(News::parse)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
            if count >= Self::BACKLOG {
                return Ok(vec![News::Anything]);
            }
        }
        Ok(news)
    }
}

/// Those of this process who wait. Most news concern few of them: the others are not woken, and do not read the database.
#[derive(Clone, Debug, Default)]
pub(crate) struct Waiters(Arc<Mutex<HashMap<u64, Concern>>>);

#[derive(Debug, Default)]
struct Concern {
    news: HashSet<News>,
    /// The revision that the last look has seen.
    revision: Option<u64>,
    rung: Arc<Notify>,
}

impl Waiters {
    /// Begins to listen: what is told from now on is not missed.
    pub(crate) fn join(&self, news: impl IntoIterator<Item = News>) -> Waiter {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let rung = Arc::new(Notify::new());
        let concern = Concern { news: news.into_iter().collect(), revision: None, rung: rung.clone() };
        self.lock().insert(number, concern);
        Waiter { waiters: self.clone(), number, rung }
    }

    pub(crate) fn are_none(&self) -> bool {
        self.lock().is_empty()
    }

    /// Wakes those whom it concerns.
    pub(crate) fn tell(&self, news: News) {
        self.ring(|concern| news == News::Anything || concern.news.contains(&news));
    }

    /// Wakes those whose last look is older than this revision.
    pub(crate) fn tell_revision(&self, revision: u64) {
        self.ring(|concern| concern.revision != Some(revision));
    }

    fn ring(&self, whom: impl Fn(&Concern) -> bool) {
        self.lock().values().filter(|concern| whom(concern)).for_each(|concern| concern.rung.notify_one());
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Concern>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One who waits, until dropped.
#[derive(Debug)]
pub(crate) struct Waiter {
    waiters: Waiters,
    number: u64,
    rung: Arc<Notify>,
}

impl Waiter {
    pub(crate) fn add(&self, news: News) {
        self.with(|concern| concern.news.insert(news));
    }

    pub(crate) fn has_seen(&self, revision: u64) {
        self.with(|concern| concern.revision.replace(revision));
    }

    /// Returns once it was rung since the last time.
    pub(crate) async fn rung(&self) {
        self.rung.notified().await;
    }

    fn with<T>(&self, change: impl FnOnce(&mut Concern) -> T) {
        self.waiters.lock().get_mut(&self.number).map(change);
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        self.waiters.lock().remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    async fn is_rung(waiter: &Waiter) -> bool {
        timeout(Duration::from_millis(20), waiter.rung()).await.is_ok()
    }

    #[tokio::test]
    async fn only_those_whom_it_concerns_are_woken_and_nothing_told_before_is_lost() {
        let waiters = Waiters::default();
        let (one, two) = (waiters.join([News::Gone(1)]), waiters.join([News::Gone(2), News::Watched(7)]));
        waiters.tell(News::Gone(1));
        assert!(is_rung(&one).await && !is_rung(&two).await);
        waiters.tell(News::Watched(7));
        assert!(!is_rung(&one).await && is_rung(&two).await);
        waiters.tell(News::Anything);
        assert!(is_rung(&one).await && is_rung(&two).await);
        one.has_seen(5);
        two.has_seen(4);
        waiters.tell_revision(5);
        assert!(!is_rung(&one).await && is_rung(&two).await);
        drop((one, two));
        assert!(waiters.are_none());
    }

    #[tokio::test]
    async fn datagrams_carry_news_and_a_flood_is_taken_for_anything() {
        let (mailbox, sender) = (Mailbox::open().expect("a socket"), sender().expect("a socket"));
        let mut outbox = Outbox::default();
        [News::Gone(3), News::Watched(4)].into_iter().for_each(|news| outbox.add(mailbox.address.clone(), news));
        outbox.send(&sender);
        assert_eq!(mailbox.read().await.expect("news"), [News::Gone(3), News::Watched(4)]);
        let to = SocketAddr::from_abstract_name(&mailbox.address).expect("an address");
        sender.send_to_addr(b"gone x\nnonsense\n\xff\ngone 9", &to).expect("sent");
        assert_eq!(mailbox.read().await.expect("news"), [News::Gone(9)]);
        while sender.send_to_addr(b"gone 1", &to).is_ok() {}
        assert_eq!(mailbox.read().await.expect("news"), [News::Anything]);
        let mut many = Outbox::default();
        (0..1000).for_each(|token| many.add("nobody".to_owned(), News::Gone(token)));
        many.send(&sender); // to an address where nobody is
    }
}
