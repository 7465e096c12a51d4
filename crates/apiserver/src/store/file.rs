//! The durable keeper: one file of three tables, one transaction per batch.

use std::fs::File;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition, TableError};

use super::durability::{Durability, DurabilityError, Kept, Loaded, Record};

type LogRow = (&'static str, &'static str, Option<&'static [u8]>, Option<&'static [u8]>);

const OBJECTS: TableDefinition<(&str, &str), &[u8]> = TableDefinition::new("objects");
const LOG: TableDefinition<u64, LogRow> = TableDefinition::new("log");
const META: TableDefinition<&str, u64> = TableDefinition::new("meta");
const HEAD: &str = "head";
const FLOOR: &str = "floor";

/// Objects, the newest changes and two numbers in one file.
pub struct FileDurability {
    database: Database,
}

impl FileDurability {
    /// Opens the file, or makes it. It holds secrets, so nobody but its owner may read it.
    pub fn open(path: &Path) -> Result<Self, DurabilityError> {
        let file = owned(path).map_err(|source| DurabilityError::new("open", source))?;
        let database = redb::Builder::new().create_file(file);
        let database = database.map_err(|source| DurabilityError::new("open", source))?;
        Ok(Self { database })
    }
}

fn owned(path: &Path) -> std::io::Result<File> {
    let mut options = File::options();
    options.read(true).write(true).create(true).truncate(false).mode(0o600).open(path)
}

impl Durability for FileDurability {
    fn load(&mut self) -> Result<Loaded, DurabilityError> {
        read(&self.database).map_err(|source| DurabilityError::new("read", source))
    }

    fn commit(&mut self, batch: &[Record]) -> Result<(), DurabilityError> {
        write(&self.database, batch).map_err(|source| DurabilityError::new("write", source))
    }

    fn compact(&mut self, revision: u64) -> Result<(), DurabilityError> {
        forget(&self.database, revision).map_err(|source| DurabilityError::new("compact", source))
    }
}

fn read(database: &Database) -> Result<Loaded, redb::Error> {
    let transaction = database.begin_read()?;
    let meta = match transaction.open_table(META) {
        Ok(meta) => meta,
        Err(TableError::TableDoesNotExist(_)) => return Ok(Loaded::default()),
        Err(error) => return Err(error.into()),
    };
    let number =
        |key| -> Result<u64, redb::Error> { Ok(meta.get(key)?.map_or(0, |value| value.value())) };
    let mut loaded =
        Loaded { head: number(HEAD)?, floor: number(FLOOR)?, objects: Vec::new(), log: Vec::new() };
    for row in transaction.open_table(OBJECTS)?.iter()? {
        let (key, value) = row?;
        let (table, key) = key.value();
        let value = Bytes::copy_from_slice(value.value());
        loaded.objects.push(Kept { table: Arc::from(table), key: Arc::from(key), value });
    }
    for row in transaction.open_table(LOG)?.iter()? {
        let (revision, value) = row?;
        let (table, key, old, new) = value.value();
        loaded.log.push(Record {
            revision: revision.value(),
            table: Arc::from(table),
            key: Arc::from(key),
            old: old.map(Bytes::copy_from_slice),
            new: new.map(Bytes::copy_from_slice),
        });
    }
    Ok(loaded)
}

fn write(database: &Database, batch: &[Record]) -> Result<(), redb::Error> {
    let transaction = database.begin_write()?;
    {
        let mut objects = transaction.open_table(OBJECTS)?;
        let mut log = transaction.open_table(LOG)?;
        let mut meta = transaction.open_table(META)?;
        for record in batch {
            let place = (&*record.table, &*record.key);
            match &record.new {
                Some(value) => objects.insert(place, value.as_ref())?.is_some(),
                None => objects.remove(place)?.is_some(),
            };
            let row = (place.0, place.1, record.old.as_deref(), record.new.as_deref());
            log.insert(record.revision, row)?;
            meta.insert(HEAD, record.revision)?;
        }
    }
    transaction.commit()?;
    Ok(())
}

fn forget(database: &Database, revision: u64) -> Result<(), redb::Error> {
    let transaction = database.begin_write()?;
    {
        let mut log = transaction.open_table(LOG)?;
        let mut meta = transaction.open_table(META)?;
        log.retain_in(..=revision, |_, _| false)?;
        meta.insert(FLOOR, revision)?;
    }
    transaction.commit()?;
    Ok(())
}
