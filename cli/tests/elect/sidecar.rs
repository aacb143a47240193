//! What `tenure elect --http` tells other programs.

use std::{
    fs::File,
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    thread,
    time::{Duration, Instant},
};

use rusqlite::TransactionBehavior;
use rustix::process::Signal;
use serde_json::Value;

use crate::support::{LONG, Room, Running, assert_one_line, found, text, until};

/// A `tenure elect --http`, and where it answers.
pub(crate) struct Sidecar {
    pub(crate) process: Running,
    pub(crate) address: SocketAddr,
}

pub(crate) fn start(room: &Room, name: &str, words: &[&str]) -> Sidecar {
    let said = format!("{name}.err");
    let mut command = room.tenure(&[&["elect", "--http", "0", "--value", name, "job"], words].concat());
    let process = Running::start(command.stderr(File::create(room.path(&said)).expect("a file")));
    let address = found("the address", || {
        let said = room.read(&said);
        said.lines().find_map(|line| line.strip_prefix("tenure: answers HTTP on ")?.parse().ok())
    });
    Sidecar { process, address }
}

/// Sends a request, and reads the answer: its status and its body.
pub(crate) fn ask(address: SocketAddr, request: &str) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(LONG)).ok()?;
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    Some((head.split(' ').nth(1)?.parse().ok()?, body.to_owned()))
}

pub(crate) fn get(address: SocketAddr, path: &str) -> (u16, String) {
    ask(address, &format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n")).expect("an answer")
}

pub(crate) fn leader(address: SocketAddr) -> (u16, Value) {
    let (status, body) = get(address, "/leader");
    (status, serde_json::from_str(&body).expect("JSON"))
}

fn metric(address: SocketAddr, name: &str) -> f64 {
    let (status, text) = get(address, "/metrics");
    assert!(status == 200 && text.ends_with("# EOF\n"), "{text}");
    let line = text.lines().find(|line| line.starts_with(&format!("{name}{{")));
    line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).unwrap_or_else(|| panic!("{name}: {text}"))
}

#[test]
fn leader_and_candidate_tell_the_same_and_a_hand_over_shows_at_both() {
    let room = Room::new();
    let mut a = start(&room, "a", &[]);
    until("it to lead", || leader(a.address).1["leads"] == true);
    let b = start(&room, "b", &["sleep", "60"]);
    until("the other one to know", || leader(b.address).1["leader"]["value"] == "a");
    let (status, of_a) = leader(a.address);
    assert_eq!((status, &of_a["known"], &of_a["token"]), (200, &true.into(), &of_a["leader"]["token"]));
    assert!((1..5000).contains(&of_a["deadline_ms"].as_u64().expect("a number")), "{of_a}");
    let (status, of_b) = leader(b.address);
    assert_eq!((status, &of_b["leads"], &of_b["token"]), (200, &false.into(), &Value::Null));
    assert_eq!(of_b["leader"], of_a["leader"]);
    for (at, leads) in [(a.address, 1.0), (b.address, 0.0)] {
        assert_eq!(metric(at, "tenure_election_is_leader"), leads);
        assert_eq!(metric(at, "tenure_session_held"), 1.0);
        assert_eq!(get(at, "/healthz"), (200, "ok\n".to_owned()));
    }
    assert!(metric(a.address, "tenure_election_deadline_seconds") > 0.0);
    a.process.signal(Signal::TERM);
    assert_eq!(a.process.code(), 143, "without a command there is only the signal");
    until("the other one to lead", || leader(b.address).1["leads"] == true);
    assert_eq!(metric(b.address, "tenure_election_transitions_total"), 1.0);
    assert_eq!(metric(b.address, "tenure_election_terms_total"), 1.0);
}

/// Who was told that it leads may act on that until the deadline; without a command there is nothing else to wait for.
#[test]
fn without_a_command_it_resigns_only_when_nobody_may_act_on_its_word() {
    for told in [false, true] {
        let room = Room::with_ttl("5s");
        let mut a = start(&room, "a", &[]);
        until("it to lead", || metric(a.address, "tenure_election_is_leader") == 1.0);
        let b = start(&room, "b", &[]);
        room.until_entries(2);
        let left = told.then(|| leader(a.address).1["deadline_ms"].as_u64().expect("it leads"));
        let start = Instant::now();
        a.process.signal(Signal::TERM);
        until("it to say so", || {
            a.process.is_running() && metric(a.address, "tenure_election_is_leader") == 0.0 || !told
        });
        until("the other one to lead", || metric(b.address, "tenure_election_is_leader") == 1.0);
        let took = u64::try_from(start.elapsed().as_millis()).expect("short");
        assert!(left.map_or(took < 2000, |left| took + 50 >= left), "{left:?} {took}");
        assert_eq!(a.process.code(), 143);
    }
}

/// What came before does not make it deaf for TERM, and TERM does not cut short what was promised; a second one does.
#[test]
fn told_to_end_while_it_keeps_its_word_it_campaigns_no_more() {
    for (signals, ttl) in [(1, "5s"), (2, "15s")] {
        let room = Room::with_ttl(ttl);
        let mut a = start(&room, "a", &[]);
        until("it to lead", || metric(a.address, "tenure_election_is_leader") == 1.0);
        let told = Instant::now();
        let left = Duration::from_millis(leader(a.address).1["deadline_ms"].as_u64().expect("it leads"));
        let mut resign = room.start(&["resign", "job"]);
        until("it to say so", || metric(a.address, "tenure_election_is_leader") == 0.0);
        let (status, said) = leader(a.address);
        assert_eq!((status, &said["known"], &said["leader"]), (503, &false.into(), &Value::Null), "it holds still");
        for _ in 0..signals {
            a.process.signal(Signal::TERM);
            thread::sleep(Duration::from_millis(200)); // two at a time are one
        }
        assert_eq!(a.process.code(), 143);
        let took = told.elapsed() + Duration::from_millis(50);
        assert_eq!(took >= left, signals == 1, "{took:?} of {left:?}");
        assert_eq!(resign.code(), 0);
    }
}

#[test]
fn a_term_that_was_lost_is_counted_and_one_that_was_given_up_is_not() {
    for command in [&[][..], &["sleep", "60"]] {
        let room = Room::new();
        let mut a = start(&room, "a", command);
        for (lost, terms) in [(1.0, 2.0), (1.0, 3.0)] {
            until("it to lead", || metric(a.address, "tenure_election_is_leader") == 1.0);
            if terms == 2.0 {
                room.database().execute("DELETE FROM entries WHERE queue = 'job'", []).expect("removed");
            } else {
                assert_eq!(room.run(&["resign", "job"]).status.code(), Some(0));
            }
            until("it to lead again", || metric(a.address, "tenure_election_terms_total") == terms);
            assert_eq!(metric(a.address, "tenure_election_terms_lost_total"), lost, "{command:?}");
        }
        let token = metric(a.address, "tenure_election_token");
        assert_eq!(Some(token), leader(a.address).1["token"].as_f64());
        assert_eq!(metric(a.address, "leader_election_master_status"), 1.0);
        a.process.signal(Signal::TERM);
    }
}

#[test]
fn while_the_backend_is_away_it_says_that_it_does_not_know() {
    let room = Room::with_ttl("2s");
    let (a, b) = (start(&room, "a", &["sleep", "60"]), start(&room, "b", &["sleep", "60"]));
    until("somebody to lead", || [&a, &b].iter().any(|one| leader(one.address).1["leads"] == true));
    room.until_entries(2); // one that has not connected yet would give up
    let mut database = room.database();
    database.busy_timeout(Duration::from_secs(5)).expect("set");
    let blocking = database.transaction_with_behavior(TransactionBehavior::Immediate).expect("it is free soon");
    for at in [a.address, b.address] {
        until("it to know no more", || get(at, "/healthz").0 == 503);
        let (status, told) = leader(at);
        assert_eq!((status, &told["known"], &told["leads"]), (503, &false.into(), &false.into()));
        assert_eq!(metric(at, "tenure_election_token"), 0.0);
        assert_eq!(metric(at, "tenure_election_is_leader"), 0.0);
        assert_eq!(metric(at, "tenure_election_leader_known"), 0.0);
    }
    drop(blocking);
    until("somebody to lead again", || [&a, &b].iter().any(|one| leader(one.address).1["leads"] == true));
    until("both to know", || [&a, &b].iter().all(|one| leader(one.address).0 == 200));
}

/// Nothing that it saw before counts then, and an observer is not told again of a leader that leads on.
#[test]
fn after_a_session_that_was_lost_it_looks_anew() {
    let room = Room::with_ttl("2s");
    let mut a = start(&room, "a", &["sleep", "60"]);
    until("it to lead", || leader(a.address).1["leads"] == true);
    let mut b = start(&room, "b", &["sleep", "60"]);
    for a_dies in [false, true] {
        until("the other one to know", || leader(b.address).1["leader"]["value"] == "a");
        b.process.signal(Signal::STOP);
        if a_dies {
            a.process.signal(Signal::KILL);
        }
        thread::sleep(Duration::from_secs(3));
        b.process.signal(Signal::CONT);
        until("it to know again", || {
            let (status, told) = leader(b.address);
            assert!(!a_dies || told["leader"]["value"] != "a", "{told}");
            status == 200 && told["leader"]["value"] == if a_dies { "b" } else { "a" }
        });
    }
}

#[test]
fn what_is_not_there_and_what_is_not_allowed() {
    let room = Room::new();
    let sidecar = start(&room, "a", &[]);
    assert_eq!(get(sidecar.address, "/").0, 404);
    let post = "POST /leader HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n";
    assert_eq!(ask(sidecar.address, post).expect("an answer").0, 405);
    let head = ask(sidecar.address, "HEAD /healthz HTTP/1.1\r\nHost: x\r\n\r\n").expect("an answer");
    assert_eq!(head.1, "");
    let long = format!("GET /leader HTTP/1.1\r\nHost: x\r\nX: {}\r\n\r\n", "x".repeat(100_000));
    assert!(ask(sidecar.address, &long).is_none_or(|(status, _)| status == 431), "too long");
}

#[test]
fn an_address_for_everybody_and_one_that_is_taken() {
    let room = Room::new();
    let output = room.run(&["elect", "--http", "0.0.0.0:0", "job"]);
    assert_eq!(output.status.code(), Some(64));
    assert_one_line(&output, "write 127.0.0.1:0, or add --http-public");
    let sidecar = start(&room, "a", &[]);
    let output = room.run(&["elect", "--http", &sidecar.address.to_string(), "job"]);
    assert_eq!(output.status.code(), Some(78), "{}", text(&output.stderr));
    assert_one_line(&output, "cannot be used");
}
