//! A file on a local disk.
//!
//! Every access looks at the token under an exclusive `flock`, and a higher one is on the disk before anything is read or written with
//! it. The limits: it protects against those who use [`FencedFile`], on file systems with `flock` (not every network file system); and each
//! call blocks, so in async code it belongs into `spawn_blocking`.

use std::{
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
};

use tenure_core::FencingToken;

use crate::{Fenced, Refusal};

/// A file whose content is replaced as a whole, behind a fence. The mark is in a file of its own beside it, `NAME.fence`, and what is locked
/// is `NAME.lock`: both must stay there for as long as the resource exists. A symbolic link is replaced, not followed.
#[derive(Clone, Debug)]
pub struct FencedFile {
    path: PathBuf,
}

impl FencedFile {
    /// The file at this path; it need not exist.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// The content, or `None` if there is no file. Raises the fence: older holders are refused from then on.
    ///
    /// # Errors
    /// `Fenced` if a newer holder has been there; otherwise what the operating system says.
    pub fn read(&self, token: FencingToken) -> Result<Option<Vec<u8>>, Refusal<io::Error>> {
        let _locked = self.pass(token)?;
        match fs::read(&self.path) {
            Ok(content) => Ok(Some(content)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Replaces the content, as a whole, and returns once it is on the disk. Raises the fence.
    ///
    /// # Errors
    /// `Fenced` if a newer holder has been there, and then nothing was written; otherwise what the operating system says: the content is the
    /// old or the new one then.
    pub fn write(&self, token: FencingToken, content: &[u8]) -> Result<(), Refusal<io::Error>> {
        let _locked = self.pass(token)?;
        Ok(replace(&self.path, content)?)
    }

    /// Locked until the file is dropped. The mark is raised before the content is touched: after a crash between the two, the fence
    /// stands too high, which refuses only holders that are over.
    fn pass(&self, token: FencingToken) -> Result<File, Refusal<io::Error>> {
        // The mark itself is replaced by renaming, so the lock is on a third file, which stays.
        let lock = File::options().create(true).truncate(false).write(true).open(self.beside("lock"))?;
        lock.lock()?;
        let mark = self.beside("fence");
        let highest = match fs::read_to_string(&mark) {
            Ok(text) => Some(text.trim_end().parse().map_err(io::Error::other)?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error.into()),
        };
        match highest {
            Some(winner) if winner > token => {
                let resource = self.path.display().to_string();
                return Err(Refusal::Fenced(Fenced { resource, token, winner }));
            }
            Some(same) if same == token => {}
            _ => replace(&mark, format!("{token}\n").as_bytes())?,
        }
        Ok(lock)
    }

    fn beside(&self, ending: &str) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(".");
        name.push(ending);
        name.into()
    }
}

/// Under the lock: nobody else uses the same temporary name.
fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut name = path.to_owned().into_os_string();
    name.push(".new");
    let new = PathBuf::from(name);
    let mut file = File::create(&new)?;
    if let Ok(old) = fs::metadata(path) {
        file.set_permissions(old.permissions())?;
    }
    file.write_all(content)?;
    file.sync_all()?;
    fs::rename(&new, path)?;
    // The new name counts only once the folder is on the disk as well.
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_that_cannot_be_read_lets_nobody_pass() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = FencedFile::new(folder.path().join("data"));
        file.write(FencingToken::new(5), b"x").expect("the first");
        fs::write(folder.path().join("data.fence"), "").expect("spoilt");
        let error = file.read(FencingToken::new(9)).expect_err("who was here last?");
        assert!(matches!(error, Refusal::Failed(_)), "{error}");
        assert_eq!(fs::read(folder.path().join("data")).expect("it is there"), b"x");
    }
}
