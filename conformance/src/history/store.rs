//! The protected resource: one number behind a fence, served on loopback.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::{Arc, Mutex, PoisonError},
};

use serde::{Deserialize, Serialize};
use tenure_core::{Clock, FencingToken};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};

use super::{Micros, now};

/// What the store says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// Done; the value read, or now stored.
    Accepted(u64),
    /// The fence has seen this higher token.
    Refused(FencingToken),
}

/// One request, and how it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// When it was decided.
    pub at: Micros,
    /// The token it came with.
    pub token: FencingToken,
    /// What was to be written; `None` for a read.
    pub write: Option<u64>,
    /// How it ended.
    pub answer: Answer,
}

/// A register that refuses tokens lower than the highest it has seen. **Reads raise the fence too**: with a fence on writes alone, an
/// older holder's late write slips in between a newer holder's read and its write, and is lost.
///
/// Protocol, a line each: `read TOKEN` or `write TOKEN VALUE`; the answers are `ok VALUE` and `refused HIGHEST`.
#[derive(Debug)]
pub struct Store {
    address: SocketAddr,
    register: Arc<Mutex<Register>>,
    server: JoinHandle<()>,
}

#[derive(Debug)]
struct Register {
    clock: Clock,
    fence: bool,
    highest: FencingToken,
    value: u64,
    log: Vec<Request>,
}

impl Store {
    /// Serves on a free port of loopback until dropped. Without a `fence` it accepts every token: a bug to be found.
    ///
    /// # Errors
    /// If no port can be had.
    pub async fn start(fence: bool) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let (clock, highest) = (Clock::system(), FencingToken::new(0));
        let register = Arc::new(Mutex::new(Register { clock, fence, highest, value: 0, log: Vec::new() }));
        let server = tokio::spawn(accept(listener, register.clone()));
        Ok(Self { address, register, server })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// All requests in the order in which they were decided, and the value now.
    pub fn log(&self) -> (Vec<Request>, u64) {
        let register = self.register.lock().unwrap_or_else(PoisonError::into_inner);
        (register.log.clone(), register.value)
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl Register {
    fn decide(&mut self, token: FencingToken, write: Option<u64>) -> Answer {
        let answer = if self.fence && token < self.highest {
            Answer::Refused(self.highest)
        } else {
            self.highest = self.highest.max(token);
            self.value = write.unwrap_or(self.value);
            Answer::Accepted(self.value)
        };
        self.log.push(Request { at: now(&self.clock), token, write, answer });
        answer
    }
}

async fn accept(listener: TcpListener, register: Arc<Mutex<Register>>) {
    while let Ok((stream, _)) = listener.accept().await {
        let register = register.clone();
        tokio::spawn(async move {
            let _ = serve(stream, &register).await; // the peer was killed: nothing is owed to it
        });
    }
}

async fn serve(stream: TcpStream, register: &Mutex<Register>) -> io::Result<()> {
    let (reader, mut writer) = stream.into_split();
    let mut reader = BufReader::new(reader);
    let mut line = String::new();
    loop {
        line.clear();
        reader.read_line(&mut line).await?;
        // The last words of a killed worker may be cut short: `write 7 12` must not be taken for `write 7 1`.
        let Some((token, write)) = line.strip_suffix('\n').and_then(parse) else { return Ok(()) };
        let answer = register.lock().unwrap_or_else(PoisonError::into_inner).decide(token, write);
        let reply = match answer {
            Answer::Accepted(value) => format!("ok {value}\n"),
            Answer::Refused(highest) => format!("refused {highest}\n"),
        };
        writer.write_all(reply.as_bytes()).await?;
    }
}

fn parse(line: &str) -> Option<(FencingToken, Option<u64>)> {
    let mut words = line.split(' ');
    let verb = words.next()?;
    let token = words.next()?.parse().ok()?;
    match (verb, words.next()) {
        ("read", None) => Some((token, None)),
        ("write", Some(value)) => Some((token, Some(value.parse().ok()?))),
        _ => None,
    }
}

/// A worker's end of the connection.
#[derive(Debug)]
pub(super) struct Client(BufReader<TcpStream>);

impl Client {
    pub(super) async fn connect(address: SocketAddr) -> io::Result<Self> {
        Ok(Self(BufReader::new(TcpStream::connect(address).await?)))
    }

    pub(super) async fn read(&mut self, token: FencingToken) -> io::Result<Answer> {
        self.ask(format!("read {token}\n")).await
    }

    pub(super) async fn write(&mut self, token: FencingToken, value: u64) -> io::Result<Answer> {
        self.ask(format!("write {token} {value}\n")).await
    }

    async fn ask(&mut self, request: String) -> io::Result<Answer> {
        self.0.write_all(request.as_bytes()).await?;
        let mut line = String::new();
        self.0.read_line(&mut line).await?;
        let answer = match line.trim_end().split_once(' ') {
            Some(("ok", value)) => value.parse().ok().map(Answer::Accepted),
            Some(("refused", highest)) => highest.parse().ok().map(Answer::Refused),
            _ => None,
        };
        answer.ok_or_else(|| io::Error::other(format!("the store said {line:?}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn reads_raise_the_fence_and_words_cut_short_count_for_nothing() -> io::Result<()> {
        let store = Store::start(true).await?;
        let (old, new) = (FencingToken::new(3), FencingToken::new(4));
        let mut client = Client::connect(store.address()).await?;
        assert_eq!(client.read(old).await?, Answer::Accepted(0));
        assert_eq!(client.read(new).await?, Answer::Accepted(0));
        assert_eq!(client.write(old, 1).await?, Answer::Refused(new));
        assert_eq!(client.write(new, 1).await?, Answer::Accepted(1));
        client.0.write_all(b"write 4 12").await?;
        drop(client);
        let mut other = Client::connect(store.address()).await?;
        assert_eq!(other.read(new).await?, Answer::Accepted(1));
        let (log, value) = store.log();
        assert_eq!((log.len(), value), (5, 1));
        Ok(())
    }
}
