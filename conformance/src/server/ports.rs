//! Ports for servers that may go away and come back.

use std::{
    fs::{File, OpenOptions},
    io,
    net::TcpListener,
    ops::Range,
    path::Path,
    sync::{Mutex, PoisonError},
};

/// Below those that outgoing connections take.
const ALL: Range<u16> = 12_000..30_000;
/// The same for everybody, whatever their own folder for temporary files is.
const FOLDER: &str = "/tmp";
/// How many one process claims at a time.
const BLOCK: u16 = 100;

/// What this process has claimed, and not given away yet. The files stay locked until the process ends.
struct Claims {
    files: Vec<File>,
    left: Range<u16>,
}

static CLAIMS: Mutex<Claims> = Mutex::new(Claims { files: Vec::new(), left: 0..0 });

/// A port of this machine that nobody listens on, and that no other process of tests gets: so it stays free over a restart.
///
/// # Panics
/// If there is none.
pub fn free_port() -> u16 {
    let mut claims = CLAIMS.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        if let Some(port) = claims.left.find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok()) {
            return port;
        }
        let (first, file) = ALL
            .step_by(usize::from(BLOCK))
            .find_map(|first| Some((first, claim(Path::new(FOLDER), first).ok()?)))
            .unwrap_or_else(|| {
                panic!("no ports are left: other tests have claimed them all, or {FOLDER} is not writable")
            });
        claims.files.push(file);
        claims.left = first..first + BLOCK;
    }
}

/// One file for each block, which is never removed: whoever has locked it has the block.
fn claim(folder: &Path, first: u16) -> io::Result<File> {
    let path = folder.join(format!("tenure-ports-{first}"));
    // It may be another user's.
    let file = File::open(&path).or_else(|_| OpenOptions::new().write(true).create_new(true).open(&path))?;
    file.try_lock()?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use std::{collections::HashSet, thread};

    use super::*;

    #[test]
    fn nobody_gets_a_port_of_somebody_else() {
        let threads: Vec<_> =
            (0..4).map(|_| thread::spawn(|| (0..100).map(|_| free_port()).collect::<Vec<_>>())).collect();
        let ports: Vec<_> = threads.into_iter().flat_map(|thread| thread.join().expect("no panic")).collect();
        assert_eq!(ports.iter().collect::<HashSet<_>>().len(), 400);
        assert!(ports.iter().all(|port| ALL.contains(port)));
        let folder = tempfile::tempdir().expect("a folder");
        let held = claim(folder.path(), 12_000).expect("nobody has it");
        claim(folder.path(), 12_000).expect_err("somebody has it");
        claim(folder.path(), 12_100).expect("nobody has it");
        drop(held);
        claim(folder.path(), 12_000).expect("it is free again");
    }
}
