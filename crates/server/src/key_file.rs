//! The key file: one key per line, 64 hexadecimal digits. It is replaced as a whole, and a key is
//! durable before the database names it.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use ring::rand::{SecureRandom as _, SystemRandom};
use rustix::fs::{FlockOperation, flock};
use thiserror::Error;
use usher_domain::object::key::ServerKey;
use usher_hosts::supervisor::{ignore_missing, write_private};
use uuid::Uuid;

use super::place::Unminted;

/// Where the keys are.
#[derive(Clone, Debug)]
pub struct KeyFile {
    path: PathBuf,
    /// Whether it is in the data directory, and not mounted by an operator.
    own: bool,
}

/// Why a key file cannot be used; no secret.
#[derive(Debug, Error)]
pub enum FileError {
    #[error("it does not exist")]
    Missing,
    #[error("it has no key")]
    Empty,
    #[error("line {line} is not a key of 64 hexadecimal digits")]
    Malformed { line: usize },
    #[error("its mode {mode:04o} lets other users read it: `chmod 600` it")]
    Readable { mode: u32 },
    #[error("it cannot be read: {0}")]
    Unreadable(io::Error),
    #[error("it cannot be written: {0}")]
    Unwritable(io::Error),
    #[error("another process changes it")]
    Locked,
    #[error(transparent)]
    Unminted(#[from] Unminted),
}

/// Held while the file is changed and the change is recorded; released by its drop.
#[derive(Debug)]
pub struct FileLock(#[expect(dead_code, reason = "the lock ends with the descriptor")] File);

impl KeyFile {
    /// The file of the setting, or the one of the data directory.
    pub fn new(setting: &str, data_dir: &Path) -> Self {
        let own = setting.is_empty();
        let path = if own { data_dir.join("server.key") } else { PathBuf::from(setting) };
        Self { path, own }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Every key, in the order of the lines.
    pub fn read(&self) -> Result<Vec<ServerKey>, FileError> {
        let keys = self.lines()?;
        let mode = fs::metadata(&self.path).map_err(FileError::Unreadable)?.permissions().mode();
        let mode = mode & 0o7777;
        if mode & 0o077 != 0 {
            if self.own {
                return Err(FileError::Readable { mode });
            }
            // A mounted Secret is readable by its group.
            let path = self.path.display();
            tracing::warn!(%path, mode = format!("{mode:04o}"), "key file readable by other users");
        }
        Ok(keys.into_iter().map(|(_, key)| key).collect())
    }

    /// Creates the file with a new key, unless it exists.
    pub fn create(&self) -> Result<(), FileError> {
        let staged = self.stage(&format!("{}\n", hex(&random()?)))?;
        let linked = match fs::hard_link(&staged, &self.path) {
            Err(why) if why.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            done => done,
        };
        let removed = ignore_missing(fs::remove_file(&staged));
        linked.and(removed).and_then(|()| self.sync_folder()).map_err(FileError::Unwritable)
    }

    /// Adds a new key behind the others.
    pub fn add(&self) -> Result<ServerKey, FileError> {
        let root = random()?;
        let key = ServerKey::new(root).map_err(|_| Unminted)?;
        let mut text = String::new();
        for (line, _) in self.lines()? {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{line}");
        }
        let _ = writeln!(text, "{}", hex(&root));
        let staged = self.stage(&text)?;
        let renamed = fs::rename(&staged, &self.path).and_then(|()| self.sync_folder());
        renamed.map_err(FileError::Unwritable)?;
        Ok(key)
    }

    /// Excludes other processes that would add a key.
    pub fn lock(&self) -> Result<FileLock, FileError> {
        let folder = File::open(self.folder()).map_err(FileError::Unreadable)?;
        match flock(&folder, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(FileLock(folder)),
            Err(rustix::io::Errno::WOULDBLOCK) => Err(FileError::Locked),
            Err(why) => Err(FileError::Unreadable(why.into())),
        }
    }

    fn lines(&self) -> Result<Vec<(String, ServerKey)>, FileError> {
        let text = match fs::read_to_string(&self.path) {
            Ok(text) => text,
            Err(why) if why.kind() == io::ErrorKind::NotFound => return Err(FileError::Missing),
            Err(why) => return Err(FileError::Unreadable(why)),
        };
        let mut keys = Vec::new();
        for (index, line) in text.lines().map(str::trim).enumerate() {
            if line.is_empty() {
                continue;
            }
            let key = unhex(line).and_then(|root| ServerKey::new(root).ok());
            let key = key.ok_or(FileError::Malformed { line: index + 1 })?;
            keys.push((line.to_owned(), key));
        }
        if keys.is_empty() { Err(FileError::Empty) } else { Ok(keys) }
    }

    fn stage(&self, text: &str) -> Result<PathBuf, FileError> {
        let staged = self.folder().join(format!(".staged-{}", Uuid::new_v4()));
        let written = write_private(&staged, text.as_bytes());
        let synced = written.and_then(|()| File::open(&staged)?.sync_all());
        synced.map(|()| staged).map_err(FileError::Unwritable)
    }

    fn sync_folder(&self) -> io::Result<()> {
        File::open(self.folder())?.sync_all()
    }

    fn folder(&self) -> &Path {
        match self.path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            Some(_) | None => Path::new("."),
        }
    }
}

/// 32 random bytes.
pub(super) fn random() -> Result<[u8; 32], Unminted> {
    let mut bytes = [0; 32];
    SystemRandom::new().fill(&mut bytes).map_err(|_| Unminted)?;
    Ok(bytes)
}

fn hex(bytes: &[u8; 32]) -> String {
    bytes.iter().fold(String::with_capacity(64), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn unhex(text: &str) -> Option<[u8; 32]> {
    if text.len() != 64 || !text.bytes().all(|it| it.is_ascii_hexdigit()) {
        return None;
    }
    let mut bytes = [0; 32];
    for (index, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(index * 2..index * 2 + 2)?, 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file() -> (tempfile::TempDir, KeyFile) {
        let dir = tempfile::tempdir().unwrap();
        let file = KeyFile::new("", dir.path());
        (dir, file)
    }

    fn ids(file: &KeyFile) -> Vec<String> {
        file.read().unwrap().iter().map(|it| it.id().as_str().to_owned()).collect()
    }

    #[test]
    fn a_key_is_created_once_and_readable_only_by_the_owner() {
        let (dir, file) = file();
        assert!(matches!(file.read(), Err(FileError::Missing)));
        file.create().unwrap();
        let first = ids(&file);
        file.create().unwrap();
        assert_eq!(ids(&file), first);
        let mode = fs::metadata(file.path()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "no staged file is left");
    }

    #[test]
    fn a_key_is_added_behind_the_others() {
        let (dir, file) = file();
        file.create().unwrap();
        let first = ids(&file);
        let lock = file.lock().unwrap();
        assert!(matches!(file.lock(), Err(FileError::Locked)));
        let added = file.add().unwrap();
        assert_eq!(ids(&file), [first[0].clone(), added.id().as_str().to_owned()]);
        drop(lock);
        assert!(file.lock().is_ok());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "no staged file is left");
    }

    // Requirement: E-3
    #[test]
    fn a_malformed_file_is_refused_by_its_line_and_not_replaced() {
        let (_dir, file) = file();
        let good = "ab".repeat(32);
        for (text, line) in [
            ("zz".to_owned(), 1),
            ("0".repeat(64), 1),
            ("é".repeat(32), 1),
            (format!("+{}", "a".repeat(63)), 1),
            (format!("{good}\n\n{}\n", &good[..63]), 3),
        ] {
            write_private(file.path(), text.as_bytes()).unwrap();
            let refused = file.read();
            assert!(matches!(&refused, Err(FileError::Malformed { line: it }) if *it == line));
            assert!(!refused.unwrap_err().to_string().contains(&text));
            assert!(file.add().is_err());
            assert_eq!(fs::read_to_string(file.path()).unwrap(), text);
        }
        write_private(file.path(), b"\n").unwrap();
        assert!(matches!(file.read(), Err(FileError::Empty)));
    }

    /// Red by: a key that other users of the machine can read, or a mounted Secret that is refused.
    #[test]
    fn other_users_may_read_a_mounted_file_only() {
        let (dir, file) = file();
        file.create().unwrap();
        fs::set_permissions(file.path(), fs::Permissions::from_mode(0o640)).unwrap();
        assert!(matches!(file.read(), Err(FileError::Readable { mode: 0o640 })));
        let mounted = KeyFile::new(file.path().to_str().unwrap(), dir.path());
        assert_eq!(mounted.read().unwrap().len(), 1);
    }
}
