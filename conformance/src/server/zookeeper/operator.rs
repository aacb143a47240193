//! What an operator does to ZooKeeper by hand, in its wire protocol: so that no client that is tested answers for itself.

use std::time::Duration;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

use super::wire::{Answer, Request};

const LIMIT: Duration = Duration::from_secs(5);
const NO_NODE: i32 = -101;

/// What ZooKeeper says about a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// The number of the change that made it: `czxid`.
    pub created: i64,
    /// How often its value was replaced.
    pub version: i32,
    /// The session that it ends with; 0 if it is not ephemeral.
    pub owner: i64,
}

/// A connection with a session of its own.
#[derive(Debug)]
pub struct Operator {
    stream: TcpStream,
    session: i64,
}

impl Operator {
    pub(super) async fn connect(stream: TcpStream) -> Option<Self> {
        Self::open(stream, 0).await
    }

    /// Connects to the server at this address, `host:port`.
    ///
    /// # Panics
    /// If it does not let us in.
    pub async fn at(address: &str) -> Self {
        let stream = timeout(LIMIT, TcpStream::connect(address)).await.expect("in time").expect("it listens");
        Self::connect(stream).await.unwrap_or_else(|| panic!("{address} lets nobody in"))
    }

    /// Opens a session, or takes over the one with this id.
    async fn open(stream: TcpStream, session: i64) -> Option<Self> {
        let mut operator = Self { stream, session };
        let password = password(session);
        let request = Request::default().int(0).long(0).int(10_000).long(session).bytes(&password).byte(0);
        timeout(LIMIT, operator.exchange(request)).await.ok().flatten().and_then(|mut answer| {
            let (_version, granted) = (answer.int(), answer.int());
            operator.session = answer.long();
            (granted > 0).then_some(operator)
        })
    }

    /// The id of its session.
    pub fn session(&self) -> i64 {
        self.session
    }

    /// Makes a node that stays.
    ///
    /// # Panics
    /// If it cannot be made.
    pub async fn create(&mut self, path: &str, value: &[u8]) {
        let anyone = |request: Request| request.int(1).int(31).bytes(b"world").bytes(b"anyone");
        let request = anyone(Request::default().bytes(path.as_bytes()).bytes(value)).int(0);
        self.call(1, request).await.unwrap_or_else(|code| panic!("{path} is not created: {code}"));
    }

    /// Makes nodes that stay, whose names end in the next numbers of what they are in; returns their paths. All are asked for before the first
    /// one is answered.
    ///
    /// # Panics
    /// If one cannot be made.
    pub async fn append_all(&mut self, prefixes: &[&str]) -> Vec<String> {
        for prefix in prefixes {
            let anyone = Request::default().bytes(prefix.as_bytes()).bytes(b"").int(1).int(31);
            let request = anyone.bytes(b"world").bytes(b"anyone").int(2);
            let request = Request::default().int(1).int(1).then(&request).framed();
            self.stream.write_all(&request).await.expect("the server reads");
        }
        let mut paths = Vec::new();
        for prefix in prefixes {
            let answer = timeout(LIMIT, self.receive()).await.ok().flatten().expect("the server answers");
            let made = checked(answer).unwrap_or_else(|code| panic!("{prefix} is not appended: {code}"));
            paths.push(text(made));
        }
        paths
    }

    /// Removes a node.
    ///
    /// # Panics
    /// If it is not there.
    pub async fn delete(&mut self, path: &str) {
        let request = Request::default().bytes(path.as_bytes()).int(-1);
        self.call(2, request).await.unwrap_or_else(|code| panic!("{path} is not deleted: {code}"));
    }

    /// Removes a node; `false` if it is not there, or has something in it.
    pub async fn try_delete(&mut self, path: &str) -> bool {
        self.call(2, Request::default().bytes(path.as_bytes()).int(-1)).await.is_ok()
    }

    /// Replaces a node's value.
    ///
    /// # Panics
    /// If it is not there.
    pub async fn set(&mut self, path: &str, value: &[u8]) {
        let request = Request::default().bytes(path.as_bytes()).bytes(value).int(-1);
        self.call(5, request).await.unwrap_or_else(|code| panic!("{path} is not set: {code}"));
    }

    /// The names below a node as this server knows them, which may be long out of date; it is asked what it knows, and asks nobody.
    pub async fn list_here(&mut self, path: &str) -> Vec<String> {
        self.look(8, path).await.map(names).unwrap_or_default()
    }

    /// A node's value, if it is there.
    pub async fn get(&mut self, path: &str) -> Option<(Vec<u8>, Stat)> {
        self.read(4, path).await.map(value)
    }

    /// The same from a server that may be stopped, or about to hang up; `None` if it does not answer.
    pub async fn try_get(&mut self, path: &str) -> Option<(Vec<u8>, Stat)> {
        self.try_read(4, path).await.map(value)
    }

    /// The names below a node, from a server that may be stopped, or about to hang up; `None` if it does not answer.
    pub async fn try_list(&mut self, path: &str) -> Option<Vec<String>> {
        self.try_read(8, path).await.map(names)
    }

    /// Is one more user from now on.
    ///
    /// # Panics
    /// If the server does not agree.
    pub async fn login(&mut self, user: &str, password: &str) {
        let login = format!("{user}:{password}");
        let request = Request::default().int(-4).int(100).int(0).bytes(b"digest").bytes(login.as_bytes());
        let answer = timeout(LIMIT, self.exchange(request)).await.ok().flatten().expect("the server answers");
        checked(answer).unwrap_or_else(|code| panic!("{user} is not let in: {code}"));
    }

    /// With which codes the server answers who asks for a node's value, and for what is in it: 0 if we may know, -102 if we have no right to,
    /// -101 if it is not there.
    pub async fn codes(&mut self, path: &str) -> [i32; 2] {
        let mut codes = [0; 2];
        for (code, kind) in codes.iter_mut().zip([4, 8]) {
            let answer = self.call(kind, Request::default().bytes(path.as_bytes()).byte(0)).await;
            *code = answer.err().unwrap_or(0);
        }
        codes
    }

    /// The names of the nodes below one, in alphabetical order; none if it is not there.
    pub async fn list(&mut self, path: &str) -> Vec<String> {
        self.read(8, path).await.map(names).unwrap_or_default()
    }

    /// Ends a session of another client: the server believes that we are that client. This operator reaches nobody any more afterwards.
    ///
    /// # Panics
    /// If there is no such session.
    pub async fn end_session(self, session: i64) {
        let server = self.stream.peer_addr().expect("it is connected");
        assert!(self.close().await, "{server} does not answer");
        let stream = TcpStream::connect(server).await.expect("it still listens");
        let theirs = Self::open(stream, session).await.unwrap_or_else(|| panic!("there is no session {session:#x}"));
        assert!(theirs.close().await, "{session:#x} is not closed");
    }

    /// Whether the server has hung up on us, or does so soon.
    pub async fn is_over(mut self) -> bool {
        let ended = timeout(LIMIT, self.stream.read(&mut [0])).await;
        matches!(ended, Ok(Ok(0) | Err(_)))
    }

    /// Ends the session, and says whether the server has agreed.
    pub async fn close(mut self) -> bool {
        self.try_call(-11, Request::default()).await.is_some_and(|answer| answer.is_ok())
    }

    async fn try_read(&mut self, kind: i32, path: &str) -> Option<Answer> {
        self.try_call(9, Request::default().bytes(path.as_bytes())).await?.ok()?;
        self.try_call(kind, Request::default().bytes(path.as_bytes()).byte(0)).await?.ok()
    }

    /// A read that misses nothing that was answered before it began.
    async fn read(&mut self, kind: i32, path: &str) -> Option<Answer> {
        self.call(9, Request::default().bytes(path.as_bytes())).await.expect("a server syncs any path");
        self.look(kind, path).await
    }

    async fn look(&mut self, kind: i32, path: &str) -> Option<Answer> {
        match self.call(kind, Request::default().bytes(path.as_bytes()).byte(0)).await {
            Ok(answer) => Some(answer),
            Err(NO_NODE) => None,
            Err(code) => panic!("{path} is not read: {code}"),
        }
    }

    async fn call(&mut self, kind: i32, request: Request) -> Result<Answer, i32> {
        self.try_call(kind, request).await.expect("the server answers")
    }

    async fn try_call(&mut self, kind: i32, request: Request) -> Option<Result<Answer, i32>> {
        let request = Request::default().int(1).int(kind).then(&request);
        timeout(LIMIT, self.exchange(request)).await.ok().flatten().map(checked)
    }

    async fn exchange(&mut self, request: Request) -> Option<Answer> {
        self.stream.write_all(&request.framed()).await.ok()?;
        self.receive().await
    }

    async fn receive(&mut self) -> Option<Answer> {
        let length = self.stream.read_i32().await.ok()?;
        let mut answer = vec![0; usize::try_from(length).ok()?];
        self.stream.read_exact(&mut answer).await.ok()?;
        Some(Answer::new(answer))
    }
}

/// The answer without its head, or the code of what is wrong.
fn checked(mut answer: Answer) -> Result<Answer, i32> {
    let (_number, _zxid, code) = (answer.int(), answer.long(), answer.int());
    if code == 0 { Ok(answer) } else { Err(code) }
}

fn text(mut answer: Answer) -> String {
    String::from_utf8(answer.bytes()).expect("it is text")
}

fn value(mut answer: Answer) -> (Vec<u8>, Stat) {
    let (value, created) = (answer.bytes(), answer.long());
    let (_modified, _times) = (answer.long(), [answer.long(), answer.long()]);
    let (version, _versions) = (answer.int(), [answer.int(), answer.int()]);
    (value, Stat { created, version, owner: answer.long() })
}

fn names(mut answer: Answer) -> Vec<String> {
    let mut names: Vec<_> =
        (0..answer.int()).map(|_| String::from_utf8(answer.bytes()).expect("a name is text")).collect();
    names.sort();
    names
}

/// The password of a session: a server makes it of the id alone, with the generator of Java, so that any server knows it.
fn password(session: i64) -> [u8; 16] {
    if session == 0 {
        return [0; 16];
    }
    const MULTIPLIER: u64 = 0x5_DEEC_E66D;
    let mut state = (session.cast_unsigned() ^ 0xB341_5C00 ^ MULTIPLIER) & ((1 << 48) - 1);
    let mut password = [0; 16];
    for word in password.chunks_exact_mut(4) {
        state = (state.wrapping_mul(MULTIPLIER) + 0xB) & ((1 << 48) - 1);
        word.copy_from_slice(&state.to_le_bytes()[2..6]);
    }
    password
}
