//! One connection of a session to one server: the only file that names the client library, `zookeeper-client` 0.11.2.
//!
//! A link ends with the first trouble of its connection, and never connects again by itself. The library would: silently, to whichever
//! server it likes, and what that one grants, or that it made a new session, would never be told. So the library's task runs on a leash: it
//! is dropped in the same breath in which it sees that the connection is lost, before it could try another. What else is stepped around here:
//!
//! * Errors of the network come as `Custom`, `UnexpectedError` or `ConnectionLoss`: whatever is no definite answer of a server is ambiguous.
//! * `OneshotWatcher::changed` panics if the task has ended without a word: it is never polled after that, and a panic is taken for the end.
//! * Creates within a transaction are answered without a number, so what gets a token is created by itself, and a datum is set as well.
//! * `Client::lock`, persistent watches and `delete` in the background lose or leak nodes: none of them is used.

use std::{sync::Arc, time::Duration};

use tokio::sync::{RwLock, RwLockReadGuard, watch};
use zookeeper_client::{
    Acls, Client, CreateMode, Error as ClientError, EventType, MultiWriteError, MultiWriteResult, OneshotWatcher,
    SessionInfo, SessionState, Stat, TlsOptions,
};

use crate::{
    config::Tls,
    error::{Fault, Refusal, settled},
    leash::{Leash, Watch},
};

/// A server that has said nothing for so long is given up, however long the session lasts.
const LONGEST_SILENCE: Duration = Duration::from_secs(20);

/// How to connect.
pub(crate) struct Way {
    tls: Option<TlsOptions>,
    login: Option<String>,
    /// Whether what we make is ours alone, or anybody's.
    private: bool,
}

/// What a server knows a session by.
#[derive(Clone, Debug)]
pub(crate) struct Identity(SessionInfo);

/// What a node is known by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Node {
    /// The number of the transaction that made it: `czxid`.
    pub(crate) made: i64,
    /// That of its last change of value: `mzxid`.
    pub(crate) changed: i64,
    /// How often its value was changed.
    pub(crate) version: i32,
    /// The session that it ends with, or 0.
    pub(crate) owner: i64,
}

/// The names in a node, and the node itself, at one moment.
#[derive(Clone, Debug)]
pub(crate) struct Children {
    pub(crate) names: Vec<String>,
    pub(crate) parent: Node,
}

/// What kind of node is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Persistent,
    /// Removed by the servers some time after its last child.
    Container,
    /// Ends with the session.
    Ephemeral,
}

impl Kind {
    fn mode(self) -> CreateMode {
        match self {
            Self::Persistent => CreateMode::Persistent,
            Self::Container => CreateMode::Container,
            Self::Ephemeral => CreateMode::Ephemeral,
        }
    }
}

/// A step of a transaction. Where a version is named, the node must have it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step<'a> {
    Check(&'a str, Option<i32>),
    Create(&'a str, Kind, &'a [u8]),
    Set(&'a str, Option<i32>, &'a [u8]),
    Remove(&'a str, Option<i32>),
}

/// How a transaction ended: with the node as the last [`Step::Set`] has left it; or with nothing done, because of the step at this place.
pub(crate) type Transacted = Result<Option<Node>, (usize, Refusal)>;

impl Way {
    pub(crate) fn new(tls: Option<&Tls>, login: Option<String>, private: bool) -> Result<Self, Fault> {
        let options = |tls: &Tls| {
            let options = TlsOptions::new().with_pem_ca(&tls.ca)?;
            match &tls.identity {
                Some((cert, key)) => options.with_pem_identity(cert, key),
                None => Ok(options),
            }
        };
        Ok(Self { tls: tls.map(options).transpose().map_err(fault)?, login, private })
    }

    /// Connects to one server, with a new session or with one that is known. Not bounded in time. Dropped, it leaves nothing but perhaps a
    /// session that nobody knows, which expires.
    pub(crate) async fn connect(
        &self,
        host: &str,
        timeout: Duration,
        session: Option<&Identity>,
    ) -> Result<Link, Fault> {
        let mut connector = Client::connector()
            .with_session_timeout(timeout)
            .with_connection_timeout((timeout * 2 / 5).min(LONGEST_SILENCE))
            .with_fail_eagerly();
        if let Some(login) = &self.login {
            connector = connector.with_auth("digest", login.as_bytes());
        }
        if let Some(Identity(session)) = session {
            connector = connector.with_session(session.clone());
        }
        if let Some(tls) = &self.tls {
            connector = connector.with_tls(tls.clone());
        }
        let ended = watch::Sender::new(false);
        let (leash, follow) = Leash::new(&ended);
        let scheme = if self.tls.is_some() { "tcp+tls" } else { "tcp" };
        let client = leash.hold(connector.connect(&format!("{scheme}://{host}"))).await.map_err(fault)?;
        let states = client.state_watcher();
        let (granted, identity) = (client.session_timeout(), Identity(client.session().clone()));
        let acls = if self.private { Acls::creator_all() } else { Acls::anyone_all() };
        let client = Arc::new(RwLock::new(Some(client)));
        // With it goes the client: the library ends the session once that is dropped, unless its task has ended before.
        let held = client.clone();
        let _ = follow.send(Box::new(move || {
            let _held = &held;
            states.peek_state() == SessionState::SyncConnected
        }));
        Ok(Link { host: host.to_owned(), client, ended, granted, identity, acls })
    }
}

/// A connection. What is asked first is done first. Dropping it breaks the connection, and ends no session.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) host: String,
    /// How long a session lasts without a word, as this server says.
    pub(crate) granted: Duration,
    pub(crate) identity: Identity,
    client: Arc<RwLock<Option<Client>>>,
    ended: watch::Sender<bool>,
    acls: Acls<'static>,
}

impl Link {
    /// The number of the session.
    pub(crate) fn session(&self) -> i64 {
        self.identity.0.id().0
    }

    pub(crate) fn is_alive(&self) -> bool {
        !*self.ended.borrow()
    }

    /// Breaks the connection. Whatever was asked may still happen.
    pub(crate) fn kill(&self) {
        self.ended.send_replace(true);
    }

    /// Ends the session, after what is asked already. Whether the server has confirmed it.
    pub(crate) async fn close(&self) -> bool {
        let Some(client) = self.client.write().await.take() else { return false };
        let states = client.state_watcher();
        drop(client); // the library ends the session once nobody can ask for anything
        let _ = self.ended.subscribe().wait_for(|ended| *ended).await;
        states.peek_state() == SessionState::Closed
    }

    /// Has a majority confirm that the node is there. Changes nothing.
    pub(crate) async fn check(&self, path: &str) -> Result<(), Fault> {
        self.commit(&[Step::Check(path, None)]).await
    }

    pub(crate) async fn create(&self, path: &str, kind: Kind, value: &[u8]) -> Result<(), Fault> {
        let options = kind.mode().with_acls(self.acls);
        self.client().await?.create(path, value, &options).await.map(drop).map_err(fault)
    }

    /// Appends a node that ends with the session. Its path is the prefix and ten digits.
    pub(crate) async fn append(&self, prefix: &str, value: &[u8]) -> Result<(String, Node), Fault> {
        let options = CreateMode::EphemeralSequential.with_acls(self.acls);
        let (stat, sequence) = self.client().await?.create(prefix, value, &options).await.map_err(fault)?;
        Ok((format!("{prefix}{sequence}"), node(&stat)))
    }

    /// Does all steps, or none. A node that is made here has no number in the answer, unless it is set in the same transaction.
    pub(crate) async fn transact(&self, steps: &[Step<'_>]) -> Result<Transacted, Fault> {
        let client = self.client().await?;
        let mut all = client.new_multi_writer();
        for step in steps {
            let added = match *step {
                Step::Check(path, version) => all.add_check_version(path, version.unwrap_or(-1)),
                Step::Create(path, kind, value) => all.add_create(path, value, &kind.mode().with_acls(self.acls)),
                Step::Set(path, version, value) => all.add_set_data(path, value, version),
                Step::Remove(path, version) => all.add_delete(path, version),
            };
            added.map_err(fault)?;
        }
        let last_set = |done: Vec<MultiWriteResult>| {
            done.into_iter().rev().find_map(|done| match done {
                MultiWriteResult::SetData { stat } => Some(node(&stat)),
                _ => None,
            })
        };
        match all.commit().await {
            Ok(done) => Ok(Ok(last_set(done))),
            Err(MultiWriteError::OperationFailed { index, source }) => {
                Ok(settled(Err(fault(source)))?.map_err(|refusal| (index, refusal)))
            }
            Err(MultiWriteError::RequestFailed { source }) => Err(fault(source)),
        }
    }

    /// The same, where it is all one which step is refused.
    pub(crate) async fn commit(&self, steps: &[Step<'_>]) -> Result<(), Fault> {
        self.transact(steps).await?.map(drop).map_err(|(_, refusal)| Fault::Refused(refusal))
    }

    pub(crate) async fn set(&self, path: &str, value: &[u8], version: i32) -> Result<Node, Fault> {
        let stat = self.client().await?.set_data(path, value, Some(version)).await.map_err(fault)?;
        Ok(node(&stat))
    }

    pub(crate) async fn remove(&self, path: &str) -> Result<(), Fault> {
        self.client().await?.delete(path, None).await.map_err(fault)
    }

    pub(crate) async fn node(&self, path: &str) -> Result<Option<Node>, Fault> {
        Ok(self.client().await?.check_stat(path).await.map_err(fault)?.as_ref().map(node))
    }

    pub(crate) async fn get(&self, path: &str) -> Result<(Vec<u8>, Node), Fault> {
        let (value, stat) = self.client().await?.get_data(path).await.map_err(fault)?;
        Ok((value, node(&stat)))
    }

    pub(crate) async fn children(&self, path: &str) -> Result<Children, Fault> {
        let (names, stat) = self.client().await?.get_children(path).await.map_err(fault)?;
        Ok(Children { names, parent: node(&stat) })
    }

    /// What is asked next is answered by a server that knows what the leader knows now.
    pub(crate) async fn sync(&self, path: &str) -> Result<(), Fault> {
        self.client().await?.sync(path).await.map_err(fault)
    }

    /// A node, and a watch on its coming, going and changes of value.
    pub(crate) async fn watch(&self, path: &str) -> Result<(Option<Node>, Watch), Fault> {
        let (stat, watcher) = self.client().await?.check_and_watch_stat(path).await.map_err(fault)?;
        Ok((stat.as_ref().map(node), self.watcher(watcher)))
    }

    /// What is in a node, and a watch on coming and going in it.
    pub(crate) async fn watch_children(&self, path: &str) -> Result<(Children, Watch), Fault> {
        let (names, stat, watcher) = self.client().await?.get_and_watch_children(path).await.map_err(fault)?;
        Ok((Children { names, parent: node(&stat) }, self.watcher(watcher)))
    }

    async fn client(&self) -> Result<RwLockReadGuard<'_, Client>, Fault> {
        RwLockReadGuard::try_map(self.client.read().await, Option::as_ref)
            .map_err(|_| Fault::Broken("the session is being closed".to_owned()))
    }

    fn watcher(&self, watcher: OneshotWatcher) -> Watch {
        let event = async move { watcher.changed().await.event_type == EventType::NodeDeleted };
        Watch { event: Box::pin(event), ended: self.ended.subscribe() }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.kill();
    }
}

fn node(stat: &Stat) -> Node {
    Node { made: stat.czxid, changed: stat.mzxid, version: stat.version, owner: stat.ephemeral_owner }
}

fn fault(error: ClientError) -> Fault {
    match error {
        ClientError::NoNode => Fault::Refused(Refusal::NoNode),
        ClientError::NodeExists => Fault::Refused(Refusal::NodeExists),
        ClientError::BadVersion => Fault::Refused(Refusal::BadVersion),
        ClientError::NoAuth => Fault::Refused(Refusal::NoRights),
        ClientError::InvalidAcl => Fault::Refused(Refusal::NoLogin),
        ClientError::QuotaExceeded => Fault::Refused(Refusal::NoRoom),
        ClientError::Throttled => Fault::Refused(Refusal::Overloaded),
        ClientError::NotEmpty
        | ClientError::NoChildrenForEphemerals
        | ClientError::BadArguments(_)
        | ClientError::MarshallingError
        | ClientError::Unimplemented => Fault::Refused(Refusal::Other(error.to_string())),
        ClientError::SessionExpired => Fault::Expired,
        ClientError::AuthFailed => Fault::NoLogin,
        ambiguous => Fault::Broken(ambiguous.to_string()),
    }
}
