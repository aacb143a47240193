//! Several places that settings come from, each stronger than the one before.

use std::{ffi::OsString, fmt, path::PathBuf};

use super::{
    Config, Profiles, Secret,
    environment::{Environment, variable},
    layer::Layer,
    located, refusal,
};
use crate::{
    driver::Drivers,
    error::{Error, Result},
};

/// One key with its text, and where it is written.
#[derive(Clone, Debug)]
pub struct Setting {
    pub(super) origin: String,
    pub(super) key: String,
    pub(super) text: Secret,
}

impl Setting {
    /// The `origin` is for messages: `--set`, `TENURE_TTL`. The key `url` stands for all that is in the URL.
    pub fn new(origin: impl Into<String>, key: impl Into<String>, text: impl Into<String>) -> Self {
        Self { origin: origin.into(), key: key.into(), text: Secret::new(text) }
    }
}

/// Where settings come from: flags, which are stronger than the environment, which is stronger than a file, which is stronger than the
/// fallback. Key by key; but **a source that names the backend says the whole place**: of weaker ones only `ttl`, `connect_timeout` and
/// `require` count then, so that nothing is locked at a place that was put together from two. Without a backend it is refused.
///
/// ```
/// use tenure_core::{Drivers, MemoryDriver, Setting, Sources};
///
/// let drivers = Drivers::new().with(MemoryDriver);
/// let sources = Sources::new(&drivers)
///     .variables([("TENURE_URL", "memory://shop?ttl=20s"), ("TENURE_NAMESPACE", "test")])
///     .flags([Setting::new("--set", "ttl", "30s")]);
/// assert_eq!(sources.find()?, "memory://shop/test?ttl=30s".parse()?);
/// # Ok::<(), tenure_core::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Sources {
    keys: Vec<String>,
    fallback: Option<String>,
    usual_files: Vec<PathBuf>,
    file: Option<(String, PathBuf)>,
    profiles: Option<(String, Profiles)>,
    profile: Option<(String, String)>,
    variables: Variables,
    flags: Vec<Setting>,
}

/// Never shown: there may be passwords in it, also of others.
#[derive(Clone, Default)]
struct Variables(Vec<(OsString, OsString)>);

impl fmt::Debug for Variables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} variables", self.0.len())
    }
}

/// How strongly something was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Environment,
    Flag,
}

impl Sources {
    /// None yet; for what these drivers know.
    pub fn new(drivers: &Drivers) -> Self {
        let keys = ["url"].into_iter().chain(Config::KEYS).chain(drivers.options());
        Self { keys: keys.map(str::to_owned).collect(), ..Self::default() }
    }

    /// The URL to use if nothing says where.
    #[must_use]
    pub fn fallback(mut self, url: impl Into<String>) -> Self {
        self.fallback = Some(url.into());
        self
    }

    /// The first of these files that is there is used, unless another one is chosen.
    #[must_use]
    pub fn usual_files(mut self, files: impl IntoIterator<Item = PathBuf>) -> Self {
        self.usual_files = files.into_iter().collect();
        self
    }

    /// Chooses a file, which has to be there; stronger than `TENURE_CONFIG`. The `origin` is for messages: `--config`.
    #[must_use]
    pub fn file(mut self, origin: impl Into<String>, file: impl Into<PathBuf>) -> Self {
        self.file = Some((origin.into(), file.into()));
        self
    }

    /// Uses what was read from a file already, in whichever format, instead of any other file.
    #[must_use]
    pub fn profiles(mut self, place: impl Into<String>, profiles: Profiles) -> Self {
        self.profiles = Some((place.into(), profiles));
        self
    }

    /// Chooses a profile of the file; stronger than `TENURE_PROFILE`. The `origin` is for messages: `--profile`.
    #[must_use]
    pub fn profile(mut self, origin: impl Into<String>, name: impl Into<String>) -> Self {
        self.profile = Some((origin.into(), name.into()));
        self
    }

    /// The variables of this process: `TENURE_URL`, `TENURE_TTL` and so on for every key, `TENURE_CONFIG` and `TENURE_PROFILE`.
    #[must_use]
    pub fn environment(self) -> Self {
        self.variables(std::env::vars_os())
    }

    /// These variables.
    #[must_use]
    pub fn variables<N, V>(mut self, variables: impl IntoIterator<Item = (N, V)>) -> Self
    where
        N: Into<OsString>,
        V: Into<OsString>,
    {
        self.variables = Variables(variables.into_iter().map(|(name, value)| (name.into(), value.into())).collect());
        self
    }

    /// What was written for this one call.
    #[must_use]
    pub fn flags(mut self, flags: impl IntoIterator<Item = Setting>) -> Self {
        self.flags.extend(flags);
        self
    }

    /// The variables that begin like settings, and are none.
    ///
    /// # Errors
    /// `Config` if one is nearly a setting.
    pub fn unknown_variables(&self) -> Result<Vec<String>> {
        Ok(Environment::of(&self.variables.0, &self.keys)?.unknown)
    }

    /// The configuration. Unknown variables are ignored, but logged.
    ///
    /// # Errors
    /// `Config`, saying what is wrong in which source: also if no source names a backend, or if a file or profile is chosen and something
    /// weaker names another place.
    pub fn find(mut self) -> Result<Config> {
        let Environment { settings, file, profile, unknown } = Environment::of(&self.variables.0, &self.keys)?;
        if !unknown.is_empty() {
            tracing::warn!(variables = ?unknown, "variables that are no settings are ignored");
        }
        let (environment, flags) = (Layer::new(settings)?, Layer::new(std::mem::take(&mut self.flags))?);
        let chosen = [
            self.file.as_ref().map(|(origin, _)| (Rank::Flag, origin.clone())),
            self.profile.as_ref().map(|(origin, _)| (Rank::Flag, origin.clone())),
            file.as_ref().map(|_| (Rank::Environment, variable("config"))),
            profile.as_ref().map(|_| (Rank::Environment, variable("profile"))),
        ];
        check_choice(chosen.into_iter().flatten(), &environment, &flags)?;
        self.file = self.file.take().or(file.map(|file| (variable("config"), file.into())));
        self.profile = self.profile.take().or(profile.map(|name| (variable("profile"), name)));
        let all = flags.over(environment).over(self.file_layer()?);
        self.complete(all)?.config()
    }

    fn file_layer(&mut self) -> Result<Layer> {
        if self.profiles.is_none() {
            self.profiles = self.read()?;
        }
        match (&self.profiles, &self.profile) {
            (Some((place, profiles)), profile) => {
                profiles.layer(place, profile.as_ref().map(|(_, name)| name.as_str()))
            }
            (None, None) => Ok(Layer::default()),
            (None, Some((origin, name))) => {
                let message = format!("there is no file that the profile '{name}' could be in: write a tenure.toml");
                Err(located(origin, refusal(message)))
            }
        }
    }

    #[cfg(feature = "toml")]
    fn read(&self) -> Result<Option<(String, Profiles)>> {
        if let Some((_, file)) = &self.file {
            let place = file.display().to_string();
            let missing = || located(&place, refusal("there is no such file"));
            return Ok(Some((place.clone(), Profiles::read(file)?.ok_or_else(missing)?)));
        }
        for file in &self.usual_files {
            if let Some(profiles) = Profiles::read(file)? {
                return Ok(Some((file.display().to_string(), profiles)));
            }
        }
        Ok(None)
    }

    #[cfg(not(feature = "toml"))]
    fn read(&self) -> Result<Option<(String, Profiles)>> {
        match self.file.as_ref().map(|(origin, _)| origin).or(self.profile.as_ref().map(|(origin, _)| origin)) {
            Some(origin) => {
                let message = "this program reads no files: build it with the feature 'toml' of tenure, or unset it";
                Err(located(origin, refusal(message)))
            }
            None => Ok(None),
        }
    }

    /// With the fallback, if nothing says where.
    fn complete(&self, all: Layer) -> Result<Layer> {
        if all.names_place().is_some() {
            return Ok(all);
        }
        let advice = "write backend = \"sqlite\", or url = \"sqlite:/path\", or TENURE_URL=sqlite:/path";
        match (all.half_a_place(), &self.fallback) {
            // Half of a place belongs to a backend that somebody meant: another one would be a surprise.
            (Some((key, origin)), _) => Err(located(origin, no_backend(&format!(" beside '{key}': {advice}")))),
            (None, Some(url)) => Ok(all.over(Layer::new([Setting::new("", "url", url)])?)),
            (None, None) => Err(no_backend(&format!(": {advice}"))),
        }
    }
}

fn no_backend(more: &str) -> Error {
    refusal(format!("there is no 'backend'{more}"))
}

/// A file or profile that somebody chose, and that something which is no stronger makes pointless: to follow either would lock at a place
/// where somebody does not expect it.
fn check_choice(chosen: impl Iterator<Item = (Rank, String)>, environment: &Layer, flags: &Layer) -> Result<()> {
    let place = flags.names_place().map(|origin| (Rank::Flag, origin));
    let place = place.or(environment.names_place().map(|origin| (Rank::Environment, origin)));
    let Some((rank, named)) = place else { return Ok(()) };
    match chosen.into_iter().find(|(choice, _)| *choice >= rank) {
        None => Ok(()),
        Some((_, origin)) => {
            Err(located(&origin, refusal(format!("{named} says where as well: leave one of them out"))))
        }
    }
}
