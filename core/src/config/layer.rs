//! What one source says, and which of two counts.

use std::collections::BTreeMap;

use super::{Config, Origin, Secret, Setting, located, refusal, url};
use crate::error::Result;

/// What does not depend on the place: a source that names another backend does not take these away. `require` above all, or the wish for
/// a strong backend would be lost where it is needed.
const OF_ANY_PLACE: [&str; 3] = ["ttl", "connect_timeout", "require"];

/// The settings of one source, as texts. A URL counts as the settings that are in it.
#[derive(Clone, Debug, Default)]
pub(super) struct Layer(BTreeMap<String, Said>);

#[derive(Clone, Debug)]
struct Said {
    text: Secret,
    origin: String,
}

impl Layer {
    /// Refuses what is written twice, also if once in a URL and once beside it.
    pub(super) fn new(settings: impl IntoIterator<Item = Setting>) -> Result<Self> {
        let mut layer = Self::default();
        let (urls, others): (Vec<_>, Vec<_>) = settings.into_iter().partition(|setting| setting.key == "url");
        for Setting { origin, text, .. } in urls {
            for (key, text) in url::settings(text.expose()).map_err(|error| located(&origin, error))? {
                layer.add(Setting::new(&origin, key, text))?;
            }
        }
        for setting in others {
            layer.add(setting)?;
        }
        Ok(layer)
    }

    fn add(&mut self, Setting { origin, key, text }: Setting) -> Result<()> {
        if let Some(said) = self.0.get(&key) {
            let again = if said.origin == origin { "twice" } else { &format!("in {} as well", said.origin) };
            return Err(located(&origin, refusal(format!("'{key}' is written {again}: leave one out"))));
        }
        self.0.insert(key, Said { text, origin });
        Ok(())
    }

    /// Where it names the backend, if it does: then it says the whole place.
    pub(super) fn names_place(&self) -> Option<&str> {
        self.0.get("backend").map(|said| said.origin.as_str())
    }

    /// A setting that says where or who, without saying on which backend; and where that is written.
    pub(super) fn half_a_place(&self) -> Option<(&str, &str)> {
        let mut of_place = self.0.iter().filter(|(key, _)| !OF_ANY_PLACE.contains(&key.as_str()));
        of_place.next().filter(|_| self.names_place().is_none()).map(|(key, said)| (key.as_str(), said.origin.as_str()))
    }

    /// This one, and what the weaker one says beside it.
    #[must_use]
    pub(super) fn over(mut self, weaker: Self) -> Self {
        let elsewhere = self.names_place().is_some();
        let has_password = ["password", "password_file"].iter().any(|key| self.0.contains_key(*key));
        for (key, said) in weaker.0 {
            let of_that_place = !OF_ANY_PLACE.contains(&key.as_str());
            if (elsewhere && of_that_place) || (has_password && key.starts_with("password")) {
                continue;
            }
            self.0.entry(key).or_insert(said);
        }
        self
    }

    /// The configuration, or what is wrong and where.
    pub(super) fn config(&self) -> Result<Config> {
        let mut config = Config::new("");
        for (key, Said { text, origin }) in &self.0 {
            config.set(key, text.expose()).map_err(|error| located(origin, error))?;
            config.given.insert(key.clone(), Origin(origin.clone()));
        }
        Ok(config)
    }
}
