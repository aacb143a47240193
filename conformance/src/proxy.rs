//! A TCP proxy between one client and its server that fails as networks do, switched while connections are open.

use std::{
    io,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::{mpsc, watch},
    task::JoinHandle,
    time::{Instant, sleep_until},
};

use self::frames::{Held, Requests};

mod frames;

/// What happens to what passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Nothing.
    Pass,
    /// Everything takes so much longer in each direction. The order is kept, and the throughput.
    Delay(Duration),
    /// Only answers take so much longer.
    DelayReplies(Duration),
    /// Nothing is read any more, in neither direction: it piles up, and arrives later. No end, no reset.
    Stall,
    /// So many frames of HTTP/2 pass in one direction from now on; what follows is kept, and arrives later. Set between two requests,
    /// else it does not begin at a frame.
    Hold(Way, usize),
    /// What was sent is thrown away, in both directions, without a word.
    Blackhole,
    /// Requests arrive, answers are thrown away.
    DropReplies,
    /// Requests are thrown away, answers arrive.
    DropRequests,
    /// All connections are reset, and so is every new one.
    Cut,
    /// New connections are reset; those that are open go on.
    Refuse,
}

impl Mode {
    fn admits(self) -> bool {
        !matches!(self, Self::Cut | Self::Refuse)
    }

    fn drops(self, way: Way) -> bool {
        match self {
            Self::Blackhole => true,
            Self::DropReplies => way == Way::Back,
            Self::DropRequests => way == Way::There,
            _ => false,
        }
    }

    /// What holds the frames of this direction, from its first moment on.
    fn holds(self, way: Way, present: Option<(Self, Held)>) -> Option<(Self, Held)> {
        match self {
            Self::Hold(held_way, count) if held_way == way => {
                present.filter(|(mode, _)| *mode == self).or_else(|| Some((self, Held::new(count))))
            }
            _ => None,
        }
    }

    fn delay(self, way: Way) -> Duration {
        match self {
            Self::Delay(delay) => delay,
            Self::DelayReplies(delay) if way == Way::Back => delay,
            _ => Duration::ZERO,
        }
    }
}

/// A direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Of the requests.
    There,
    /// Of the answers.
    Back,
}

/// A running proxy. All its connections are reset when it is dropped.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    mode: watch::Sender<Mode>,
    connections: Arc<AtomicU64>,
    requests: Arc<AtomicU64>,
    accepting: JoinHandle<()>,
}

impl Proxy {
    /// Starts one on a free port. It lives in the present runtime.
    ///
    /// # Errors
    /// What the operating system says.
    pub async fn start(server: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let (address, mode) = (listener.local_addr()?, watch::Sender::new(Mode::Pass));
        let (connections, requests) = <(Arc<AtomicU64>, Arc<AtomicU64>)>::default();
        let route = Route { server, mode: mode.subscribe(), requests: requests.clone() };
        let accepting = tokio::spawn(accept(listener, route, connections.clone()));
        Ok(Self { address, mode, connections, requests, accepting })
    }

    /// Where clients connect to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Switches, also for connections that are open. A connection that has lost something is reset once things would pass again: to go
    /// on in the middle of a stream is not what a network does.
    pub fn set(&self, mode: Mode) {
        self.mode.send_replace(mode);
    }

    /// How many connections were tried, reset ones included.
    pub fn connections(&self) -> u64 {
        self.connections.load(Ordering::Relaxed)
    }

    /// How many requests of HTTP/2 in the clear were sent here, thrown away or not. What speaks otherwise is not counted in earnest.
    pub fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.set(Mode::Cut);
        self.accepting.abort();
    }
}

/// What every connection has to do with.
#[derive(Clone)]
struct Route {
    server: SocketAddr,
    mode: watch::Receiver<Mode>,
    requests: Arc<AtomicU64>,
}

async fn accept(listener: TcpListener, route: Route, connections: Arc<AtomicU64>) {
    while let Ok((client, _)) = listener.accept().await {
        connections.fetch_add(1, Ordering::Relaxed);
        reset_at_drop(&client);
        if route.mode.borrow().admits() {
            tokio::spawn(carry(client, route.clone()));
        }
    }
}

/// With lingering off, closing sends a reset instead of an orderly end.
fn reset_at_drop(stream: &TcpStream) {
    let _ = stream.set_zero_linger();
    let _ = stream.set_nodelay(true);
}

/// One connection, until both ends are closed, or it is reset.
async fn carry(client: TcpStream, route: Route) {
    let Ok(server) = TcpStream::connect(route.server).await else { return };
    reset_at_drop(&server);
    let ((from_client, to_client), (from_server, to_server)) = (client.into_split(), server.into_split());
    let (requests, mut cut) = (Requests::new(route.requests), route.mode.clone());
    let there = pump(Way::There, from_client, to_server, route.mode.clone(), Some(requests));
    let back = pump(Way::Back, from_server, to_client, route.mode, None);
    tokio::select! {
        _ = cut.wait_for(|mode| *mode == Mode::Cut) => {}
        () = async { tokio::select! {
            reset = there => if !reset { std::future::pending().await },
            reset = back => if !reset { std::future::pending().await },
        } } => {}
    }
}

/// One direction. Returns whether the connection is to be reset; otherwise this direction has come to an orderly end.
async fn pump(
    way: Way,
    from: OwnedReadHalf,
    to: OwnedWriteHalf,
    mode: watch::Receiver<Mode>,
    requests: Option<Requests>,
) -> bool {
    let (line, due) = mpsc::channel(1024);
    let (reset, ()) = tokio::join!(take(way, from, line, mode, requests), give(to, due));
    reset
}

/// Reads, and puts what was read on the line, with the time when it is to arrive.
async fn take(
    way: Way,
    mut from: OwnedReadHalf,
    line: mpsc::Sender<(Instant, Vec<u8>)>,
    mut mode: watch::Receiver<Mode>,
    mut requests: Option<Requests>,
) -> bool {
    let (mut lost, mut held) = (false, None);
    loop {
        let Ok(present) = mode.wait_for(|mode| *mode != Mode::Stall).await.map(|mode| *mode) else { return true };
        if lost && !present.drops(way) {
            return true;
        }
        held = present.holds(way, held);
        let mut chunk = vec![0; 16 * 1024];
        let read = tokio::select! {
            biased;
            _ = mode.changed() => continue,
            read = from.read(&mut chunk) => read,
        };
        if let (Some(requests), Ok(length)) = (&mut requests, &read) {
            requests.see(&chunk[..*length]);
        }
        match read {
            Ok(0) | Err(_) => return read.is_err(),
            Ok(_) if present.drops(way) => lost = true,
            Ok(length) => {
                chunk.truncate(length);
                let kept = held.as_mut().map_or(length, |(_, held)| held.admit(&chunk));
                let rest = chunk.split_off(kept);
                let due = Instant::now() + present.delay(way);
                if line.send((due, chunk)).await.is_err() || !later(&line, &mut mode, rest).await {
                    return true;
                }
            }
        }
    }
}

/// What was kept comes first once things pass again. Says whether somebody takes it.
async fn later(line: &mpsc::Sender<(Instant, Vec<u8>)>, mode: &mut watch::Receiver<Mode>, rest: Vec<u8>) -> bool {
    if rest.is_empty() {
        return true;
    }
    let _ = mode.changed().await;
    line.send((Instant::now(), rest)).await.is_ok()
}

async fn give(mut to: OwnedWriteHalf, mut due: mpsc::Receiver<(Instant, Vec<u8>)>) {
    while let Some((time, chunk)) = due.recv().await {
        sleep_until(time).await;
        if to.write_all(&chunk).await.is_err() {
            return;
        }
    }
    let _ = to.shutdown().await;
}

#[cfg(test)]
mod tests {
    use tokio::time::{sleep, timeout};

    use super::*;

    const SHORT: Duration = Duration::from_millis(150);

    async fn echo() -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let (mut from, mut to) = stream.split();
                    let _ = tokio::io::copy(&mut from, &mut to).await;
                });
            }
        });
        address
    }

    /// Sends a byte, and says how long its echo took; `None` if it did not come soon.
    async fn ping(stream: &mut TcpStream) -> io::Result<Option<Duration>> {
        let sent = Instant::now();
        stream.write_all(b"x").await?;
        match timeout(SHORT, stream.read_exact(&mut [0])).await {
            Ok(read) => read.map(|_| Some(sent.elapsed())),
            Err(_) => Ok(None),
        }
    }

    #[tokio::test]
    async fn every_mode_does_what_it_says() {
        let proxy = Proxy::start(echo().await).await.expect("a proxy");
        let connect = || TcpStream::connect(proxy.address());
        let mut stream = connect().await.expect("connected");
        assert!(ping(&mut stream).await.expect("open").is_some());
        proxy.set(Mode::Delay(Duration::from_millis(40)));
        assert!(ping(&mut stream).await.expect("open").expect("an echo") >= Duration::from_millis(80));
        proxy.set(Mode::Stall);
        assert_eq!(ping(&mut stream).await.expect("open"), None);
        proxy.set(Mode::Pass);
        timeout(SHORT, stream.read_exact(&mut [0])).await.expect("it arrives later").expect("open");
        for mode in [Mode::Blackhole, Mode::DropReplies, Mode::DropRequests] {
            proxy.set(mode);
            assert_eq!(ping(&mut stream).await.expect("open"), None, "{mode:?}");
            proxy.set(Mode::Pass);
            sleep(Duration::from_millis(20)).await;
            assert!(ping(&mut stream).await.is_err(), "{mode:?}: what has lost bytes goes on");
            stream = connect().await.expect("connected");
            assert!(ping(&mut stream).await.expect("open").is_some(), "after {mode:?}");
        }
        proxy.set(Mode::Refuse);
        assert!(ping(&mut stream).await.expect("open").is_some());
        assert!(ping(&mut connect().await.expect("accepted")).await.is_err());
        proxy.set(Mode::Cut);
        assert!(ping(&mut stream).await.is_err());
        assert_eq!(proxy.connections(), 5);
    }
}
