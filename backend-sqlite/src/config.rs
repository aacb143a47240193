//! What a configuration says about the file, and where it is if nothing is said.

use std::{
    env,
    ffi::OsString,
    path::{Path, PathBuf},
    time::Duration,
};

use tenure_core::{Config, Result};

use crate::error::{config, refused};

/// What opening needs to know.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) path: PathBuf,
    /// The default path is private to its user; the directories of an explicit one get the usual rights.
    pub(crate) private: bool,
    pub(crate) namespace: String,
    pub(crate) connect_timeout: Duration,
}

impl Settings {
    /// Reads a configuration. The path is made absolute now: the process may change its directory later.
    pub(crate) fn of(from: &Config) -> Result<Self> {
        if let Some(host) = from.hosts.first() {
            return Err(config(format!(
                "sqlite has no host, but '{host}' stands where one would: write sqlite:/path/to/file or sqlite:///path/to/file"
            )));
        }
        let path = match &from.path {
            Some(path) if path.as_os_str().is_empty() => {
                return Err(config("the path is empty: write sqlite:/path/to/file"));
            }
            Some(path) => path.clone(),
            None => default_path(|name| env::var_os(name))?,
        };
        let path = std::path::absolute(&path).map_err(|error| refused("find", &path, error))?;
        let (namespace, connect_timeout) = (from.namespace.clone(), from.connect_timeout);
        Ok(Self { path, private: from.path.is_none(), namespace, connect_timeout })
    }
}

/// `$XDG_STATE_HOME/tenure/tenure.db`, else `~/.local/state/tenure/tenure.db`. As that convention demands, a relative one is ignored.
fn default_path(variable: impl Fn(&str) -> Option<OsString>) -> Result<PathBuf> {
    let absolute = |name| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = absolute("XDG_STATE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".local/state")));
    state.map(|state| state.join(Path::new("tenure/tenure.db"))).ok_or_else(|| {
        config("neither XDG_STATE_HOME nor HOME says where the database belongs: write sqlite:/path/to/file")
    })
}

#[cfg(test)]
mod tests {
    use tenure_core::ErrorKind;

    use super::*;

    #[test]
    fn the_default_is_in_the_state_folder() {
        let found = |pairs: &[(&str, &str)]| {
            default_path(|name| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| value.into()))
        };
        for (pairs, path) in [
            (&[("XDG_STATE_HOME", "/s"), ("HOME", "/h")][..], "/s/tenure/tenure.db"),
            (&[("HOME", "/h")], "/h/.local/state/tenure/tenure.db"),
            (&[("XDG_STATE_HOME", "not/absolute"), ("HOME", "/h")], "/h/.local/state/tenure/tenure.db"),
        ] {
            assert_eq!(found(pairs).expect("a path"), Path::new(path));
        }
        let error = found(&[("HOME", "")]).expect_err("nothing to go by");
        assert_eq!(error.kind(), ErrorKind::Config);
        assert!(error.to_string().contains("write sqlite:/path"), "{error}");
    }

    #[test]
    fn paths_become_absolute_and_hosts_are_refused() {
        let settings = |url: &str| Settings::of(&url.parse().expect("a URL"));
        let here = env::current_dir().expect("a directory");
        assert_eq!(settings("sqlite:x.db").expect("good").path, here.join("x.db"));
        let explicit = settings("sqlite:///v/x.db?namespace=shop").expect("good");
        assert_eq!(
            (explicit.path.as_path(), &*explicit.namespace, explicit.private),
            (Path::new("/v/x.db"), "shop", false)
        );
        let error = settings("sqlite://host/x").expect_err("a host");
        assert!(error.to_string().contains("write sqlite:/path/to/file or sqlite:///path"), "{error}");
        assert_eq!(settings("sqlite:?path=").expect_err("empty").kind(), ErrorKind::Config);
    }
}
