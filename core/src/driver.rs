//! From a configuration to a coordinator: which backends are compiled in is an explicit value, nothing is registered globally.

use std::{fmt::Debug, sync::Arc};

use async_trait::async_trait;

use crate::{
    backend::Backend,
    clock::Clock,
    config::{Config, located},
    coordinator::Coordinator,
    error::{Error, ErrorKind, Result},
    options::Options,
};

/// Makes a backend from a configuration. Third parties' drivers are equals of ours.
#[async_trait]
pub trait Driver: Debug + Send + Sync + 'static {
    /// What its URLs start with: `etcd` for `etcd://…`.
    fn scheme(&self) -> &'static str;

    /// A URL that shows how to write one.
    fn example(&self) -> &'static str;

    /// The keys that only this backend knows, beside the common ones.
    fn options(&self) -> &'static [&'static str] {
        &[]
    }

    /// Which of the common keys mean nothing here, and are refused rather than ignored.
    fn unused(&self) -> &'static [&'static str] {
        &["ca", "cert", "key", "user", "password", "password_file"]
    }

    /// Makes the backend.
    ///
    /// # Errors
    /// `Config` when the configuration cannot work, with what to write instead; others when the service cannot be reached.
    async fn connect(&self, config: &Config, clock: &Clock) -> Result<Arc<dyn Backend>>;
}

/// The backends to choose from.
#[derive(Clone, Debug, Default)]
pub struct Drivers(Vec<Arc<dyn Driver>>);

impl Drivers {
    /// None yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// These and one more.
    #[must_use]
    pub fn with(mut self, driver: impl Driver) -> Self {
        self.0.push(Arc::new(driver));
        self
    }

    /// The schemes that can be connected to.
    pub fn schemes(&self) -> impl Iterator<Item = &'static str> {
        self.0.iter().map(|driver| driver.scheme())
    }

    /// The keys that only some of them know.
    pub(crate) fn options(&self) -> impl Iterator<Item = &'static str> {
        self.0.iter().flat_map(|driver| driver.options().iter().copied())
    }

    /// A coordinator that is connected: its first session is open, so what is wrong with address, credentials or settings is told here.
    ///
    /// # Errors
    /// `Config` for what cannot work, with what to write instead; `Denied`; `Unavailable` if the service cannot be reached within the
    /// `connect_timeout`.
    pub async fn connect(&self, config: &Config) -> Result<Coordinator> {
        self.connect_by(config, &Clock::system(), None).await
    }

    /// As [`Drivers::connect`], by another clock and with another description of the program in the entries.
    ///
    /// # Errors
    /// As [`Drivers::connect`].
    pub async fn connect_by(&self, config: &Config, clock: &Clock, program: Option<String>) -> Result<Coordinator> {
        let driver = self.driver(config)?;
        let Config { ttl, connect_timeout, token_base, .. } = *config;
        let options = Options { ttl, connect_timeout, token_base, program };
        options.check()?;
        let backend = driver.connect(config, clock).await?;
        if let Some(required) = config.require.filter(|required| *required > backend.strength()) {
            let has = backend.strength();
            let message = format!(
                "require = {required}, but {} is only as strong as '{has}': use another backend, or write require = {has}",
                config.backend
            );
            return Err(Error::new(ErrorKind::Config, message));
        }
        let coordinator = Coordinator::new(backend, options)?;
        coordinator.connect().await.map_err(|error| not_reached(error, config))?;
        Ok(coordinator)
    }

    fn driver(&self, config: &Config) -> Result<&dyn Driver> {
        let refuse = |key, message| {
            let origin = config.given.get(key).map_or("", |origin| origin.0.as_str());
            Err(located(origin, Error::new(ErrorKind::Config, message)))
        };
        let Some(driver) = self.0.iter().find(|driver| driver.scheme() == config.backend) else {
            let known = self.schemes().collect::<Vec<_>>().join(", ");
            let message = format!("there is no backend '{}' in this program: write one of {known}", config.backend);
            return refuse("backend", message);
        };
        let known = Config::KEYS.iter().filter(|key| !driver.unused().contains(key)).chain(driver.options());
        if let Some(unknown) =
            config.options.keys().chain(config.given.keys()).find(|key| !known.clone().any(|known| known == key))
        {
            let known = known.copied().collect::<Vec<_>>().join(", ");
            return refuse(unknown, format!("{} has no setting '{unknown}': write one of {known}", config.backend));
        }
        Ok(&**driver)
    }
}

/// Says what to write, where it may be the hosts that are wrong, unless it says so already.
fn not_reached(error: Error, config: &Config) -> Error {
    let report = error.report();
    if error.kind() != ErrorKind::Unavailable || config.hosts.is_empty() || report.contains("write ") {
        return error;
    }
    Error::new(error.kind(), format!("{report}: write hosts that serve, or a longer connect_timeout"))
}
