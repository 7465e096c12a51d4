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
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use thiserror::Error;
use usher_domain::audit;
use usher_domain::object::enrolment::KeyId;
use usher_domain::object::id::PeerId;
use usher_domain::object::key::{KeyRecord, KeyState, ServerKey};
use usher_domain::object::manifest::SecretText;
use usher_failpoint::Failpoint;
use usher_store::Store;

use super::key_file::{FileError, KeyFile};

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
    #[error("cannot rotate: key {previous} is still in use; `usher key show` counts by what")]
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
        Ok(Self { file, store, held: Mutex::new(held) })
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
            match self.file.read() {
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
        let _lock = self.file.lock().map_err(|why| Error::ReadOnly { path: path(), why })?;
        self.store.retire_keys().await?;
        self.refresh().await?;
        self.may_rotate(from)?;
        let expected = Expected(Some(from.clone()));
        let read = self.file.read();
        let keys = read.map_err(|why| Error::File { path: path(), why, expected })?;
        let prepared = keys.iter().find(|it| self.held().state(it.id()).is_none()).cloned();
        let next = match prepared {
            Some(key) => key,
            None => self.file.add().map_err(|why| Error::ReadOnly { path: path(), why })?,
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
