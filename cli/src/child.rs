//! The command, as `tenure` sees it: through the watchdog that is its parent.

use std::{
    ffi::OsString,
    future::Future,
    io,
    os::{linux::net::SocketAddrExt, unix::net as std_unix},
    pin::pin,
    process::Stdio,
    sync::{Mutex, PoisonError},
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
    time::{sleep, timeout},
};

use crate::{
    descendants::{self, Leftover, Process},
    protocol::{Order, Report, line},
};

/// The word that makes this program a watchdog.
pub(crate) const WATCHDOG: &str = "__watchdog";

/// How long the watchdog may take to begin.
const BEGIN_LIMIT: Duration = Duration::from_secs(5);

/// All watchdogs of this process that somebody listens to.
static WATCHDOGS: Mutex<Vec<Process>> = Mutex::new(Vec::new());

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
    strangers: Vec<Process>,
    /// The watchdog's.
    own: Option<Process>,
}

impl Drop for Watched {
    fn drop(&mut self) {
        watchdogs().retain(|other| Some(*other) != self.own);
    }
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
        let strangers = descendants::living(&[])?;
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
        let own = watchdog.id().and_then(|pid| Process::find(i32::try_from(pid).ok()?));
        let stream = tokio::select! {
            stream = accept(&listener, watchdog.id()) => stream?,
            ended = watchdog.wait() => return Err(io::Error::other(format!("its watchdog ended at once: {}", ended?))),
            () = sleep(BEGIN_LIMIT) => {
                watchdog.start_kill()?;
                return Err(io::Error::other(format!("its watchdog has not answered within {BEGIN_LIMIT:?}")));
            }
        };
        let (reports, writer) = stream.into_split();
        let (orders, inbox) = mpsc::unbounded_channel();
        tokio::spawn(write(inbox, writer));
        watchdogs().extend(own);
        Ok(Self { watchdog, orders, reports: BufReader::new(reports).lines(), strangers, own })
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

    /// Kills all that runs under us, the watchdog included, until nothing is left or `until` is. Returns what could not be killed.
    pub(crate) async fn kill_tree(&self, until: impl Future<Output = ()>) -> Vec<i32> {
        repeat(|| descendants::kill_once(&self.strangers, reap), until).await
    }

    /// The same, but for what other watchdogs watch.
    pub(crate) async fn kill_own(&self, until: impl Future<Output = ()>) -> Vec<i32> {
        let spared = || {
            let others = watchdogs().iter().filter(|other| Some(**other) != self.own).copied().collect::<Vec<_>>();
            [others, self.strangers.clone()].concat()
        };
        repeat(|| descendants::kill_once(&spared(), reap), until).await
    }

    /// Waits for the end of the watchdog, after it has reported that all is over.
    pub(crate) async fn end(mut self) {
        let _ = timeout(Duration::from_millis(500), self.watchdog.wait()).await;
    }
}

fn watchdogs() -> std::sync::MutexGuard<'static, Vec<Process>> {
    WATCHDOGS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// In short steps: what else this runtime does, such as to keep the lock, goes on.
async fn repeat(mut round: impl FnMut() -> Leftover, until: impl Future<Output = ()>) -> Vec<i32> {
    let (mut until, mut pause) = (pin!(until), Duration::from_millis(2));
    loop {
        let left = round();
        if left.over {
            return left.untouchable;
        }
        tokio::select! {
            () = sleep(pause) => pause = (pause * 2).min(Duration::from_millis(100)),
            () = &mut until => return [left.stubborn, left.untouchable].concat(),
        }
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

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::*;

    #[tokio::test]
    async fn what_does_not_die_at_once_is_killed_again_and_others_go_on_meanwhile() {
        let mut rounds = 0;
        let mut round = || {
            rounds += 1;
            Leftover { stubborn: vec![7], untouchable: vec![8], over: rounds == 5 }
        };
        let other = tokio::spawn(sleep(Duration::from_millis(1)));
        assert_eq!(repeat(&mut round, pending()).await, [8], "nothing more can be done");
        assert!(other.is_finished());
        let limit = sleep(Duration::from_millis(20));
        assert_eq!(repeat(round, limit).await, [7, 8], "it was given up");
        assert!(rounds > 5);
    }
}
