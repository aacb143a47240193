//! What an entry says about who made it: for people who ask "who holds this?".

use std::time::SystemTime;

use serde::{Deserialize, Serialize};

/// Who made an entry, as JSON in its value. For people only: nothing is decided by it, and its times are wall-clock times.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Holder {
    /// The name of the host.
    pub host: String,
    /// The process.
    pub pid: u32,
    /// The program, or the command that runs under the lock.
    pub program: String,
    /// When the entry was made, as RFC 3339.
    pub since: String,
    /// The version of Tenure that made it.
    pub version: String,
}

impl Holder {
    /// This process, now.
    pub fn this_process(program: Option<&str>) -> Self {
        let own_name = || {
            let path = std::path::PathBuf::from(std::env::args_os().next()?);
            Some(path.file_name()?.to_string_lossy().into_owned())
        };
        Self {
            host: host_name(),
            pid: std::process::id(),
            program: program.map(str::to_owned).or_else(own_name).unwrap_or_default(),
            since: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }

    /// The value to store; a long program name is cut, so that it always fits.
    pub(crate) fn to_value(&self) -> Vec<u8> {
        serde_json::to_vec(&self.clone().short()).unwrap_or_default()
    }

    /// With a program name that is not too long to be stored.
    pub(crate) fn short(self) -> Self {
        let program = self.program.chars().take(1000).collect();
        Self { program, ..self }
    }
}

#[cfg(target_os = "linux")]
fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

#[cfg(not(target_os = "linux"))]
fn host_name() -> String {
    std::env::var("HOSTNAME").unwrap_or_default()
}
