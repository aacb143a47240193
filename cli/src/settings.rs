//! Where the configuration comes from.

use std::{env, path::PathBuf};

use clap::Args;
use tenure::{Config, Error, ErrorKind, Result, Setting, Sources};

use crate::say;

const FILE: &str = "tenure.toml";

/// Which backend to use, and how. The same for all commands.
#[derive(Clone, Debug, Args)]
pub(crate) struct Where {
    /// The backend, such as sqlite:/var/lib/jobs.db?ttl=15s. All users of a host can read it here: a password is refused.
    #[arg(long, conflicts_with_all = ["config", "profile"])]
    pub(crate) url: Option<String>,

    /// The configuration file; else $TENURE_CONFIG, or the first of the usual ones.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// The profile in the configuration file, a table [profile.NAME]; else $TENURE_PROFILE, or none.
    #[arg(long, value_name = "NAME")]
    pub(crate) profile: Option<String>,

    /// One setting, such as ttl=30s or namespace=billing: stronger than what stands elsewhere. As often as needed.
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
}

impl Where {
    /// Finds the configuration: flags, then the environment, then a file; without any, the SQLite file of the user.
    ///
    /// # Errors
    /// `Config`, naming the place where it is wrong.
    pub(crate) fn find(&self) -> Result<Config> {
        let mut sources = Sources::new(&tenure::drivers()).environment().flags(self.flags()?).fallback("sqlite:");
        sources = sources.usual_files([Some(PathBuf::from(FILE)), user_file()].into_iter().flatten());
        if let Some(file) = &self.config {
            sources = sources.file("--config", file);
        }
        if let Some(name) = &self.profile {
            sources = sources.profile("--profile", name);
        }
        for variable in sources.unknown_variables()? {
            say(&format!("{variable} is no setting of tenure, and is ignored: see tenure lock --help"));
        }
        let config = sources.find()?;
        if config.backend == "memory" {
            let message = "memory:// excludes nobody but this process, which has only one command to run: write sqlite:/path/to/file";
            return Err(Error::new(ErrorKind::Config, message));
        }
        Ok(config)
    }

    fn flags(&self) -> Result<Vec<Setting>> {
        let mut flags = self.set.iter().map(|text| setting(text)).collect::<Result<Vec<_>>>()?;
        if let Some(url) = &self.url {
            if url.parse::<Config>().is_ok_and(|config| config.password.is_some()) {
                return Err(readable("--url"));
            }
            flags.push(Setting::new("--url", "url", url));
        }
        Ok(flags)
    }
}

/// `--set`: no secret, and no second way to write another option. No message repeats the value: it may be one all the same.
fn setting(text: &str) -> Result<Setting> {
    let refuse = |message: String| Err(Error::new(ErrorKind::Config, message));
    match text.split_once('=') {
        Some(("password", _)) => Err(readable("--set password")),
        Some((key @ ("url" | "profile" | "config"), _)) => refuse(format!("--set has no {key}: write --{key}")),
        Some((key, value)) if !key.is_empty() => Ok(Setting::new("--set", key, value)),
        _ => refuse("--set has no key and value: write it like --set ttl=30s".to_owned()),
    }
}

fn readable(place: &str) -> Error {
    let message = format!(
        "{place}: all users of this host can read a password there: write password_file, or set TENURE_PASSWORD"
    );
    Error::new(ErrorKind::Config, message)
}

fn user_file() -> Option<PathBuf> {
    let set = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let folder = set("XDG_CONFIG_HOME").filter(|folder| folder.is_absolute());
    Some(folder.or_else(|| Some(set("HOME")?.join(".config")))?.join("tenure").join(FILE))
}
