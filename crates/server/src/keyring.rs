//! The keys that this process holds, and what the database says of them.
//!
//! ```text
//!   key file ──keys──▶ keyring ◀──ids and states── database
//! ```
//!
//! **Invariants**
//! - A new key is created only if the database knows none; it is in the file before it is recorded.
//! - A server that lacks a key that is not retired does not start. If it comes to lack one, it is
//!   not ready, issues nothing, and refuses no node for it.
//! - The database is read when a secret, a new token or a readiness check gives a reason to.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use thiserror::Error;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::task::spawn_blocking;
use usher_domain::audit;
use usher_domain::object::enrolment::KeyId;
use usher_domain::object::id::PeerId;
use usher_domain::object::key::{KeyRecord, KeyState, ServerKey};
use usher_domain::object::manifest::SecretText;
use usher_failpoint::Failpoint;
use usher_store::Store;

use super::key_file::{FileError, KeyFile};

/// How many calls may read the database at once for a secret that no known key derived.
const GUESSES_MAX: usize = 4;

/// Why a server does not start with its key file, or a key is not rotated.
#[derive(Debug, Error)]
pub enum Error {
    #[error("cannot use the key file \"{}\": {why}; {expected}", path.display())]
    File { path: PathBuf, why: FileError, expected: Expected },
    #[error("cannot use the key file \"{}\": it lacks key {missing}; {expected}", path.display())]
    Lacking { path: PathBuf, missing: KeyId, expected: Expected },
    /// Another rotation came first.
    #[error("cannot rotate: the current key is {current}")]
    Changed { current: KeyId },
    #[error("cannot rotate: key {previous} is still in use")]
    InUse { previous: KeyId },
    #[error(
        "cannot add a key to \"{}\": {why}; add a line of 64 random hexadecimal digits to it \
         everywhere it is mounted, and rotate again",
        path.display()
    )]
    ReadOnly { path: PathBuf, why: FileError },
    #[error(transparent)]
    Store(#[from] usher_store::Error),
}

/// What the database expects in the key file, and what to do.
#[derive(Debug)]
pub struct Expected(Option<KeyId>);

impl Expected {
    pub fn key(&self) -> KeyId {
        self.0.clone().unwrap_or_else(|| KeyId::from_stored(""))
    }
}

impl std::fmt::Display for Expected {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.0 {
            Some(id) => write!(
                f,
                "the database expects key {id}: restore the file from the backup, or copy it \
                 from another server of this installation"
            ),
            None => f.write_str("the database knows no key yet: repair or remove the file"),
        }
    }
}

/// The keys of this process.
#[derive(Debug)]
pub struct Keyring {
    file: KeyFile,
    store: Arc<Store>,
    held: Mutex<Held>,
    guesses: Semaphore,
}

#[derive(Debug, Default)]
struct Held {
    keys: BTreeMap<KeyId, ServerKey>,
    records: Vec<KeyRecord>,
    /// Nodes that called with the secret of an older key.
    behind: BTreeSet<PeerId>,
}

impl Held {
    fn current(&self) -> Option<&KeyId> {
        self.records.iter().find(|it| it.state == KeyState::Current).map(|it| &it.id)
    }

    fn missing(&self) -> Option<&KeyId> {
        let needed = self.records.iter().filter(|it| it.state != KeyState::Retired);
        needed.map(|it| &it.id).find(|id| !self.keys.contains_key(id))
    }

    fn state(&self, id: &KeyId) -> Option<KeyState> {
        self.records.iter().find(|it| it.id == *id).map(|it| it.state)
    }

    fn hold(&mut self, keys: Vec<ServerKey>) {
        self.keys.extend(keys.into_iter().map(|it| (it.id().clone(), it)));
    }
}

impl Keyring {
    /// Reads the keys and compares them with the database; a new installation gets its first key.
    pub async fn open(file: KeyFile, store: Arc<Store>) -> Result<Self, Error> {
        store.retire_keys().await?;
        let mut records = store.keys().await?;
        let expected = || Expected(current(&records));
        let refused = |why, expected| Error::File { path: file.path().to_owned(), why, expected };
        let keys = match file.read() {
            Err(FileError::Missing) if records.is_empty() => {
                file.create().and_then(|()| file.read())
            }
            read => read,
        };
        let keys = keys.map_err(|why| refused(why, expected()))?;
        if records.is_empty()
            && let Some(first) = keys.first()
        {
            Failpoint::KeyWritten.pass();
            records = store.admit_key(first.id().clone()).await?;
            Failpoint::KeyRecorded.pass();
            tracing::info!(key = %first.id(), "server key recorded");
        }
        let mut held = Held { records, ..Held::default() };
        held.hold(keys);
        if let Some(missing) = held.missing() {
            return Err(lacking(&file, missing.clone(), held.current().cloned()));
        }
        Ok(Self { file, store, held: Mutex::new(held), guesses: Semaphore::new(GUESSES_MAX) })
    }

    /// The key that new secrets are derived with, or the id of a key that this process lacks.
    pub fn current(&self) -> Result<ServerKey, KeyId> {
        let held = self.held();
        if let Some(missing) = held.missing() {
            return Err(missing.clone());
        }
        let current = held.current().and_then(|id| held.keys.get(id));
        current.cloned().ok_or_else(|| KeyId::from_stored(""))
    }

    /// A key by its id.
    pub fn get(&self, id: &KeyId) -> Option<ServerKey> {
        self.held().keys.get(id).cloned()
    }

    /// The state of a key, as far as this process has read the database.
    pub fn state(&self, id: &KeyId) -> Option<KeyState> {
        self.held().state(id)
    }

    /// A key that the database expects and this process lacks.
    pub fn missing(&self) -> Option<KeyId> {
        self.held().missing().cloned()
    }

    /// The key that a node's secret was derived with. A retired key does not count; one that the
    /// database does not know does: it was rotated to before the database was restored.
    pub fn key_of(&self, node: PeerId, secret: &SecretText) -> Option<KeyId> {
        let held = self.held();
        let valid = |it: &&ServerKey| held.state(it.id()) != Some(KeyState::Retired);
        let mut keys = held.keys.values().filter(valid);
        keys.find(|it| it.is_node_secret(node, secret)).map(|it| it.id().clone())
    }

    /// Permits a read of the database for a secret that no known key derived, unless enough others
    /// wait for one: guessed secrets hold up no other call.
    pub fn guess(&self) -> Option<SemaphorePermit<'_>> {
        self.guesses.try_acquire().ok()
    }

    /// Notes whether a node still calls with the secret of an older key.
    pub fn note_behind(&self, node: PeerId, behind: bool) {
        let mut held = self.held();
        if behind {
            held.behind.insert(node);
        } else {
            held.behind.remove(&node);
        }
    }

    /// Whether a node called this process with the secret of an older key last.
    pub fn is_behind(&self, node: PeerId) -> bool {
        self.held().behind.contains(&node)
    }

    /// Reads the database again, and the file if a key is missing.
    pub async fn refresh(&self) -> Result<(), usher_store::Error> {
        let records = self.store.keys().await?;
        let lacking = {
            let mut held = self.held();
            if current(&records).as_ref() != held.current() {
                held.behind.clear();
            }
            held.records = records;
            held.missing().is_some()
        };
        if lacking {
            match self.on_disk(KeyFile::read).await {
                Ok(keys) => self.held().hold(keys),
                Err(error) => tracing::warn!(%error, "failed to read the key file"),
            }
        }
        Ok(())
    }

    /// Makes a new key current: one that was added to the file by an operator, or a key that is
    /// created and added here.
    pub async fn rotate(
        &self,
        from: &KeyId,
        audit: impl FnOnce(&KeyId) -> audit::Entry,
    ) -> Result<(), Error> {
        let path = || self.file.path().to_owned();
        let _lock = self
            .on_disk(KeyFile::lock)
            .await
            .map_err(|why| Error::ReadOnly { path: path(), why })?;
        self.store.retire_keys().await?;
        self.refresh().await?;
        self.may_rotate(from)?;
        let expected = Expected(Some(from.clone()));
        let read = self.on_disk(KeyFile::read).await;
        let keys = read.map_err(|why| Error::File { path: path(), why, expected })?;
        let prepared = keys.iter().find(|it| self.held().state(it.id()).is_none()).cloned();
        let next = if let Some(key) = prepared {
            key
        } else {
            let added = self.on_disk(KeyFile::add).await;
            added.map_err(|why| Error::ReadOnly { path: path(), why })?
        };
        self.held().hold(vec![next.clone()]);
        Failpoint::KeyWritten.pass();
        let entry = audit(next.id());
        let to = next.id().clone();
        let rotated = self.store.with_audit(entry).rotate_key(from.clone(), to).await;
        if matches!(rotated, Err(usher_store::Error::Conflict)) {
            self.refresh().await?;
            self.may_rotate(from)?;
        }
        rotated?;
        Failpoint::KeyRecorded.pass();
        tracing::info!(%from, to = %next.id(), "server key rotated");
        self.refresh().await?;
        Ok(())
    }

    fn may_rotate(&self, from: &KeyId) -> Result<(), Error> {
        let held = self.held();
        if let Some(missing) = held.missing() {
            return Err(lacking(&self.file, missing.clone(), held.current().cloned()));
        }
        if let Some(current) = held.current().filter(|it| *it != from) {
            return Err(Error::Changed { current: current.clone() });
        }
        let previous = held.records.iter().find(|it| it.state == KeyState::Previous);
        previous.map_or(Ok(()), |it| Err(Error::InUse { previous: it.id.clone() }))
    }

    /// A mounted file may be slow: it is not waited for on a thread of the runtime.
    async fn on_disk<T: Send + 'static>(
        &self,
        call: fn(&KeyFile) -> Result<T, FileError>,
    ) -> Result<T, FileError> {
        let file = self.file.clone();
        let done = spawn_blocking(move || call(&file)).await;
        done.unwrap_or_else(|why| Err(FileError::Unreadable(io::Error::other(why))))
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn lacking(file: &KeyFile, missing: KeyId, current: Option<KeyId>) -> Error {
    Error::Lacking { path: file.path().to_owned(), missing, expected: Expected(current) }
}

fn current(records: &[KeyRecord]) -> Option<KeyId> {
    records.iter().find(|it| it.state == KeyState::Current).map(|it| it.id.clone())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rustix::fs::{CWD, FileType, Mode, mknodat};
    use usher_store::migrate::Direction;
    use usher_store::{Place, Settings};

    use super::*;

    /// Red by: a key file that is read on the thread of the runtime, which then answers no call.
    // Requirement: E-23
    #[tokio::test]
    async fn a_slow_key_file_holds_up_no_other_task() {
        let dir = tempfile::tempdir().unwrap();
        let place = Place::Sqlite(dir.path().join("usher.db"));
        Store::migrate(&place, Direction::Up).await.unwrap();
        let store = Arc::new(Store::open(&place, Settings::default()).await.unwrap());
        let file = KeyFile::new("", dir.path());
        let keys = Arc::new(Keyring::open(file.clone(), Arc::clone(&store)).await.unwrap());
        let (first, next) = (keys.current().unwrap(), ServerKey::new([7; 32]).unwrap());
        store.rotate_key(first.id().clone(), next.id().clone()).await.unwrap();
        // A pipe is read as slowly as it is written.
        std::fs::remove_file(file.path()).unwrap();
        mknodat(CWD, file.path(), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let (report, opened) = tokio::sync::oneshot::channel();
        let (go_on, go_on_seen) = std::sync::mpsc::channel();
        let path = file.path().to_owned();
        let writer = std::thread::spawn(move || {
            // It opens as soon as the keyring reads from the other end.
            let mut pipe = std::fs::OpenOptions::new().write(true).open(path).unwrap();
            report.send(()).unwrap();
            let other_ran = go_on_seen.recv_timeout(Duration::from_secs(30)).is_ok();
            io::Write::write_all(&mut pipe, "07".repeat(32).as_bytes()).unwrap();
            other_ran
        });
        let reading = tokio::spawn(async move { keys.refresh().await });
        opened.await.unwrap();
        let _ = go_on.send(());
        reading.await.unwrap().unwrap();
        assert!(writer.join().unwrap(), "no other task ran while the file was read");
    }
}
