//! The files of a database: only its owner reads them, and the one beside it is a lock against a
//! second process and a mark of the place.

use std::fs::{self, File, OpenOptions, Permissions, TryLockError};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
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
        let path = beside(database, ".lock");
        let name = path.display().to_string();
        let failed = |source| Error::File { file: name.clone(), source };
        let mut file = private(&path).map_err(failed)?;
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

/// Makes the files of a database readable by their owner only; creates the database if requested.
/// SQLite gives the files that it creates beside it the same mode. It has not opened them yet: a
/// closed descriptor would end its locks.
pub(crate) fn make_private(database: &Path, create: bool) -> Result<(), Error> {
    let failed = |path: &Path, source| Error::File { file: path.display().to_string(), source };
    if create {
        private(database).map_err(|why| failed(database, why))?;
    }
    for suffix in ["", "-wal", "-shm", ".lock"] {
        let path = beside(database, suffix);
        let healed = match fs::metadata(&path) {
            Ok(it) if it.permissions().mode() & 0o077 != 0 => {
                fs::set_permissions(&path, Permissions::from_mode(0o600))
            }
            Ok(_) => Ok(()),
            Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(why) => Err(why),
        };
        healed.map_err(|why| failed(&path, why))?;
    }
    Ok(())
}

/// Opens a file for reading and writing; only its owner may, if this creates it.
fn private(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600).open(path)
}

fn beside(database: &Path, suffix: &str) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}
