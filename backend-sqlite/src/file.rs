//! Checks on the file and the file system under it, before SQLite touches them and while it uses them.

use std::{
    fs::{self, DirBuilder, Metadata},
    io,
    os::unix::fs::{DirBuilderExt, MetadataExt},
    path::{Path, PathBuf},
};

use rustix::fs::{Access, AtFlags, CWD, FileType, Mode, accessat, mknodat, statfs};
use tenure_core::{Error, ErrorKind, LossReason, Result};

use crate::error::{config, refused};

/// The very file that was opened. SQLite goes on with a file that was removed or replaced under it, while newcomers use the new one: two
/// holders. So whoever relies on the file asks first whether it is still this one.
#[derive(Clone, Debug)]
pub(crate) struct DatabaseFile {
    path: PathBuf,
    device: u64,
    inode: u64,
}

impl DatabaseFile {
    /// Makes the file if there is none, and checks that it and its place are fit for use.
    ///
    /// It is never opened here: to close it would drop the locks that SQLite holds on it elsewhere in this process.
    pub(crate) fn prepare(path: &Path, private: bool) -> Result<Self> {
        let directory = path.parent().unwrap_or(Path::new("/"));
        let mode = if private { 0o700 } else { 0o777 };
        let made = DirBuilder::new().recursive(true).mode(mode).create(directory);
        made.map_err(|error| refused("make the directory", directory, error))?;
        check_file_system(directory)?;
        match mknodat(CWD, path, FileType::RegularFile, Mode::from_raw_mode(0o644), 0) {
            Ok(()) | Err(rustix::io::Errno::EXIST) => {}
            Err(error) => return Err(refused("make", path, error.into())),
        }
        // A link may lead elsewhere, and SQLite makes two more files beside the one that it leads to.
        let real = fs::canonicalize(path).map_err(|error| refused("find", path, error))?;
        let found = fs::metadata(&real).map_err(|error| refused("look at", path, error))?;
        if !found.is_file() {
            let path = path.display();
            return Err(config(format!(
                "{path} is no file: write the path of one, such as sqlite:/var/lib/tenure/tenure.db"
            )));
        }
        check_file_system(&real)?;
        check_rights(path, &found)?;
        let beside = real.parent().unwrap_or(directory);
        accessat(CWD, beside, Access::WRITE_OK | Access::EXEC_OK, AtFlags::EACCESS)
            .map_err(|error| refused("write into the directory", beside, error.into()))?;
        Ok(Self { path: path.to_owned(), device: found.dev(), inode: found.ino() })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the path still leads to the file that was opened.
    pub(crate) fn is_in_place(&self) -> bool {
        fs::metadata(&self.path).is_ok_and(|now| (now.dev(), now.ino()) == (self.device, self.inode))
    }

    /// As [`DatabaseFile::is_in_place`].
    ///
    /// # Errors
    /// `SessionLost` if not: what others see is no longer what we see.
    pub(crate) fn check(&self) -> Result<()> {
        if self.is_in_place() {
            return Ok(());
        }
        let message = format!("{} was removed or replaced while in use: its sessions are over", self.path.display());
        Err(Error::new(ErrorKind::SessionLost, message).with_loss(LossReason::DataReplaced))
    }
}

fn check_rights(path: &Path, found: &Metadata) -> Result<()> {
    let Err(error) = accessat(CWD, path, Access::READ_OK | Access::WRITE_OK, AtFlags::EACCESS) else { return Ok(()) };
    let (owner, me) = (found.uid(), rustix::process::geteuid().as_raw());
    let path = path.display();
    let message = if error != rustix::io::Errno::ROFS && owner != me {
        format!(
            "{path} belongs to user {owner}, and user {me} may not write to it: run as user {owner}, or write another path"
        )
    } else {
        format!("{path} may not be read and written: make it and its file system writable, or write another path")
    };
    Err(Error::new(ErrorKind::Denied, message).with_source(io::Error::from(error)))
}

fn check_file_system(place: &Path) -> Result<()> {
    let kind = statfs(place).map_err(|error| refused("look at the file system of", place, error.into()))?.f_type;
    let kind = kind as u64 & 0xffff_ffff; // the type of the number differs between architectures, and so does its sign
    let mounted_as = || mount_type(place).unwrap_or_default();
    let Some(name) = network_file_system(kind, mounted_as) else { return Ok(()) };
    Err(config(format!(
        "{} is on a network file system ({name}), whose locks cannot be relied on: write the path of a file on a local disk",
        place.display()
    )))
}

const FUSE: u64 = 0x6573_5546;

/// The name of a file system that several hosts may share. One in user space may be anything, unless the kernel knows that it is on a
/// block device.
fn network_file_system(kind: u64, mounted_as: impl FnOnce() -> String) -> Option<&'static str> {
    const NETWORK: [(u64, &str); 13] = [
        (0x6969, "NFS"),
        (0x517b, "SMB"),
        (0xfe53_4d42, "SMB"),
        (0xff53_4d42, "CIFS"),
        (0x5346_414f, "AFS"),
        (0x6b41_4653, "AFS"),
        (0x00c3_6400, "Ceph"),
        (0x0102_1997, "9P"),
        (0x0bd0_0bd0, "Lustre"),
        (0x0116_1970, "GFS2"),
        (0x7461_636f, "OCFS2"),
        (0x4750_4653, "GPFS"),
        (0x7375_7245, "Coda"),
    ];
    if kind == FUSE {
        return (mounted_as() != "fuseblk").then_some("FUSE");
    }
    NETWORK.iter().find(|(magic, _)| *magic == kind).map(|(_, name)| *name)
}

fn mount_type(place: &Path) -> Option<String> {
    let device = fs::metadata(place).ok()?.dev();
    let numbers = format!("{}:{}", rustix::fs::major(device), rustix::fs::minor(device));
    type_in_mounts(&fs::read_to_string("/proc/self/mountinfo").ok()?, &numbers)
}

/// `36 35 98:0 /root /mnt rw,noatime shared:1 - ext4 /dev/root rw`: the device is the third field, the type follows the dash.
fn type_in_mounts(mounts: &str, device: &str) -> Option<String> {
    let line = mounts.lines().find(|line| line.split(' ').nth(2) == Some(device))?;
    line.split_once(" - ")?.1.split(' ').next().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn network_file_systems_are_told_from_local_ones() {
        let local = || panic!("only FUSE needs to ask");
        for (kind, name) in [(0x6969, "NFS"), (0xff53_4d42, "CIFS"), (0x0102_1997, "9P"), (0x00c3_6400, "Ceph")] {
            assert_eq!(network_file_system(kind, local), Some(name));
        }
        let [ext4, xfs, btrfs, tmpfs] = [0xef53, 0x5846_5342, 0x9123_683e, 0x0102_1994];
        assert!([ext4, xfs, btrfs, tmpfs].into_iter().all(|kind| network_file_system(kind, local).is_none()));
        assert_eq!(network_file_system(FUSE, || "fuse.sshfs".to_owned()), Some("FUSE"));
        assert_eq!(network_file_system(FUSE, String::new), Some("FUSE"));
        assert_eq!(network_file_system(FUSE, || "fuseblk".to_owned()), None);
    }

    #[test]
    fn the_mount_table_is_read() {
        let mounts = "36 35 98:0 /a /mnt rw shared:1 master:2 - fuse.sshfs me@host rw\n40 35 8:1 / /ntfs rw - fuseblk /dev/sda1 rw\n";
        assert_eq!(type_in_mounts(mounts, "98:0").as_deref(), Some("fuse.sshfs"));
        assert_eq!(type_in_mounts(mounts, "8:1").as_deref(), Some("fuseblk"));
        assert_eq!(type_in_mounts(mounts, "8:2"), None);
    }
}
