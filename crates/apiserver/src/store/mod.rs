//! Every object in memory, in the order of revisions, kept by a [`Durability`].
//!
//! A write is checked against the newest image of its object, gets the next revision, waits until
//! it is kept, and is then published. Reads and watches see published revisions only, so nobody
//! ever sees what a crash could take back. A watcher is a cursor: it reads the ring of its resource
//! from the last revision it told, and nothing is buffered for it.

mod backlog;
mod cursor;
pub(crate) mod durability;
mod file;
mod table;
mod writer;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use serde_json::Value;
use tokio::sync::watch;

use backlog::Backlog;
pub(crate) use cursor::{Cursor, TooOld};
pub use durability::{Durability, DurabilityError, Loaded, Record, StoredObject};
pub use file::FileDurability;
use table::Table;
pub(crate) use table::{Change, Entry};
use writer::Writer;
pub(crate) use writer::{Expect, Precondition, Write, WriteError};

/// Where revisions start: whoever asks for changes since the very first is always told to list.
const FIRST: u64 = 2;

/// The objects under a key, and the revision of the whole.
pub(crate) struct Listing {
    /// The revision at which they were read.
    pub(crate) revision: u64,
    /// The objects in the order of their keys.
    pub(crate) objects: BTreeMap<Arc<str>, Arc<Entry>>,
}

/// All objects of the server.
pub(crate) struct Store {
    shared: Arc<Shared>,
    writer: Writer,
}

struct Shared {
    state: RwLock<State>,
    /// How far writes are published, and whether the keeper still keeps.
    progress: watch::Sender<Progress>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Progress {
    published: u64,
    failed: bool,
}

struct State {
    tables: HashMap<Arc<str>, Table>,
    /// The newest revision that reads may see.
    published: u64,
    /// The newest revision that was given to a write.
    assigned: u64,
    /// Where a table without changes starts to remember.
    floor: u64,
    /// Images that are checked and numbered, but not yet published.
    pending: HashMap<(Arc<str>, Arc<str>), Pending>,
    failed: bool,
}

/// What an object will be: the revision that decided it, and the image if it stays.
type Pending = (u64, Option<Arc<Entry>>);

impl Store {
    /// A store that forgets everything when the process ends.
    pub(crate) fn in_memory() -> Self {
        let shared = Arc::new(Shared::new(State::empty()));
        Self { writer: Writer::inline(shared.clone()), shared }
    }

    /// A store over a keeper, with everything that the keeper remembers.
    pub(crate) fn open(mut durability: Box<dyn Durability>) -> Result<Self, DurabilityError> {
        let loaded = durability.load()?;
        let backlog = Backlog::of(&loaded.log);
        let shared = Arc::new(Shared::new(State::from_loaded(loaded)?));
        let writer = Writer::threaded(shared.clone(), durability, backlog)?;
        Ok(Self { shared, writer })
    }

    /// The newest revision that reads see.
    pub(crate) fn head(&self) -> u64 {
        self.shared.read().published
    }

    /// One object.
    pub(crate) fn get(&self, table: &str, key: &str) -> Option<Arc<Entry>> {
        self.shared.read().tables.get(table)?.objects.get(key).cloned()
    }

    /// The objects whose keys start with a prefix, as they are now.
    pub(crate) fn list(&self, table: &str, prefix: &str) -> Listing {
        let state = self.shared.read();
        let objects = state.tables.get(table).map(|table| table.under(prefix)).unwrap_or_default();
        Listing { revision: state.published, objects }
    }

    /// The objects whose keys start with a prefix, as they were at a revision.
    pub(crate) fn list_at(
        &self,
        table: &str,
        prefix: &str,
        revision: u64,
    ) -> Result<Listing, TooOld> {
        let state = self.shared.read();
        let floor = state.tables.get(table).map_or(state.floor, |table| table.floor);
        if revision < floor {
            return Err(TooOld { asked: revision, oldest: floor });
        }
        let objects = state.tables.get(table).map(|table| table.under_at(prefix, revision));
        Ok(Listing { revision, objects: objects.unwrap_or_default() })
    }

    /// The objects whose keys start with a prefix, as they were so many revisions ago, or as
    /// long ago as is remembered.
    pub(crate) fn list_behind(&self, table: &str, prefix: &str, revisions: u64) -> Listing {
        let state = self.shared.read();
        let Some(found) = state.tables.get(table) else {
            return Listing { revision: state.published, objects: BTreeMap::new() };
        };
        let revision = state.published.saturating_sub(revisions).max(found.floor);
        Listing { revision, objects: found.under_at(prefix, revision) }
    }

    /// A cursor that tells the changes of a table after a revision.
    pub(crate) fn cursor(&self, table: &Arc<str>, after: u64) -> Result<Cursor, TooOld> {
        Cursor::new(self.shared.clone(), table, after)
    }

    /// The objects of a table, and a cursor that tells what happens to them afterwards.
    pub(crate) fn list_and_follow(&self, table: &Arc<str>, prefix: &str) -> (Listing, Cursor) {
        let mut state = self.shared.write();
        let revision = state.published;
        let found = state.table(table);
        let objects = found.under(prefix);
        let changed = found.changed.subscribe();
        drop(state);
        let cursor = Cursor::at(self.shared.clone(), table.clone(), revision, changed);
        (Listing { revision, objects }, cursor)
    }

    /// The objects of a table as they were at a revision, and a cursor that goes on from there.
    pub(crate) fn list_at_and_follow(
        &self,
        table: &Arc<str>,
        revision: u64,
    ) -> Result<(Listing, Cursor), TooOld> {
        let mut state = self.shared.write();
        let found = state.table(table);
        if revision < found.floor {
            return Err(TooOld { asked: revision, oldest: found.floor });
        }
        let objects = found.under_at("", revision);
        let changed = found.changed.subscribe();
        drop(state);
        let cursor = Cursor::at(self.shared.clone(), table.clone(), revision, changed);
        Ok((Listing { revision, objects }, cursor))
    }

    /// Checks, numbers, keeps and publishes one write; the answer is what is stored now.
    pub(crate) async fn write(&self, write: Write) -> Result<Option<Arc<Entry>>, WriteError> {
        self.writer.write(write).await
    }

    /// Takes no more writes, and waits until those that were taken are kept and the file is closed.
    pub(crate) async fn close(&self) {
        if let Some(thread) = self.writer.close() {
            let ended = tokio::task::spawn_blocking(move || thread.join()).await;
            if !matches!(ended, Ok(Ok(()))) {
                tracing::error!("the durability of the API server did not end well");
            }
        }
    }

    /// Forgets all changes up to now: watches and pages of older revisions get 410.
    pub(crate) fn forget_history(&self) {
        let mut state = self.shared.write();
        let revision = state.published;
        state.floor = revision;
        for table in state.tables.values_mut() {
            table.forget(revision);
        }
    }

    /// Waits for the change after a revision, however long that takes.
    pub(crate) async fn changed_after(&self, revision: u64) {
        let mut progress = self.shared.progress.subscribe();
        if progress.wait_for(|now| now.published > revision).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Whether nothing can be kept any more.
    pub(crate) fn has_failed(&self) -> bool {
        self.shared.progress.borrow().failed
    }

    /// Waits until a revision is published; false when the keeper failed.
    pub(crate) async fn published(&self, revision: u64) -> bool {
        self.shared.published(revision).await
    }
}

impl Shared {
    fn new(state: State) -> Self {
        let progress = Progress { published: state.published, failed: false };
        Self { state: RwLock::new(state), progress: watch::Sender::new(progress) }
    }

    fn read(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    async fn published(&self, revision: u64) -> bool {
        let mut progress = self.progress.subscribe();
        let reached = progress.wait_for(|now| now.failed || now.published >= revision).await;
        reached.is_ok_and(|now| now.published >= revision)
    }
}

impl State {
    fn empty() -> Self {
        Self {
            tables: HashMap::new(),
            published: FIRST,
            assigned: FIRST,
            floor: FIRST,
            pending: HashMap::new(),
            failed: false,
        }
    }

    fn from_loaded(loaded: Loaded) -> Result<Self, DurabilityError> {
        let head = loaded.head.max(FIRST);
        let floor = loaded.floor.max(FIRST);
        let mut state = Self { published: head, assigned: head, floor, ..Self::empty() };
        for kept in loaded.objects {
            let entry = parse(&kept.value)?;
            state.table(&kept.table).objects.insert(kept.key, Arc::new(entry));
        }
        for record in loaded.log {
            let image = |bytes: Option<bytes::Bytes>| {
                bytes.as_deref().map(parse).transpose().map(|entry| entry.map(Arc::new))
            };
            let (old, new) = (image(record.old)?, image(record.new)?);
            let change = Change::new(record.revision, record.key, old, new);
            state.table(&record.table).remember(Arc::new(change));
        }
        Ok(state)
    }

    /// What an object will be when everything that was entered is published.
    fn newest(&self, place: &(Arc<str>, Arc<str>)) -> Option<Arc<Entry>> {
        match self.pending.get(place) {
            Some((_, image)) => image.clone(),
            None => self.tables.get(&place.0)?.objects.get(&place.1).cloned(),
        }
    }

    fn table(&mut self, name: &Arc<str>) -> &mut Table {
        let floor = self.floor;
        self.tables.entry(name.clone()).or_insert_with(|| Table::new(floor))
    }
}

fn parse(bytes: &[u8]) -> Result<Entry, DurabilityError> {
    let value: Value =
        serde_json::from_slice(bytes).map_err(|source| DurabilityError::new("read", source))?;
    let revision = value
        .pointer("/metadata/resourceVersion")
        .and_then(Value::as_str)
        .and_then(|text| text.parse().ok())
        .unwrap_or_default();
    Ok(Entry::new(revision, value))
}

#[cfg(test)]
mod tests;
