//! The command, as `tenure` sees it: through the watchdog that is its parent.

use std::{
    ffi::OsString,
    io,
    os::{linux::net::SocketAddrExt, unix::net as std_unix},
    process::Stdio,
    time::Duration,
};

use rustix::{
    io::Errno,
    process::{WaitOptions, getpid, set_child_subreaper, wait},
};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines},
    net::{
        UnixListener, UnixStream,
        unix::{OwnedReadHalf, OwnedWriteHalf},
    },
    process::{Child, Command},
    sync::mpsc,
};

use crate::{
    descendants::{self, Leftover},
    protocol::{Order, Report, line},
};

/// The word that makes this program a watchdog.
pub(crate) const WATCHDOG: &str = "__watchdog";

/// What the command reads and writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Streams {
    /// The same as we do.
    Ours,
    /// Nothing, but for our stderr.
    Nothing,
}

/// A command under its watchdog.
#[derive(Debug)]
pub(crate) struct Watched {
    watchdog: Child,
    orders: mpsc::UnboundedSender<Order>,
    reports: Lines<BufReader<OwnedReadHalf>>,
    /// Children that we had before, from the time before our own exec.
    strangers: Vec<i32>,
}

impl Watched {
    /// Starts the watchdog. The command starts with the first order.
    ///
    /// # Errors
    /// What keeps it from starting; then nothing runs.
    pub(crate) async fn start(
        command: &[OsString],
        environment: &[(&str, Option<String>)],
        streams: Streams,
    ) -> io::Result<Self> {
        let (listener, name) = listen()?;
        let strangers = descendants::living(&[])?.iter().map(|process| process.pid).collect();
        set_child_subreaper(Some(getpid()))?; // should the watchdog die, what it watched becomes ours
        let mut watchdog = Command::new("/proc/self/exe"); // also if the file was replaced meanwhile
        watchdog.arg0("tenure").arg(WATCHDOG).arg(name).args(command).process_group(0);
        for (name, value) in environment {
            match value {
                Some(value) => watchdog.env(name, value),
                None => watchdog.env_remove(name),
            };
        }
        if streams == Streams::Nothing {
            watchdog.stdin(Stdio::null()).stdout(Stdio::null());
        }
        let mut watchdog = watchdog.spawn()?;
        let stream = tokio::select! {
            stream = accept(&listener, watchdog.id()) => stream?,
            ended = watchdog.wait() => return Err(io::Error::other(format!("it ended at once: {}", ended?))),
        };
        let (reports, writer) = stream.into_split();
        let (orders, inbox) = mpsc::unbounded_channel();
        tokio::spawn(write(inbox, writer));
        Ok(Self { watchdog, orders, reports: BufReader::new(reports).lines(), strangers })
    }

    /// Tells the watchdog. Never waits for it: it may have been stopped.
    pub(crate) fn order(&self, order: Order) {
        let _ = self.orders.send(order); // if it is gone, its reports end too
    }

    /// What the watchdog says; `None` if it is gone, or talks nonsense.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub(crate) async fn next(&mut self) -> Option<Report> {
        serde_json::from_str(&self.reports.next_line().await.ok()??).ok()
    }

    /// Kills all that runs under us, the watchdog included. Returns what could not be killed.
    pub(crate) fn kill_tree(&mut self, limit: Duration) -> Vec<i32> {
        let Leftover { mut stubborn, untouchable } = descendants::kill_all(&self.strangers, limit, reap);
        stubborn.extend(untouchable);
        stubborn
    }

    /// Waits for the end of the watchdog, after it has reported that all is over.
    pub(crate) async fn end(mut self) {
        let _ = tokio::time::timeout(Duration::from_millis(500), self.watchdog.wait()).await;
    }
}

fn listen() -> io::Result<(UnixListener, String)> {
    let name = format!("tenure-{}", tenure::random_hex());
    let address = std_unix::SocketAddr::from_abstract_name(&name)?;
    let listener = std_unix::UnixListener::bind_addr(&address)?;
    listener.set_nonblocking(true)?;
    Ok((UnixListener::from_std(listener)?, name))
}

/// Whoever else connects is turned away: abstract names are open to all users.
async fn accept(listener: &UnixListener, watchdog: Option<u32>) -> io::Result<UnixStream> {
    loop {
        let (stream, _) = listener.accept().await?;
        let peer = stream.peer_cred()?.pid().and_then(|pid| u32::try_from(pid).ok());
        if peer.is_some() && peer == watchdog {
            return Ok(stream);
        }
    }
}

async fn write(mut inbox: mpsc::UnboundedReceiver<Order>, mut writer: OwnedWriteHalf) {
    while let Some(order) = inbox.recv().await {
        if writer.write_all(&line(&order)).await.is_err() {
            return;
        }
    }
}

fn reap() -> bool {
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some(_)) | Err(Errno::INTR) => {}
            Ok(None) => return true,
            Err(_) => return false,
        }
    }
}
