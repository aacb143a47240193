//! Where the configuration comes from.

use std::{
    env, fs, io,
    path::{Path, PathBuf},
};

use tenure::{Config, Error, ErrorKind, Result};

use crate::args::Lock;

const FILE: &str = "tenure.toml";

/// Finds the configuration: `--url`, `TENURE_URL`, `--config`, `./tenure.toml`, the user's `tenure.toml`, or the default.
///
/// # Errors
/// `Config`, naming the place where it is wrong.
pub(crate) fn find(lock: &Lock) -> Result<Config> {
    let config = look(lock)?;
    if config.backend == "memory" {
        let message =
            "memory:// excludes nobody but this process, which has only one command to run: write sqlite:/path/to/file";
        return Err(Error::new(ErrorKind::Config, message));
    }
    Ok(config)
}

fn look(lock: &Lock) -> Result<Config> {
    if let Some(url) = &lock.url {
        return url.parse().map_err(|error: Error| located("--url", &error.report()));
    }
    match (env::var_os("TENURE_URL").filter(|url| !url.is_empty()), &lock.config) {
        // To follow either would lock at a place where somebody does not expect it.
        (Some(_), Some(_)) => Err(located("--config", "TENURE_URL is set as well: unset it, or leave --config out")),
        (Some(url), None) => {
            let url =
                url.into_string().map_err(|_| located("TENURE_URL", "it is not UTF-8: write other bytes as %XX"))?;
            url.parse().map_err(|error: Error| located("TENURE_URL", &error.report()))
        }
        (None, Some(file)) => read(file)?.ok_or_else(|| located(&file.display().to_string(), "there is no such file")),
        (None, None) => in_usual_places(),
    }
}

fn in_usual_places() -> Result<Config> {
    for file in [Some(PathBuf::from(FILE)), user_file()].into_iter().flatten() {
        if let Some(config) = read(&file)? {
            return Ok(config);
        }
    }
    "sqlite:".parse()
}

fn user_file() -> Option<PathBuf> {
    let set = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let folder = set("XDG_CONFIG_HOME").filter(|folder| folder.is_absolute());
    Some(folder.or_else(|| Some(set("HOME")?.join(".config")))?.join("tenure").join(FILE))
}

fn read(file: &Path) -> Result<Option<Config>> {
    let place = file.display().to_string();
    let text = match fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        Err(error) => return Err(located(&place, &format!("it cannot be read: {error}"))),
    };
    // Not the whole error: it would show the line, and with it perhaps a password.
    toml::from_str(&text).map(Some).map_err(|error: toml::de::Error| {
        let line = error.span().map(|span| text[..span.start.min(text.len())].lines().count().max(1));
        let place = line.map_or(place.clone(), |line| format!("{place}, line {line}"));
        located(&place, error.message())
    })
}

fn located(place: &str, what: &str) -> Error {
    Error::new(ErrorKind::Config, format!("{place}: {what}"))
}
