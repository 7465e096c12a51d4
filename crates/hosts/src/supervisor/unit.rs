//! The record of a process: a directory that is created before the process and removed after it.
//!
//! ```text
//!   <root>/<name>/              locked by its supervisor
//!                 unit.json     what to run, and for which owner
//!                 process.lock  locked by the running process; created on first use
//!                 left          written by a process that left cleanly
//!                 started       it was started at least once
//!                 failed        why it cannot be started at all
//!                 log           its output
//! ```

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use serde::{Deserialize, Serialize};
use usher_kernel::Uid;

use super::lock::{self, Holder};
use usher_failpoint::Failpoint;

/// The lock that the running process holds.
pub const PROCESS_LOCK: &str = "process.lock";
/// The file that a process writes when it left cleanly.
pub const LEFT: &str = usher_agent::LEFT_FILE;

const UNIT: &str = "unit.json";
const STARTED: &str = "started";
const FAILED: &str = "failed";
const LOG: &str = "log";
const STAGED: &str = ".staged-";
const UNNAMED: &str = ".unnamed-";

/// What to run, and for which owner.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unit {
    /// The object it runs for.
    pub owner: Uid,
    /// That object's labels.
    pub labels: BTreeMap<String, String>,
    pub program: PathBuf,
    /// Its arguments; it runs in the directory of its record.
    pub args: Vec<String>,
    /// How long it may take to exit after SIGTERM.
    pub grace_ms: u64,
}

/// All records below one root.
#[derive(Clone, Debug)]
pub struct Units {
    root: PathBuf,
}

impl Units {
    /// Opens the records below `root`; creates it if it does not exist.
    pub fn open(root: PathBuf) -> io::Result<Self> {
        private_folder().recursive(true).create(&root)?;
        Ok(Self { root })
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The directory of a record.
    pub fn folder(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// The names of all records.
    pub fn names(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.root)? {
            if let Ok(name) = entry?.file_name().into_string()
                && !name.starts_with('.')
            {
                names.push(name);
            }
        }
        names.sort();
        Ok(names)
    }

    /// The unit of a record; an unreadable one is [`io::ErrorKind::InvalidData`].
    pub fn read(&self, name: &str) -> io::Result<Option<Unit>> {
        let garbage = |why| io::Error::new(io::ErrorKind::InvalidData, why);
        match fs::read(self.folder(name).join(UNIT)) {
            Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes).map_err(garbage)?)),
            Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(why) => Err(why),
        }
    }

    /// Whether the directory exists, whatever it contains.
    pub(super) fn exists(&self, name: &str) -> io::Result<bool> {
        self.folder(name).try_exists()
    }

    /// Records a process with its files, atomically; `false` if the name is taken.
    pub fn record(&self, name: &str, unit: &Unit, files: &[(&str, &[u8])]) -> io::Result<bool> {
        let folder = self.folder(name);
        if folder.try_exists()? {
            return Ok(false);
        }
        let staged = self.root.join(format!("{STAGED}{}", uuid::Uuid::new_v4()));
        private_folder().create(&staged)?;
        write_private(&staged.join(UNIT), &serde_json::to_vec(unit)?)?;
        for (file, content) in files {
            write_private(&staged.join(file), content)?;
        }
        let named = rename_exclusively(&staged, &folder);
        match named {
            Ok(()) => {
                Failpoint::UnitRecorded.pass();
                Ok(true)
            }
            Err(why) if why.kind() == io::ErrorKind::AlreadyExists => {
                fs::remove_dir_all(&staged)?;
                Ok(false)
            }
            Err(why) => Err(why),
        }
    }

    /// Sets the grace of a process; does nothing without a record.
    pub fn set_grace(&self, name: &str, grace_ms: u64) -> io::Result<()> {
        let Some(unit) = self.read(name)? else { return Ok(()) };
        let staged = self.folder(name).join(format!("{STAGED}{UNIT}"));
        write_private(&staged, &serde_json::to_vec(&Unit { grace_ms, ..unit })?)?;
        fs::rename(staged, self.folder(name).join(UNIT))
    }

    /// Removes the record. The caller holds both locks, so no process starts or runs in it.
    pub(super) fn erase(&self, name: &str) -> io::Result<()> {
        let unnamed = self.root.join(format!("{UNNAMED}{}", uuid::Uuid::new_v4()));
        fs::rename(self.folder(name), &unnamed)?;
        Failpoint::UnitUnnamed.pass();
        fs::remove_dir_all(unnamed)
    }

    /// Removes staged and unnamed directories that a crash left. The caller ensures that no process
    /// records anything meanwhile.
    pub fn sweep(&self) -> io::Result<()> {
        for entry in fs::read_dir(&self.root)? {
            let entry = entry?;
            let name = entry.file_name();
            let name = name.to_string_lossy();
            if [STAGED, UNNAMED].iter().any(|it| name.starts_with(it)) {
                ignore_missing(fs::remove_dir_all(entry.path()))?;
            }
        }
        Ok(())
    }

    /// The holder of the lock of a process.
    pub fn holder(&self, name: &str) -> io::Result<Holder> {
        lock::holder(&self.folder(name).join(PROCESS_LOCK))
    }

    /// Whether the process left cleanly.
    pub fn has_left(&self, name: &str) -> io::Result<bool> {
        self.folder(name).join(LEFT).try_exists()
    }

    /// Why the process cannot be started at all, if a start failed so.
    pub fn failure(&self, name: &str) -> io::Result<Option<String>> {
        match fs::read_to_string(self.folder(name).join(FAILED)) {
            Ok(text) => Ok(Some(text)),
            Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(why) => Err(why),
        }
    }

    pub(super) fn mark_started(&self, name: &str) -> io::Result<()> {
        let path = self.folder(name).join(STARTED);
        if path.try_exists()? { Ok(()) } else { write_private(&path, b"") }
    }

    /// Records that the process cannot be started at all, unless it was started before: then its
    /// program is only missing for a moment.
    pub(super) fn fail(&self, name: &str, why: &str) -> io::Result<()> {
        if self.folder(name).join(STARTED).try_exists()? {
            return Ok(());
        }
        write_private(&self.folder(name).join(FAILED), why.as_bytes())
    }

    /// The file for the output of the process.
    pub(super) fn log(&self, name: &str) -> io::Result<fs::File> {
        OpenOptions::new().append(true).create(true).mode(0o600).open(self.folder(name).join(LOG))
    }
}

/// Renames a file or a directory; fails if the new name exists.
pub fn rename_exclusively(from: &Path, to: &Path) -> io::Result<()> {
    Ok(renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE)?)
}

/// Creates folders that only the owner may enter.
pub fn private_folder() -> DirBuilder {
    let mut builder = DirBuilder::new();
    builder.mode(0o700);
    builder
}

/// Writes a file that only the owner may read.
pub fn write_private(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut open = OpenOptions::new();
    let mut file = open.write(true).create(true).truncate(true).mode(0o600).open(path)?;
    file.write_all(content)
}

/// Whether a folder exists and has an entry that is not a staged one.
pub fn has_entries(folder: &Path) -> io::Result<bool> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(why) => return Err(why),
    };
    for entry in entries {
        if !entry?.file_name().to_string_lossy().starts_with('.') {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Ignores that a file to remove does not exist.
pub fn ignore_missing(done: io::Result<()>) -> io::Result<()> {
    match done {
        Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unit() -> Unit {
        Unit {
            owner: Uid::new("u1"),
            labels: BTreeMap::from([("a".to_owned(), "b".to_owned())]),
            program: "/bin/true".into(),
            args: vec!["x".to_owned()],
            grace_ms: 10,
        }
    }

    #[test]
    fn a_record_is_created_once_and_atomically() {
        let dir = tempfile::tempdir().unwrap();
        let units = Units::open(dir.path().join("process")).unwrap();
        assert!(units.record("a", &unit(), &[("token", b"secret")]).unwrap());
        assert!(!units.record("a", &unit(), &[("token", b"other")]).unwrap(), "the name is taken");
        assert_eq!(units.names().unwrap(), ["a"]);
        assert_eq!(units.read("a").unwrap(), Some(unit()));
        assert_eq!(fs::read(units.folder("a").join("token")).unwrap(), b"secret");
        let files = fs::read_dir(units.folder("a")).unwrap().map(|it| it.unwrap().file_name());
        let mut files: Vec<_> = files.collect();
        files.sort();
        assert_eq!(files, ["token", UNIT], "no lock file yet");
        assert_eq!(units.read("b").unwrap(), None);
    }

    // Requirement: LW-16
    #[test]
    fn a_record_is_private() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().unwrap();
        let units = Units::open(dir.path().join("process")).unwrap();
        units.record("a", &unit(), &[("token", b"secret")]).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&units.folder("a")), 0o700);
        assert_eq!(mode(&units.folder("a").join("token")), 0o600);
        assert_eq!(mode(&units.folder("a").join(UNIT)), 0o600);
    }

    #[test]
    fn staged_and_unnamed_folders_are_swept_and_not_records() {
        let dir = tempfile::tempdir().unwrap();
        let units = Units::open(dir.path().join("process")).unwrap();
        let left_over = [STAGED, UNNAMED].map(|it| units.root().join(format!("{it}x")));
        for it in &left_over {
            fs::create_dir(it).unwrap();
        }
        assert_eq!(units.names().unwrap(), Vec::<String>::new());
        units.sweep().unwrap();
        assert!(!left_over.iter().any(|it| it.exists()));
    }
}
