//! The lock of a node: held from the first moment to the last.
//!
//! It is a record lock, so that a supervisor can ask the kernel who holds it.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;
use thiserror::Error;

#[derive(Debug, Error)]
pub enum Error {
    #[error("\"{}\" is held by another process", path.display())]
    Held { path: PathBuf },
    #[error("\"{}\" was removed or replaced", path.display())]
    Gone { path: PathBuf },
    #[error("failed to open \"{}\"", path.display())]
    Disk {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

/// A lock that is held until the process ends.
#[derive(Debug)]
pub struct Lock {
    path: PathBuf,
    file: File,
}

impl Lock {
    pub fn take(path: &Path) -> Result<Self, Error> {
        let path = path.to_owned();
        let disk = |source| Error::Disk { path: path.clone(), source };
        let mut open = OpenOptions::new();
        let file = open.write(true).create(true).truncate(false).open(&path).map_err(disk)?;
        let short = |constant| libc::c_short::try_from(constant).unwrap_or_default();
        let whole = libc::flock {
            l_type: short(libc::F_WRLCK),
            l_whence: short(libc::SEEK_SET),
            l_start: 0,
            l_len: 0,
            l_pid: 0,
        };
        match fcntl(&file, FcntlArg::F_SETLK(&whole)) {
            Ok(_) => {}
            Err(nix::Error::EAGAIN | nix::Error::EACCES) => return Err(Error::Held { path }),
            Err(why) => return Err(Error::Disk { path, source: why.into() }),
        }
        let lock = Self { path, file };
        // The file may have been removed between opening and locking it.
        lock.check()?;
        Ok(lock)
    }

    /// Whether the path still leads to the locked file.
    pub fn check(&self) -> Result<(), Error> {
        let disk = |source| Error::Disk { path: self.path.clone(), source };
        let held = self.file.metadata().map_err(disk)?;
        match fs::metadata(&self.path) {
            Ok(found) if (found.dev(), found.ino()) == (held.dev(), held.ino()) => Ok(()),
            Ok(_) => Err(Error::Gone { path: self.path.clone() }),
            Err(why) if why.kind() == io::ErrorKind::NotFound => {
                Err(Error::Gone { path: self.path.clone() })
            }
            Err(why) => Err(disk(why)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_file_that_was_removed_is_noticed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let lock = Lock::take(&path).unwrap();
        lock.check().unwrap();
        fs::remove_file(&path).unwrap();
        assert!(matches!(lock.check(), Err(Error::Gone { .. })));
        fs::write(&path, "").unwrap();
        assert!(matches!(lock.check(), Err(Error::Gone { .. })), "another file has its name");
    }

    #[test]
    fn a_lock_needs_its_directory() {
        let dir = tempfile::tempdir().unwrap();
        let taken = Lock::take(&dir.path().join("nowhere/lock"));
        assert!(matches!(taken, Err(Error::Disk { .. })));
    }
}
