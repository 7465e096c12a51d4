//! The file beside the database: a lock against a second process, and a mark of the place.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};

use uuid::Uuid;

use crate::error::Error;

/// The lock; it ends with the value, or with the process.
#[derive(Debug)]
pub(crate) struct Lock {
    file: File,
    identifier: String,
}

impl Lock {
    /// Takes the lock of a database; an error if another process has it.
    ///
    /// The mark inside stays where it is when the database is copied elsewhere: that is how a copy
    /// is distinguished from the original.
    pub(crate) fn take(database: &Path) -> Result<Self, Error> {
        let path = lock_path(database);
        let name = path.display().to_string();
        let failed = |source| Error::File { file: name.clone(), source };
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let mut file = options.open(&path).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(Error::InUse { file: name }),
            Err(TryLockError::Error(source)) => return Err(failed(source)),
        }
        let mut identifier = String::new();
        file.read_to_string(&mut identifier).map_err(failed)?;
        if identifier.is_empty() {
            identifier = Uuid::now_v7().to_string();
            file.rewind().map_err(failed)?;
            file.write_all(identifier.as_bytes()).map_err(failed)?;
            file.sync_all().map_err(failed)?;
        }
        Ok(Self { file, identifier })
    }

    /// The mark of the place.
    pub(crate) fn identifier(&self) -> &str {
        &self.identifier
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // A child of this process that has not begun its own program yet has the file open too, and
        // would keep the lock. A lock that cannot be released ends with the file.
        let _ = self.file.unlock();
    }
}

fn lock_path(database: &Path) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push(".lock");
    PathBuf::from(name)
}
