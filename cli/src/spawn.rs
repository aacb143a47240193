//! Starts the command: in a process group of its own, with everything else as it was for `tenure`.

use std::{
    ffi::{OsStr, OsString},
    io,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::Command,
};

use rustix::{io::Errno, process::Pid};

/// Why a command cannot be run, with the exit code that shells use for it.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: u8,
    pub(crate) why: String,
}

/// Starts it; it is buried by whoever waits for any child.
pub(crate) fn spawn(command: &[OsString]) -> Result<Pid, Failure> {
    let Some((program, arguments)) = command.split_first() else {
        return Err(Failure { code: 127, why: "no command was given".to_owned() });
    };
    let no_format = |error: &io::Error| error.raw_os_error() == Some(Errno::NOEXEC.raw_os_error());
    let spawned = match start(Command::new(program).args(arguments)) {
        // As execvp(3) does: a script without a first line that names its interpreter is for the shell.
        Err(error) if no_format(&error) => start(Command::new("/bin/sh").arg(whereabouts(program)).args(arguments)),
        spawned => spawned,
    };
    spawned.map_err(|error| {
        let name = program.to_string_lossy();
        match error.kind() {
            io::ErrorKind::NotFound => Failure { code: 127, why: format!("'{name}' was not found") },
            _ => Failure { code: 126, why: format!("'{name}' cannot be run: {error}") },
        }
    })
}

fn start(command: &mut Command) -> io::Result<Pid> {
    let child = command.process_group(0).spawn()?;
    Ok(Pid::from_child(&child))
}

fn whereabouts(program: &OsStr) -> PathBuf {
    let as_given = Path::new(program).to_path_buf();
    if as_given.components().count() > 1 {
        return as_given;
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.is_file());
    found.unwrap_or(as_given)
}
