//! Persistence in one redb file: three tables, one transaction per batch.
//!
//! A batch only appends to the log; the objects are those at the floor. A compaction applies many
//! old changes to the objects at once, so that a commit writes every object once.

use std::collections::BTreeMap;
use std::fs::{File, TryLockError};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition, TableError};

use super::durability::{Durability, DurabilityError, Loaded, OtherFormat, Record, StoredObject};

/// Table, key, and the object after the change.
type LogRow = (&'static str, &'static str, Option<&'static [u8]>);
/// Objects by table and key.
type Objects = BTreeMap<(Arc<str>, Arc<str>), Bytes>;

const OBJECTS: TableDefinition<(&str, &str), &[u8]> = TableDefinition::new("objects");
const LOG: TableDefinition<u64, LogRow> = TableDefinition::new("log");
const META: TableDefinition<&str, u64> = TableDefinition::new("meta");
const HEAD: &str = "head";
const FLOOR: &str = "floor";
const FORMAT: &str = "format";
/// The version of the file format.
const THIS_FORMAT: u64 = 2;
/// The cache of redb; the objects are in memory anyway.
const CACHE_BYTES: usize = 16 << 20;

/// Objects and the newest changes in one redb file.
pub struct FileDurability {
    database: Database,
}

impl FileDurability {
    /// Opens or creates the file. It holds secrets, so only its owner may read it.
    pub fn open(path: &Path) -> Result<Self, DurabilityError> {
        let file = open_private(path).map_err(|source| DurabilityError::new("open", source))?;
        let database = redb::Builder::new().set_cache_size(CACHE_BYTES).create_file(file);
        let database = database.map_err(|source| DurabilityError::new("open", source))?;
        create_tables(&database).map_err(|source| DurabilityError::new("begin", source))?;
        sync_folder(path).map_err(|source| DurabilityError::new("open", source))?;
        Ok(Self { database })
    }
}

/// Opens the file with a lock. One that was never initialized is initialized again.
fn open_private(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    let file =
        options.read(true).write(true).create(true).truncate(false).mode(0o600).open(path)?;
    file.try_lock().map_err(|error| match error {
        TryLockError::WouldBlock => io::Error::other("another process has it open"),
        TryLockError::Error(error) => error,
    })?;
    let mut first = [0; 64];
    let read = file.read_at(&mut first, 0)?;
    if first.get(..read).is_some_and(|it| it.iter().all(|byte| *byte == 0)) {
        file.set_len(0)?;
    }
    Ok(file)
}

/// Makes the directory entry of a new file durable.
fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|it| !it.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

/// Creates all tables in one transaction.
fn create_tables(database: &Database) -> Result<(), redb::Error> {
    match database.begin_read()?.open_table(META) {
        Ok(_) => return Ok(()),
        Err(TableError::TableDoesNotExist(_)) => {}
        Err(error) => return Err(error.into()),
    }
    let transaction = database.begin_write()?;
    transaction.open_table(OBJECTS)?;
    transaction.open_table(LOG)?;
    transaction.open_table(META)?.insert(FORMAT, THIS_FORMAT)?;
    transaction.commit()?;
    Ok(())
}

impl Durability for FileDurability {
    fn load(&mut self) -> Result<Loaded, DurabilityError> {
        let format = format(&self.database);
        let format = format.map_err(|source| DurabilityError::new("read", source))?;
        if format != THIS_FORMAT {
            let why = OtherFormat { found: format, known: THIS_FORMAT };
            return Err(DurabilityError::new("read", why));
        }
        read(&self.database).map_err(|source| DurabilityError::new("read", source))
    }

    fn commit(&mut self, batch: &[Record]) -> Result<(), DurabilityError> {
        write(&self.database, batch).map_err(|source| DurabilityError::new("write", source))
    }

    fn compact(&mut self, revision: u64) -> Result<(), DurabilityError> {
        compact(&self.database, revision).map_err(|source| DurabilityError::new("compact", source))
    }
}

fn format(database: &Database) -> Result<u64, redb::Error> {
    let meta = database.begin_read()?.open_table(META)?;
    Ok(meta.get(FORMAT)?.map_or(0, |value| value.value()))
}

fn read(database: &Database) -> Result<Loaded, redb::Error> {
    let transaction = database.begin_read()?;
    let meta = transaction.open_table(META)?;
    let number =
        |key| -> Result<u64, redb::Error> { Ok(meta.get(key)?.map_or(0, |value| value.value())) };
    let (head, floor) = (number(HEAD)?, number(FLOOR)?);
    let mut objects = Objects::new();
    for row in transaction.open_table(OBJECTS)?.iter()? {
        let (key, value) = row?;
        let (table, key) = key.value();
        let value = Bytes::copy_from_slice(value.value());
        objects.insert((Arc::from(table), Arc::from(key)), value);
    }
    let mut log = Vec::new();
    for row in transaction.open_table(LOG)?.iter()? {
        let (revision, value) = row?;
        let (table, key, new) = value.value();
        let (table, key): (Arc<str>, Arc<str>) = (Arc::from(table), Arc::from(key));
        let new = new.map(Bytes::copy_from_slice);
        let place = (table.clone(), key.clone());
        let old = match &new {
            Some(value) => objects.insert(place, value.clone()),
            None => objects.remove(&place),
        };
        log.push(Record { revision: revision.value(), table, key, old, new });
    }
    let kept = objects.into_iter().map(|((table, key), value)| StoredObject { table, key, value });
    Ok(Loaded { head, floor, objects: kept.collect(), log })
}

fn write(database: &Database, batch: &[Record]) -> Result<(), redb::Error> {
    let transaction = database.begin_write()?;
    {
        let mut log = transaction.open_table(LOG)?;
        for record in batch {
            let row = (&*record.table, &*record.key, record.new.as_deref());
            log.insert(record.revision, row)?;
        }
        if let Some(last) = batch.last() {
            transaction.open_table(META)?.insert(HEAD, last.revision)?;
        }
    }
    transaction.commit()?;
    Ok(())
}

/// Applies the oldest changes to the objects. The state is the same, so the sync of the next batch
/// suffices.
fn compact(database: &Database, revision: u64) -> Result<(), redb::Error> {
    let mut transaction = database.begin_write()?;
    transaction.set_durability(redb::Durability::None)?;
    {
        let mut objects = transaction.open_table(OBJECTS)?;
        let mut log = transaction.open_table(LOG)?;
        let mut newest: BTreeMap<(String, String), Option<Vec<u8>>> = BTreeMap::new();
        for row in log.range(..=revision)? {
            let (_, row) = row?;
            let (table, key, new) = row.value();
            newest.insert((table.to_owned(), key.to_owned()), new.map(<[u8]>::to_vec));
        }
        for ((table, key), new) in &newest {
            let place = (table.as_str(), key.as_str());
            match new {
                Some(value) => drop(objects.insert(place, value.as_slice())?),
                None => drop(objects.remove(place)?),
            }
        }
        log.retain_in(..=revision, |_, _| false)?;
        transaction.open_table(META)?.insert(FLOOR, revision)?;
    }
    transaction.commit()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Red by: a file that is read by its tables, whatever its format is.
    // Requirement: AK-33
    #[test]
    fn a_file_of_a_newer_format_is_refused_each_time() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("f");
        let file = FileDurability::open(&path).expect("a file");
        let transaction = file.database.begin_write().expect("a transaction");
        let mut meta = transaction.open_table(META).expect("a table");
        meta.insert(FORMAT, THIS_FORMAT + 1).expect("written");
        drop(meta);
        transaction.commit().expect("committed");
        drop(file);
        for _ in 0..2 {
            let mut file = FileDurability::open(&path).expect("a file");
            let error = file.load().expect_err("another format");
            let wanted = "its format is 3, and this server reads 2";
            assert_eq!(error.source.to_string(), wanted);
            assert!(error.source.is::<OtherFormat>());
        }
    }
}
