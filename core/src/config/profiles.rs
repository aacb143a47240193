//! Several configurations in one file.

use std::fmt;

use serde::Deserialize;

use super::{
    layer::Layer,
    located, refusal, table,
    table::{Table, Unique},
};
use crate::error::Result;

/// What a `tenure.toml` holds: settings for everybody, and profiles that say what is different in them. Read from any serde format.
///
/// ```
/// use tenure_core::{Drivers, MemoryDriver, Profiles, Sources};
///
/// let profiles: Profiles = toml::from_str(r#"
///     backend = "memory"
///     hosts = ["shop"]
///     ttl = "20s"
///
///     [profile.test]
///     namespace = "test"
/// "#)?;
/// let drivers = Drivers::new().with(MemoryDriver);
/// let config = Sources::new(&drivers).profiles("tenure.toml", profiles).profile("--profile", "test").find()?;
/// assert_eq!(config, "memory://shop/test?ttl=20s".parse()?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Default, Deserialize)]
pub struct Profiles {
    #[serde(default)]
    profile: Unique<Table>,
    #[serde(flatten)]
    common: Table,
}

/// Only names: there may be passwords in it.
impl fmt::Debug for Profiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Profiles").field("profile", &self.profile.0.keys()).finish_non_exhaustive()
    }
}

impl Profiles {
    /// What the file at this place says to those of this profile.
    pub(super) fn layer(&self, place: &str, profile: Option<&str>) -> Result<Layer> {
        let common = table::layer(place, &self.common)?;
        let Some(name) = profile else { return Ok(common) };
        let Some(table) = self.profile.0.get(name) else {
            let names = self.profile.0.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
            let advice = if names.is_empty() {
                format!("there are none, write a table [profile.{name}]")
            } else {
                format!("write one of {names}")
            };
            return Err(located(place, refusal(format!("there is no profile '{name}': {advice}"))));
        };
        Ok(table::layer(&format!("{place}, profile {name}"), table)?.over(common))
    }

    /// Reads a file in TOML; `None` if there is no such file.
    ///
    /// # Errors
    /// `Config`, with the place: it cannot be read, or is no TOML.
    #[cfg(feature = "toml")]
    pub fn read(file: &std::path::Path) -> Result<Option<Self>> {
        use std::io::ErrorKind::{NotADirectory, NotFound};
        let place = file.display().to_string();
        let text = match std::fs::read_to_string(file) {
            Ok(text) => text,
            Err(error) if matches!(error.kind(), NotFound | NotADirectory) => return Ok(None),
            Err(error) => return Err(located(&place, refusal("it cannot be read").with_source(error))),
        };
        // Not the whole error: it would show the line, and with it perhaps a password.
        toml::from_str(&text).map(Some).map_err(|error| {
            let line = error.span().map(|span| text[..span.start.min(text.len())].lines().count().max(1));
            let place = line.map_or(place.clone(), |line| format!("{place}, line {line}"));
            located(&place, refusal(error.message()))
        })
    }
}
