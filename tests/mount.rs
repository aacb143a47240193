//! Small file systems.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// A file system in memory, until dropped.
#[derive(Debug)]
pub struct Mount(PathBuf);

impl Mount {
    /// Mounts one, with options as of mount(8).
    ///
    /// # Panics
    /// If it may not.
    pub fn new(at: &Path, options: &str) -> Self {
        assert!(rustix::process::geteuid().is_root(), "this test mounts a tmpfs: run it as root");
        fs::create_dir_all(at).expect("made");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(at).status();
        assert!(mounted.expect("mount runs").success(), "root cannot mount a tmpfs here: allow it (CAP_SYS_ADMIN)");
        Self(at.to_owned())
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Changes its options.
    ///
    /// # Panics
    /// If they cannot be changed.
    pub fn remount(&self, options: &str) {
        let remounted = Command::new("mount").args(["-o", &format!("remount,{options}")]).arg(&self.0).status();
        assert!(remounted.expect("mount runs").success());
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}
