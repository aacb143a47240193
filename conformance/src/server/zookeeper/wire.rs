//! How ZooKeeper writes things down: numbers with the highest byte first, and bytes after their number.

/// What is asked.
#[derive(Debug, Default)]
pub(super) struct Request(Vec<u8>);

impl Request {
    pub(super) fn byte(mut self, byte: u8) -> Self {
        self.0.push(byte);
        self
    }

    pub(super) fn int(mut self, number: i32) -> Self {
        self.0.extend(number.to_be_bytes());
        self
    }

    pub(super) fn long(mut self, number: i64) -> Self {
        self.0.extend(number.to_be_bytes());
        self
    }

    pub(super) fn bytes(self, bytes: &[u8]) -> Self {
        let mut request = self.int(length(bytes));
        request.0.extend(bytes);
        request
    }

    pub(super) fn then(mut self, rest: &Self) -> Self {
        self.0.extend(&rest.0);
        self
    }

    /// As it is sent.
    pub(super) fn framed(&self) -> Vec<u8> {
        Self::default().bytes(&self.0).0
    }
}

fn length(bytes: &[u8]) -> i32 {
    i32::try_from(bytes.len()).expect("a test sends little")
}

/// What is answered, read from the front.
#[derive(Debug)]
pub(super) struct Answer(Vec<u8>);

impl Answer {
    pub(super) fn new(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    pub(super) fn int(&mut self) -> i32 {
        i32::from_be_bytes(self.take())
    }

    pub(super) fn long(&mut self) -> i64 {
        i64::from_be_bytes(self.take())
    }

    /// -1 stands for none.
    pub(super) fn bytes(&mut self) -> Vec<u8> {
        let length = usize::try_from(self.int()).unwrap_or(0);
        assert!(length <= self.0.len(), "the answer is cut short");
        self.0.drain(..length).collect()
    }

    fn take<const N: usize>(&mut self) -> [u8; N] {
        assert!(N <= self.0.len(), "the answer is cut short");
        let mut taken = [0; N];
        for (byte, first) in taken.iter_mut().zip(self.0.drain(..N)) {
            *byte = first;
        }
        taken
    }
}
