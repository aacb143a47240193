//! Where the frames of HTTP/2 end in what passes, and which of them are requests.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

/// What a frame begins with: its length in three bytes, its kind in one, and five more (RFC 9113, section 4.1).
const HEAD: usize = 9;
/// What a client sends before its first frame (section 3.4), in bytes.
const PREFACE: usize = 24;
/// The kind of the frame that begins a request (section 6.2).
const HEADERS: u8 = 1;

/// Follows one direction from the beginning of a frame.
#[derive(Debug, Default)]
struct Frames {
    /// The head of the present frame, as far as it is known, and what of its body is still to come.
    head: Vec<u8>,
    body: usize,
}

impl Frames {
    /// How many of these bytes, the next ones on the wire, are of the present frame; and of which kind it is, if it ends here.
    fn next(&mut self, bytes: &[u8]) -> (usize, Option<u8>) {
        let in_head = (HEAD - self.head.len()).min(bytes.len());
        if in_head > 0 {
            self.head.extend_from_slice(&bytes[..in_head]);
            self.body = self.head.iter().take(3).fold(0, |length, byte| length << 8 | usize::from(*byte));
        }
        if self.head.len() < HEAD {
            return (in_head, None);
        }
        let in_body = self.body.min(bytes.len() - in_head);
        self.body -= in_body;
        let kind = self.head[3];
        if self.body > 0 {
            return (in_head + in_body, None);
        }
        self.head.clear();
        (in_head + in_body, Some(kind))
    }
}

/// So many frames pass, and no byte more.
#[derive(Debug)]
pub(super) struct Held {
    left: usize,
    frames: Frames,
}

impl Held {
    /// Begins between two frames.
    pub(super) fn new(count: usize) -> Self {
        Self { left: count, frames: Frames::default() }
    }

    /// How many of these bytes, the next ones on the wire, may pass.
    pub(super) fn admit(&mut self, bytes: &[u8]) -> usize {
        let mut at = 0;
        while self.left > 0 && at < bytes.len() {
            let (length, ended) = self.frames.next(&bytes[at..]);
            at += length;
            self.left -= usize::from(ended.is_some());
        }
        at
    }
}

/// Counts the requests of one connection.
#[derive(Debug)]
pub(super) struct Requests {
    preface: usize,
    frames: Frames,
    count: Arc<AtomicU64>,
}

impl Requests {
    /// Begins with the connection.
    pub(super) fn new(count: Arc<AtomicU64>) -> Self {
        Self { preface: PREFACE, frames: Frames::default(), count }
    }

    /// The next bytes on the wire.
    pub(super) fn see(&mut self, bytes: &[u8]) {
        let mut at = self.preface.min(bytes.len());
        self.preface -= at;
        while at < bytes.len() {
            let (length, ended) = self.frames.next(&bytes[at..]);
            at += length;
            self.count.fetch_add(u64::from(ended == Some(HEADERS)), Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, length: u8) -> Vec<u8> {
        [vec![0, 0, length, kind, 0, 0, 0, 0, 1], vec![7; usize::from(length)]].concat()
    }

    #[test]
    fn frames_are_held_however_they_are_cut() {
        let wire = [frame(0, 3), frame(0, 0), frame(0, 30), frame(0, 1)].concat();
        for (count, admitted) in [(0, 0), (1, 12), (2, 21), (3, 60), (4, 70), (5, 70)] {
            for piece in [1, 2, 9, 10, 100] {
                let mut held = Held::new(count);
                let passed: usize = wire.chunks(piece).map(|piece| held.admit(piece)).sum();
                assert_eq!(passed, admitted, "{count} frames in pieces of {piece}");
            }
        }
    }

    #[test]
    fn requests_are_counted_however_they_are_cut() {
        let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
        let wire =
            [preface, frame(4, 6), frame(HEADERS, 30), frame(0, 1), frame(0, 200), frame(HEADERS, 0), frame(8, 4)]
                .concat();
        for piece in [1, 2, 9, 10, 23, 100, 1000] {
            let mut requests = Requests::new(Arc::default());
            wire.chunks(piece).for_each(|piece| requests.see(piece));
            assert_eq!(requests.count.load(Ordering::Relaxed), 2, "in pieces of {piece}");
        }
    }
}
