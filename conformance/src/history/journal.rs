//! A worker's notes: a file of JSON lines that loses at most its last line, whatever kills the writer.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read, Seek, SeekFrom, Write},
    path::Path,
};

use super::{Event, What};

/// The writing end.
#[derive(Debug)]
pub(super) struct Journal {
    file: File,
    worker: usize,
    life: u32,
}

impl Journal {
    pub(super) fn create(path: &Path, worker: usize, life: u32) -> io::Result<Self> {
        Ok(Self { file: OpenOptions::new().append(true).create_new(true).open(path)?, worker, life })
    }

    /// Each note is one unbuffered write that is done before the call returns: whatever is sent to the store afterwards has its grant
    /// on record, also if the process is killed with the next instruction.
    pub(super) fn note(&mut self, at: u64, what: What) -> io::Result<()> {
        let mut line = serde_json::to_vec(&Event { at, worker: self.worker, life: self.life, what })?;
        line.push(b'\n');
        self.file.write_all(&line)
    }
}

/// All notes of a file, without a last line that was cut short.
pub(super) fn read(path: &Path) -> io::Result<Vec<Event>> {
    let text = std::fs::read_to_string(path)?;
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    whole.lines().map(|line| serde_json::from_str(line).map_err(io::Error::from)).collect()
}

/// The newest note, for somebody who looks on.
pub(super) fn last(path: &Path) -> Option<Event> {
    const ENOUGH: u64 = 1024;
    let mut file = File::open(path).ok()?;
    let length = file.metadata().ok()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(ENOUGH))).ok()?;
    let mut tail = Vec::new();
    file.read_to_end(&mut tail).ok()?;
    let end = tail.iter().rposition(|byte| *byte == b'\n')?;
    let start = tail[..end].iter().rposition(|byte| *byte == b'\n').map_or(0, |newline| newline + 1);
    serde_json::from_slice(&tail[start..end]).ok()
}
