//! Three replicas as processes: the leader is killed, and clients find the next one.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

const LONG: Duration = Duration::from_secs(30);

struct Replica {
    process: Child,
    address: String,
}

impl Drop for Replica {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn start(folder: &std::path::Path, ttl: &str) -> Replica {
    let mut command = Command::new(env!("CARGO_BIN_EXE_replicated-service"));
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("TENURE_")) {
        command.env_remove(name);
    }
    command.env("TENURE_URL", format!("sqlite:{}?ttl={ttl}", folder.join("tenure.db").display()));
    command.arg("127.0.0.1:0").arg(folder.join("notes.db")).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut process = command.spawn().expect("it starts");
    let mut line = String::new();
    BufReader::new(process.stdout.take().expect("piped")).read_line(&mut line).expect("a line");
    Replica { process, address: line.trim().strip_prefix("answers on ").expect("an address").to_owned() }
}

struct Answer {
    status: u16,
    location: Option<String>,
    body: String,
}

fn ask(address: &str, method: &str, body: &str) -> Option<Answer> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(LONG)).ok()?;
    let length = body.len();
    let head =
        format!("{method} /notes HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n");
    stream.write_all((head + body).as_bytes()).ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    let location = head.lines().find_map(|line| line.strip_prefix("location: http://"));
    let location = location.map(|place| place.trim_end_matches("/notes").to_owned());
    Some(Answer { status: head.split(' ').nth(1)?.parse().ok()?, location, body: body.to_owned() })
}

/// As a client does: to where the leader is said to be, and again if it is not there.
fn follow(address: &str, method: &str, body: &str) -> (String, Answer) {
    let start = Instant::now();
    loop {
        assert!(start.elapsed() < LONG, "nobody answers");
        let mut at = address.to_owned();
        for _ in 0..2 {
            match ask(&at, method, body) {
                Some(Answer { status: 307, location: Some(leader), .. }) => at = leader,
                Some(answer) if answer.status < 300 => return (at, answer),
                _ => break,
            }
        }
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn the_leader_is_killed_and_the_redirects_follow_the_next_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut replicas: Vec<_> = (0..3).map(|_| start(folder.path(), "2s")).collect();
    let (mut leader, _) = follow(&replicas[0].address, "POST", "note 0");
    for round in 1..=3 {
        let position = replicas.iter().position(|replica| replica.address == leader).expect("one of them");
        let mut killed = replicas.remove(position);
        killed.process.kill().expect("kill -9");
        killed.process.wait().expect("it is gone");
        replicas.push(start(folder.path(), "2s"));
        let start = Instant::now();
        let (next, _) = follow(&replicas[0].address, "POST", &format!("note {round}"));
        assert!(start.elapsed() < Duration::from_millis(2000 + 2500), "{:?}", start.elapsed());
        assert_ne!(next, leader);
        leader = next;
        for replica in &replicas {
            let (at, answer) = follow(&replica.address, "GET", "");
            assert_eq!((at.as_str(), answer.body.lines().count()), (leader.as_str(), round + 1), "{}", answer.body);
        }
    }
    let (_, answer) = follow(&replicas[0].address, "GET", "");
    let tokens: Vec<u64> =
        answer.body.lines().map(|line| line.split(' ').next().expect("one").parse().expect("a token")).collect();
    assert!(tokens.windows(2).all(|pair| pair[0] < pair[1]), "each leader has a higher token: {tokens:?}");
}

/// Told to stop, it hands over without waiting for the ttl.
#[test]
fn a_leader_that_stops_hands_over_at_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut replicas: Vec<_> = (0..2).map(|_| start(folder.path(), "20s")).collect();
    let (leader, _) = follow(&replicas[0].address, "POST", "a");
    let position = replicas.iter().position(|replica| replica.address == leader).expect("one of them");
    let mut old = replicas.remove(position);
    let pid = old.process.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().expect("it runs").success());
    let start = Instant::now();
    // Until it has heard that it is to stop, it leads.
    while follow(&replicas[0].address, "POST", "b").0 == leader {
        thread::sleep(Duration::from_millis(10));
    }
    assert!(start.elapsed() < Duration::from_secs(10), "it took the whole ttl");
    assert_eq!(follow(&replicas[0].address, "POST", "c").0, replicas[0].address);
    let start = Instant::now();
    let status = loop {
        assert!(start.elapsed() < LONG, "it does not end");
        match old.process.try_wait().expect("ours") {
            Some(status) => break status,
            None => thread::sleep(Duration::from_millis(10)),
        }
    };
    assert!(status.success());
}
