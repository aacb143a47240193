//! Where the frames of HTTP/2 end in what passes.

/// What a frame begins with: its length in three bytes, and six more.
const HEAD: usize = 9;

/// So many frames pass, and no byte more.
#[derive(Debug)]
pub(super) struct Frames {
    left: usize,
    /// The head of the present frame, as far as it is known, and what of its body is still to pass.
    head: Vec<u8>,
    body: usize,
}

impl Frames {
    /// Begins between two frames.
    pub(super) fn new(count: usize) -> Self {
        Self { left: count, head: Vec::new(), body: 0 }
    }

    /// How many of these bytes, the next ones on the wire, may pass.
    pub(super) fn admit(&mut self, bytes: &[u8]) -> usize {
        let mut at = 0;
        while self.left > 0 && at < bytes.len() {
            if self.head.len() < HEAD {
                let part = (HEAD - self.head.len()).min(bytes.len() - at);
                self.head.extend_from_slice(&bytes[at..at + part]);
                at += part;
                if self.head.len() < HEAD {
                    break;
                }
                self.body = self.head[..3].iter().fold(0, |length, byte| length << 8 | usize::from(*byte));
            }
            let part = self.body.min(bytes.len() - at);
            (at, self.body) = (at + part, self.body - part);
            if self.body == 0 {
                self.head.clear();
                self.left -= 1;
            }
        }
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_counted_however_they_are_cut() {
        let frame = |length: u8| [vec![0, 0, length, 0, 0, 0, 0, 0, 1], vec![7; usize::from(length)]].concat();
        let wire = [frame(3), frame(0), frame(30), frame(1)].concat();
        for (count, admitted) in [(0, 0), (1, 12), (2, 21), (3, 60), (4, 70), (5, 70)] {
            for piece in [1, 2, 9, 10, 100] {
                let mut frames = Frames::new(count);
                let passed: usize = wire.chunks(piece).map(|piece| frames.admit(piece)).sum();
                assert_eq!(passed, admitted, "{count} frames in pieces of {piece}");
            }
        }
    }
}
