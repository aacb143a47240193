//! The thread that owns the database. Calls are done one after the other, in the order in which they were sent, also those that nobody
//! waits for any more: so what was given up is dead once a later `leave` has succeeded (contract clause 6).

use std::{path::Path, sync::Arc, sync::mpsc, thread, time::Duration};

use tenure_core::{Clock, Error, ErrorKind, Result};
use tokio::{sync::oneshot, time::timeout};

use crate::{config::Settings, error::refused, ledger::Ledger};

/// How long a call waits for its answer. A disk that hangs, or a process that was stopped while it was writing, is not waited for longer.
const PATIENCE: Duration = Duration::from_secs(5);

type Job = Box<dyn FnOnce(&mut Ledger) + Send>;

/// The way to the thread. It ends once all clones of this are gone and all calls are done.
#[derive(Clone, Debug)]
pub(crate) struct Store {
    jobs: mpsc::Sender<Job>,
    path: Arc<Path>,
}

impl Store {
    /// Starts the thread, and opens the database in it.
    pub(crate) async fn open(settings: Settings, clock: Clock) -> Result<Self> {
        let (jobs, inbox) = mpsc::channel::<Job>();
        let (answer, opened) = oneshot::channel();
        let (path, limit): (Arc<Path>, _) = (settings.path.clone().into(), settings.connect_timeout);
        let work = move || match Ledger::open(settings, clock) {
            Ok(mut ledger) => {
                // If the opening was given up, the senders are gone, and the loop ends at once.
                let _ = answer.send(Ok(()));
                inbox.into_iter().for_each(|job| job(&mut ledger));
            }
            Err(error) => {
                let _ = answer.send(Err(error));
            }
        };
        let spawned = thread::Builder::new().name("tenure-sqlite".to_owned()).spawn(work);
        spawned.map_err(|error| refused("start a thread for", &path, error))?;
        let store = Self { jobs, path };
        store.answer(limit, opened).await?;
        Ok(store)
    }

    /// Does something with the database, in its turn. Once this was polled the call is sent, and takes effect even if it is dropped.
    ///
    /// # Errors
    /// What `act` says; `Unavailable` if there is no answer within five seconds.
    pub(crate) async fn call<T: Send + 'static>(
        &self,
        act: impl FnOnce(&mut Ledger) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (answer, answered) = oneshot::channel();
        let job = move |ledger: &mut Ledger| {
            let _ = answer.send(act(ledger));
        };
        self.jobs.send(Box::new(job)).map_err(|_| self.ended())?;
        self.answer(PATIENCE, answered).await
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    async fn answer<T>(&self, limit: Duration, answered: oneshot::Receiver<Result<T>>) -> Result<T> {
        match timeout(limit, answered).await {
            Ok(answer) => answer.map_err(|_| self.ended())?,
            Err(_) => {
                let path = self.path.display();
                let message = format!(
                    "{path} gave no answer within {limit:?}: its disk hangs, or a process that writes to it was stopped"
                );
                Err(Error::new(ErrorKind::Unavailable, message))
            }
        }
    }

    fn ended(&self) -> Error {
        Error::new(ErrorKind::Unexpected, format!("the thread that works on {} has ended", self.path.display()))
    }
}
