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

/// A file whose content is replaced as a whole, behind a fence. A symbolic link is replaced, not followed.
///
/// Three names beside it belong to the fence, and must be nobody else's: `NAME.fence` is the mark and `NAME.lock` is what is locked, both of
/// which must stay there for as long as the resource exists; `NAME.fence.new` is written and then renamed. What a killed process has left
/// under that name is harmless: the next one writes it anew. So names that end with `.fence`, `.fence.new` or `.lock` are refused for resources.
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
        Ok(self.replace(&self.path, content)?)
    }

    /// Locked until the file is dropped. The mark is raised before the content is touched: after a crash between the two, the fence
    /// stands too high, which refuses only holders that are over.
    fn pass(&self, token: FencingToken) -> Result<File, Refusal<io::Error>> {
        self.check_name()?;
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
            _ => self.replace(&mark, format!("{token}\n").as_bytes())?,
        }
        Ok(lock)
    }

    fn beside(&self, ending: &str) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(".");
        name.push(ending);
        name.into()
    }

    /// Under the lock: nobody else uses the same temporary name.
    fn replace(&self, path: &Path, content: &[u8]) -> io::Result<()> {
        let new = self.beside("fence.new");
        // What a killed process has left may be read-only.
        match fs::remove_file(&new) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = File::create_new(&new)?;
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

    /// Or the fence of one resource would overwrite another one.
    fn check_name(&self) -> io::Result<()> {
        let name = self.path.as_os_str().as_encoded_bytes();
        if [&b".fence"[..], b".fence.new", b".lock"].iter().any(|ending| name.ends_with(ending)) {
            let what = format!("'{}' is a name that fences use for themselves: take another one", self.path.display());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        }
        Ok(())
    }
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

    #[test]
    fn nobody_elses_file_is_touched() {
        let folder = tempfile::tempdir().expect("a folder");
        let sibling = FencedFile::new(folder.path().join("x.new"));
        sibling.write(FencingToken::new(3), b"sibling").expect("the first");
        FencedFile::new(folder.path().join("x")).write(FencingToken::new(9), b"x").expect("the first");
        assert_eq!(sibling.read(FencingToken::new(3)).expect("the same").expect("it is there"), b"sibling");
        for taken in ["x.fence", "x.fence.new", "x.lock"] {
            let Err(Refusal::Failed(error)) = FencedFile::new(folder.path().join(taken)).read(FencingToken::new(9))
            else {
                panic!("'{taken}' belongs to the fence of 'x'");
            };
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{error}");
        }
    }

    /// As it is found after a kill at each step of a write.
    #[test]
    fn a_kill_in_the_midst_of_a_write_loses_no_content_and_no_mark() {
        for (mark, left) in
            [("7\n", "8"), ("7\n", "8\n"), ("8\n", ""), ("8\n", "cut sho"), ("8\n", "cut short no longer")]
        {
            let folder = tempfile::tempdir().expect("a folder");
            let path = |name: &str| folder.path().join(name);
            let file = FencedFile::new(path("x"));
            file.write(FencingToken::new(7), b"old").expect("the first");
            fs::write(path("x.fence"), mark).expect("raised or not");
            fs::write(path("x.fence.new"), left).expect("left behind");
            assert_eq!(file.read(FencingToken::new(8)).expect("not too old").expect("it is there"), b"old");
            assert!(matches!(file.write(FencingToken::new(7), b"late"), Err(Refusal::Fenced(_))), "{mark} {left}");
            file.write(FencingToken::new(8), b"new").expect("the newest");
            assert_eq!(file.read(FencingToken::new(8)).expect("not too old").expect("it is there"), b"new");
            assert!(!path("x.fence.new").exists());
        }
    }

    #[test]
    fn what_was_left_behind_is_replaced_and_not_written_into() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        fs::write(path("other"), "other").expect("a file");
        fs::hard_link(path("other"), path("x.fence.new")).expect("left behind");
        FencedFile::new(path("x")).write(FencingToken::new(7), b"x").expect("the first");
        assert_eq!(fs::read(path("other")).expect("it is there"), b"other");
    }
}
