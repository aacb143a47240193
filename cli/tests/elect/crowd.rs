//! Whatever clients do to the sidecar, the leadership is held.

use std::{
    fs,
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Resource, getrlimit, setrlimit};

use super::sidecar::{get, leader, start};
use crate::support::{Room, until};

const TTL: Duration = Duration::from_secs(2);

/// Sets it when it is dropped, so that a failure ends the test.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Keeps `count` connections open that send a byte now and then, and opens a new one for each that was closed.
fn crawl(address: SocketAddr, count: usize, over: &AtomicBool) {
    let open = || {
        let stream = TcpStream::connect_timeout(&address, Duration::from_secs(5)).ok()?;
        stream.set_write_timeout(Some(Duration::from_secs(1))).ok()?;
        (&stream).write_all(b"GET /leader HTTP/1.1\r\nX: ").ok()?;
        Some(stream)
    };
    let mut crowd: Vec<Option<TcpStream>> = (0..count).map(|_| None).collect();
    while !over.load(Ordering::Relaxed) {
        for one in &mut crowd {
            if one.as_mut().is_none_or(|stream| stream.write_all(b"x").is_err()) {
                *one = open();
            }
        }
        thread::sleep(Duration::from_millis(200));
    }
}

/// Sends a hundred megabytes, for as long as they are taken.
fn push(address: SocketAddr) -> usize {
    let Ok(mut stream) = TcpStream::connect(address) else { return 0 };
    let _ = stream.set_write_timeout(Some(Duration::from_secs(1)));
    let _ = stream.set_read_timeout(Some(Duration::from_secs(1)));
    let _ = stream.write_all(b"POST /leader HTTP/1.1\r\nHost: x\r\nContent-Length: 100000000\r\n\r\n");
    let chunk = vec![b'x'; 1_000_000];
    let sent = (0..100).take_while(|_| stream.write_all(&chunk).is_ok()).count();
    let _ = stream.read(&mut [0; 100]);
    sent
}

#[test]
fn a_thousand_connections_slow_clients_and_large_bodies_do_not_disturb_the_election() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit).expect("raised: there are many connections at this end");
    let room = Room::with_ttl("2s");
    let mut sidecar = start(&room, "a", &["sleep", "60"]);
    until("it to lead", || leader(sidecar.address).1["leads"] == true);
    let token = leader(sidecar.address).1["token"].clone();
    let follower = start(&room, "b", &["sleep", "60"]);
    until("the other one to know", || leader(follower.address).1["leader"]["value"] == "a");
    let (over, address, start) = (AtomicBool::new(false), sidecar.address, Instant::now());
    let (mut slowest, mut files) = (Duration::ZERO, 0);
    let open_files = format!("/proc/{}/fd", sidecar.process.pid());
    thread::scope(|scope| {
        let ends = Ends(&over);
        for _ in 0..4 {
            scope.spawn(|| crawl(address, 250, &over));
        }
        scope.spawn(|| crawl(follower.address, 250, &over));
        let pushing = scope.spawn(|| (0..5).map(|_| push(address)).collect::<Vec<_>>());
        while start.elapsed() < TTL * 4 {
            let asked = Instant::now();
            let (status, told) = leader(address);
            assert_eq!((status, &told["leads"], &told["token"]), (200, &true.into(), &token));
            slowest = slowest.max(asked.elapsed());
            let (status, told) = leader(follower.address);
            assert_eq!((status, &told["leads"], &told["leader"]["token"]), (200, &false.into(), &token), "{told}");
            assert_eq!(get(follower.address, "/healthz").0, 200, "a candidate whose session is held is well");
            files = files.max(fs::read_dir(&open_files).expect("there").count());
            thread::sleep(Duration::from_millis(50));
        }
        drop(ends);
        println!("megabytes taken of each hundred: {:?}", pushing.join().expect("no panic"));
    });
    println!("the slowest answer took {slowest:?}, and at most {files} files were open");
    assert!((100..300).contains(&files), "{files}: those that are left to the election are few, or there was no crowd");
    assert!(slowest < Duration::from_secs(2), "{slowest:?}");
    assert_eq!(get(address, "/healthz").0, 200);
}
