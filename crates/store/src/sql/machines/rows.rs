//! Machines as rows: reading and deleting them.

use sqlx::QueryBuilder;
use usher_domain::fleet::aggregate::{Fields, Machine};
use usher_domain::fleet::ident::ShardId;
use usher_domain::fleet::phase::Phase;
use usher_domain::fleet::refusal::Refusal;
use usher_domain::object::id::{MachineRecordId, ResourceId};
use usher_kernel::{NameLedger, Record, Row, Version};
use uuid::Uuid;

use super::super::port::Port;
use super::super::record::{self, corrupt};
use super::super::{Conn, Db};
use crate::error::{Context as _, Error};
use crate::machines::{MachineQuery, Roll, StoredMachine};

reads! {
    fn machines_of(shard: &ShardId, after: Option<MachineRecordId>, count: u32) -> Roll
        = |conn| of_shard(conn, shard, after, count);
    fn woken_machines(shard: &ShardId, count: u32) -> Roll = |conn| woken(conn, shard, count);
    fn machine(id: MachineRecordId) -> StoredMachine = |conn| one(conn, id, "");
    fn machines(query: &MachineQuery, after: Option<MachineRecordId>, count: u32) -> Roll
        = |conn| list(conn, query, after, count);
    fn machine_holders(shard: &ShardId) -> Vec<ResourceId> = |conn| holders(conn, shard);
    fn holder_beside(provider: &str) -> Option<(ResourceId, String)>
        = |conn| holder_beside(conn, provider);
    fn find_machines(name: &str, provider: Option<&str>) -> Vec<StoredMachine>
        = |conn| find(conn, name, provider);
}

/// One machine, as the statements bring it.
#[derive(sqlx::FromRow)]
struct MachineRow {
    id: Uuid,
    version: i64,
    owner: String,
    phase: String,
    fields: String,
    name_ledger: String,
}

const COLUMNS: &str = "SELECT id, version, owner, phase, CAST(fields AS text) AS fields,
    CAST(name_ledger AS text) AS name_ledger FROM machines WHERE ";

/// Reads machines of a shard that are not gone.
async fn of_shard(
    conn: &mut Conn,
    shard: &ShardId,
    after: Option<MachineRecordId>,
    count: u32,
) -> Result<Roll, Error> {
    let mut sql = QueryBuilder::<Db>::new(COLUMNS);
    sql.push("phase <> 'Gone' AND owner = ").push_bind(shard.to_string());
    page(conn, sql, after, count).await
}

/// Reads machines of a shard that another writer wrote.
async fn woken(conn: &mut Conn, shard: &ShardId, count: u32) -> Result<Roll, Error> {
    let mut sql = QueryBuilder::<Db>::new(COLUMNS);
    sql.push("woken AND owner = ").push_bind(shard.to_string());
    page(conn, sql, None, count).await
}

/// Reads the machines that match a query.
async fn list(
    conn: &mut Conn,
    query: &MachineQuery,
    after: Option<MachineRecordId>,
    count: u32,
) -> Result<Roll, Error> {
    let mut sql = QueryBuilder::<Db>::new(COLUMNS);
    match query.phase {
        Some(Phase::Gone) => sql.push("phase = 'Gone'"),
        // The index of those that are not gone also serves a query without a phase.
        Some(phase) => sql.push("phase <> 'Gone' AND phase = ").push_bind(phase.as_str()),
        None if query.gone => sql.push("phase = phase"),
        None => sql.push("phase <> 'Gone'"),
    };
    if let Some(shard) = &query.shard {
        sql.push(" AND owner = ").push_bind(shard.to_string());
    }
    if let Some(cluster) = &query.cluster {
        sql.push(" AND cluster = ").push_bind(cluster.to_string());
    }
    if let Some(holder) = query.holder {
        sql.push(" AND holder = ").push_bind(*holder.as_uuid());
    }
    if query.free {
        sql.push(" AND holder IS NULL AND NOT disputed");
    }
    page(conn, sql, after, count).await
}

async fn page(
    conn: &mut Conn,
    mut sql: QueryBuilder<Db>,
    after: Option<MachineRecordId>,
    count: u32,
) -> Result<Roll, Error> {
    sql.push(" AND id > ").push_bind(after.map_or(Uuid::nil(), |it| *it.as_uuid()));
    sql.push(" ORDER BY id LIMIT ").push_bind(i64::from(count));
    let rows = sql.build_query_as::<MachineRow>().fetch_all(&mut *conn).await;
    let rows = rows.context("read machines")?;
    let full = u32::try_from(rows.len()).is_ok_and(|it| it >= count);
    let last = rows.last().map(|it| MachineRecordId::from_uuid(it.id));
    let mut roll = Roll { next: last.filter(|_| full), ..Roll::default() };
    for row in rows {
        let id = MachineRecordId::from_uuid(row.id);
        match row.stored() {
            Ok(machine) => roll.machines.push(machine),
            Err(broken) => roll.broken.push((id, broken.to_string())),
        }
    }
    Ok(roll)
}

/// Reads one machine, and locks it if the statement ends so.
pub(super) async fn one(
    conn: &mut Conn,
    id: MachineRecordId,
    lock: &'static str,
) -> Result<StoredMachine, Error> {
    let mut sql = QueryBuilder::<Db>::new(COLUMNS);
    sql.push("id = ").push_bind(*id.as_uuid()).push(lock);
    let row = sql.build_query_as::<MachineRow>().fetch_optional(&mut *conn).await;
    let missing = || Error::NotFound { what: format!("machine \"{id}\"") };
    row.context("read a machine")?.ok_or_else(missing)?.stored()
}

/// Every resource that holds a machine of a shard.
async fn holders(conn: &mut Conn, shard: &ShardId) -> Result<Vec<ResourceId>, Error> {
    let sql = "SELECT DISTINCT holder FROM machines WHERE holder IS NOT NULL AND owner = $1
        AND phase <> 'Gone'";
    let found = sqlx::query_scalar::<Db, Uuid>(sql).bind(shard.to_string());
    let found = found.fetch_all(&mut *conn).await.context("read who holds machines")?;
    Ok(found.into_iter().map(ResourceId::from_uuid).collect())
}

/// Finds a resource that holds a machine of another provider than this, and that provider.
async fn holder_beside(
    conn: &mut Conn,
    provider: &str,
) -> Result<Option<(ResourceId, String)>, Error> {
    let sql = "SELECT holder, provider FROM machines WHERE holder IS NOT NULL AND phase <> 'Gone'
        AND provider <> $1 LIMIT 1";
    let found = sqlx::query_as::<Db, (Uuid, String)>(sql).bind(provider.to_owned());
    let found = found.fetch_optional(&mut *conn).await.context("read who holds machines")?;
    Ok(found.map(|(holder, provider)| (ResourceId::from_uuid(holder), provider)))
}

/// Finds the newest machine of a name with each provider.
async fn find(
    conn: &mut Conn,
    name: &str,
    provider: Option<&str>,
) -> Result<Vec<StoredMachine>, Error> {
    let mut sql = QueryBuilder::<Db>::new(COLUMNS);
    sql.push(
        "id IN (SELECT id FROM (SELECT id, row_number() OVER (
        PARTITION BY provider ORDER BY id DESC) AS place FROM machines WHERE name = ",
    );
    sql.push_bind(name.to_owned());
    if let Some(provider) = provider {
        sql.push(" AND provider = ").push_bind(provider.to_owned());
    }
    sql.push(") AS records WHERE place = 1) ORDER BY provider");
    let rows = sql.build_query_as::<MachineRow>().fetch_all(&mut *conn).await;
    rows.context("find machines")?.into_iter().map(MachineRow::stored).collect()
}

/// Machines that are gone and that no event in the log names.
macro_rules! forgotten {
    () => {
        "SELECT id FROM machines WHERE phase = 'Gone' AND NOT EXISTS (
            SELECT 1 FROM events WHERE events.resource = machines.id) LIMIT $1"
    };
}

/// Whether there is a machine to delete.
pub(crate) async fn has_forgotten(conn: &mut Conn) -> Result<bool, Error> {
    let found = sqlx::query_scalar::<Db, Uuid>(forgotten!()).bind(1_i64);
    let found = found.fetch_optional(&mut *conn).await.context("find machines that are gone")?;
    Ok(found.is_some())
}

/// Deletes machines that are gone, up to so many.
pub(crate) async fn forget(conn: &mut Conn, count: u32) -> Result<u64, Error> {
    let sql = concat!("DELETE FROM machines WHERE id IN (", forgotten!(), ")");
    let done = sqlx::query::<Db>(sql).bind(i64::from(count));
    let done = done.execute(&mut *conn).await.context("delete machines")?;
    Ok(done.rows_affected())
}

impl MachineRow {
    fn stored(self) -> Result<StoredMachine, Error> {
        let row = format!("machine \"{}\"", self.id);
        let fields: Fields =
            serde_json::from_str(&self.fields).map_err(|_| corrupt(&row, "fields"))?;
        let rows: Vec<Row> =
            serde_json::from_str(&self.name_ledger).map_err(|_| corrupt(&row, "name ledger"))?;
        let state = Machine::hydrate(fields).map_err(|refusal| {
            let field =
                if let Refusal::InvalidInput(what) = &refusal { what } else { refusal.code() };
            corrupt(&row, field)
        })?;
        let phase: Phase = record::word(&row, "phase", &self.phase)?;
        if phase != state.phase() {
            return Err(corrupt(&row, "phase"));
        }
        if state.fields().owner.as_str() != self.owner {
            return Err(corrupt(&row, "owner"));
        }
        let record = Record {
            version: Version(self.version.unsigned_abs()),
            state,
            name_ledger: NameLedger::new(rows),
        };
        Ok(StoredMachine { id: MachineRecordId::from_uuid(self.id), record })
    }
}
