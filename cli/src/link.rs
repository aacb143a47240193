//! The watchdog's end of the socket to `tenure`.

use std::{
    io::{self, Read, Write},
    os::{
        fd::{AsFd, BorrowedFd},
        linux::net::SocketAddrExt,
        unix::net::{SocketAddr, UnixStream},
    },
};

use rustix::{net::sockopt::socket_peercred, process::getppid};

use crate::protocol::{Order, Report, line};

/// The socket, and what was read but not understood yet.
pub(crate) struct Link {
    stream: UnixStream,
    unread: Vec<u8>,
}

impl Link {
    /// Connects to the parent process, and to nobody else.
    pub(crate) fn connect(name: &str) -> io::Result<Self> {
        let stream = UnixStream::connect_addr(&SocketAddr::from_abstract_name(name)?)?;
        if Some(socket_peercred(&stream)?.pid) != getppid() {
            return Err(io::Error::other("the socket is not that of the parent process"));
        }
        Ok(Self { stream, unread: Vec::new() })
    }

    /// Waits for the first order; `None` if `tenure` has ended. From then on nothing waits.
    pub(crate) fn first(&mut self) -> io::Result<Option<Order>> {
        let mut byte = [0];
        while self.stream.read(&mut byte)? == 1 {
            if byte == *b"\n" {
                self.stream.set_nonblocking(true)?;
                return Ok(serde_json::from_slice(&std::mem::take(&mut self.unread)).ok());
            }
            self.unread.extend(byte);
        }
        Ok(None)
    }

    /// The orders that have come; `None` if `tenure` has ended, or talks nonsense.
    pub(crate) fn orders(&mut self) -> Option<Vec<Order>> {
        let mut buffer = [0; 4096];
        loop {
            match self.stream.read(&mut buffer) {
                Ok(0) => return None,
                Ok(length) => self.unread.extend(&buffer[..length]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return None,
            }
        }
        let whole = self.unread.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let lines: Vec<u8> = self.unread.drain(..whole).collect();
        let lines = lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        lines.map(|line| serde_json::from_slice(line).ok()).collect()
    }

    /// Tells `tenure`.
    ///
    /// # Errors
    /// When it does not listen any more, which the next look for orders will show as well.
    pub(crate) fn report(&mut self, report: &Report) -> io::Result<()> {
        self.stream.write_all(&line(report))
    }
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}
