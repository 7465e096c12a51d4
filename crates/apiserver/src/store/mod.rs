//! All objects in memory, persisted by a [`Durability`].
//!
//! A write is checked against the newest version of its object, gets the next revision, is made
//! durable and then published. Reads and watches only see published revisions, so a crash never
//! undoes what a client saw. A watch is a cursor: it reads the ring of its resource from the last
//! revision it delivered, without a buffer of its own.

mod backlog;
mod cursor;
pub(crate) mod durability;
mod entry;
mod file;
mod table;
mod writer;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use serde_json::Value;
use tokio::sync::watch;

use backlog::Backlog;
pub(crate) use cursor::{Cursor, TooOld};
pub(crate) use durability::OtherFormat;
pub use durability::{Durability, DurabilityError, Loaded, Record, StoredObject};
use entry::Draft;
pub(crate) use entry::Entry;
pub use file::FileDurability;
pub(crate) use table::Change;
use table::Table;
use writer::Writer;
pub(crate) use writer::{Expect, Precondition, Write, WriteError};

/// The first revision: a watch from an older one must always list.
const FIRST: u64 = 2;

/// The objects under a prefix and the revision of the read.
pub(crate) struct Listing {
    /// The revision of the read.
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
    /// The published revision, and whether writing has failed.
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
    /// The floor of a table without changes.
    floor: u64,
    /// Accepted versions that are not yet published.
    pending: HashMap<(Arc<str>, Arc<str>), Pending>,
    failed: bool,
}

/// A pending version: its revision, and the object unless it is removed.
type Pending = (u64, Option<Arc<Entry>>);

impl Store {
    /// A store without persistence.
    pub(crate) fn in_memory() -> Self {
        let shared = Arc::new(Shared::new(State::empty()));
        Self { writer: Writer::inline(shared.clone()), shared }
    }

    /// Opens a store and loads its persisted state.
    pub(crate) fn open(mut durability: Box<dyn Durability>) -> Result<Self, DurabilityError> {
        let loaded = durability.load()?;
        let backlog = Backlog::of(&loaded.log);
        let shared = Arc::new(Shared::new(State::from_loaded(loaded)?));
        let writer = Writer::threaded(shared.clone(), durability, backlog)?;
        Ok(Self { shared, writer })
    }

    /// A store with this state, without persistence.
    pub(crate) fn restored(loaded: Loaded) -> Result<Self, DurabilityError> {
        let shared = Arc::new(Shared::new(State::from_loaded(loaded)?));
        Ok(Self { writer: Writer::inline(shared.clone()), shared })
    }

    /// All objects, without their history.
    pub(crate) fn snapshot(&self) -> Loaded {
        let state = self.shared.read();
        let stored = |table: &Arc<str>, key: &Arc<str>, entry: &Entry| StoredObject {
            table: table.clone(),
            key: key.clone(),
            value: entry.json(),
        };
        let objects = state.tables.iter().flat_map(|(table, held)| {
            held.objects.iter().map(move |(key, entry)| stored(table, key, entry))
        });
        Loaded {
            head: state.published,
            floor: state.published,
            objects: objects.collect(),
            log: Vec::new(),
        }
    }

    /// The newest revision that reads see.
    pub(crate) fn head(&self) -> u64 {
        self.shared.read().published
    }

    /// One object.
    pub(crate) fn get(&self, table: &str, key: &str) -> Option<Arc<Entry>> {
        self.shared.read().tables.get(table)?.objects.get(key).cloned()
    }

    /// How many objects a table has.
    pub(crate) fn count(&self, table: &str) -> usize {
        self.shared.read().tables.get(table).map_or(0, |table| table.objects.len())
    }

    /// The objects under a prefix.
    pub(crate) fn list(&self, table: &str, prefix: &str) -> Listing {
        let state = self.shared.read();
        let objects = state.tables.get(table).map(|table| table.under(prefix)).unwrap_or_default();
        Listing { revision: state.published, objects }
    }

    /// The objects under a prefix at a revision.
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

    /// The objects under a prefix, the given number of revisions ago, or at the oldest available
    /// revision.
    pub(crate) fn list_behind(&self, table: &str, prefix: &str, revisions: u64) -> Listing {
        let state = self.shared.read();
        let Some(found) = state.tables.get(table) else {
            return Listing { revision: state.published, objects: BTreeMap::new() };
        };
        let revision = state.published.saturating_sub(revisions).max(found.floor);
        Listing { revision, objects: found.under_at(prefix, revision) }
    }

    /// A cursor over the changes of a table after a revision.
    pub(crate) fn cursor(&self, table: &Arc<str>, after: u64) -> Result<Cursor, TooOld> {
        Cursor::new(self.shared.clone(), table, after)
    }

    /// The objects of a table and a cursor over later changes.
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

    /// The objects of a table at a revision and a cursor over later changes.
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

    /// Checks, commits and publishes a write; returns the stored object.
    pub(crate) async fn write(&self, write: Write) -> Result<Option<Arc<Entry>>, WriteError> {
        self.writer.write(write).await
    }

    /// Refuses further writes, and waits until accepted ones are committed and the file is closed.
    pub(crate) async fn close(&self) {
        if let Some(thread) = self.writer.close() {
            let ended = tokio::task::spawn_blocking(move || thread.join()).await;
            if !matches!(ended, Ok(Ok(()))) {
                tracing::error!("the writer thread of the API server panicked");
            }
        }
    }

    /// Compacts the history: watches and list pages of older revisions get 410.
    pub(crate) fn forget_history(&self) {
        let mut state = self.shared.write();
        let revision = state.published;
        state.floor = revision;
        for table in state.tables.values_mut() {
            table.forget(revision);
        }
    }

    /// Waits for a change after a revision.
    pub(crate) async fn changed_after(&self, revision: u64) {
        let mut progress = self.shared.progress.subscribe();
        if progress.wait_for(|now| now.published > revision).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Whether writing has failed.
    pub(crate) fn has_failed(&self) -> bool {
        self.shared.progress.borrow().failed
    }

    /// Waits until a revision is published; false if writing failed.
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
            let entry = parse(&kept.table, &kept.value)?;
            state.table(&kept.table).objects.insert(kept.key, Arc::new(entry));
        }
        let mut before: HashMap<(Arc<str>, Arc<str>), Arc<Entry>> = HashMap::new();
        for record in loaded.log {
            let place = (record.table.clone(), record.key.clone());
            let image = |bytes: Option<bytes::Bytes>| {
                let entry = bytes.map(|bytes| parse(&record.table, &bytes)).transpose();
                entry.map(|entry| entry.map(Arc::new))
            };
            // The same versions as in the objects and in the change before, not copies of them.
            let old = match before.remove(&place) {
                Some(entry) => Some(entry),
                None => image(record.old)?,
            };
            let table = state.table(&record.table);
            let newest = table.objects.get(&record.key).cloned();
            let newest = newest.filter(|entry| entry.revision == record.revision);
            let new = match newest {
                Some(entry) => Some(entry),
                None => image(record.new)?,
            };
            if let Some(entry) = &new {
                before.insert(place, entry.clone());
            }
            let change = Change::new(record.revision, record.key, old, new);
            table.remember(Arc::new(change));
        }
        Ok(state)
    }

    /// The newest accepted version of an object.
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

fn parse(table: &str, bytes: &[u8]) -> Result<Entry, DurabilityError> {
    let value: Value =
        serde_json::from_slice(bytes).map_err(|source| DurabilityError::new("read", source))?;
    let revision = value
        .pointer("/metadata/resourceVersion")
        .and_then(Value::as_str)
        .and_then(|text| text.parse().ok())
        .unwrap_or_default();
    Ok(Draft::new(table, value).stamped(revision))
}

#[cfg(test)]
mod tests;
