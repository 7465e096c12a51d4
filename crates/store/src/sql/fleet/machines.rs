//! Machines: one row per life, written many at once.

use std::collections::BTreeSet;

use serde_json::{Map, Value};
use sqlx::QueryBuilder;
use sqlx::types::Json;
use usher_domain::fleet::accept::Adopted;
use usher_domain::fleet::aggregate::{Fields, Machine};
use usher_domain::fleet::event::Event;
use usher_domain::fleet::ident::ShardId;
use usher_domain::fleet::phase::Phase;
use usher_domain::fleet::refusal::Refusal;
use usher_domain::object::id::{MachineLifeId, ResourceId};
use usher_kernel::{Book, Record, Row, Version};
use uuid::Uuid;

use super::super::super::{Conn, Db};
use super::super::record::{self, corrupt};
use super::shards;
use crate::error::{Doing as _, Error};
use crate::fleet::{Cycle, HOLDER, MachineQuery, MachineWrite, Roll, StoredMachine, Written};
use crate::keepable;

/// How many rows one statement writes: databases bound the values of a statement.
const ROWS_MAX: usize = 500;
/// The version that a life begins with.
const FIRST: Version = Version(1);

/// One machine, as the statements bring it.
#[derive(sqlx::FromRow)]
struct MachineRow {
    id: Uuid,
    version: i64,
    owner: String,
    phase: String,
    fields: String,
    book: String,
}

const COLUMNS: &str = "SELECT id, version, owner, phase, CAST(fields AS text) AS fields,
    CAST(book AS text) AS book FROM machines WHERE ";

/// Writes what a shard changes, under its lease.
pub(crate) async fn commit(
    conn: &mut Conn,
    cycle: &Cycle,
    write_id: Uuid,
) -> Result<Written, Error> {
    let shard = &cycle.lease.shard;
    shards::fence(conn, &cycle.lease).await?;
    let mut written = Written::default();
    for writes in cycle.writes.chunks(ROWS_MAX) {
        let done = update(conn, shard, writes, write_id).await?;
        let (kept, moved): (Vec<_>, Vec<_>) =
            writes.iter().partition(|it| done.contains(it.id.as_uuid()));
        written.moved.extend(moved.iter().map(|it| it.id));
        let told = kept.iter().filter_map(|it| {
            it.event.as_ref().map(|event| (it.id, &it.next, it.version.next(), event))
        });
        tell(conn, &told.collect::<Vec<_>>()).await?;
    }
    for adopted in cycle.adopted.chunks(ROWS_MAX) {
        written.adopted.extend(insert(conn, adopted, write_id).await?);
    }
    shards::write_lists(conn, shard, &cycle.lists).await?;
    Ok(written)
}

/// Writes the machines whose version still holds; who they are.
async fn update(
    conn: &mut Conn,
    shard: &ShardId,
    writes: &[MachineWrite],
    write_id: Uuid,
) -> Result<BTreeSet<Uuid>, Error> {
    let mut sql = QueryBuilder::<Db>::new("UPDATE machines SET version = version + 1, write_id = ");
    sql.push_bind(write_id);
    sql.push(
        ", owner = v.column3, phase = v.column4, cluster = v.column5, holder = v.column6,
            disputed = v.column7, woken = ",
    );
    sql.push_bind(false);
    sql.push(", fields = v.column8, book = v.column9 FROM (");
    sql.push_values(writes, |mut values, it| {
        let fields = it.next.fields();
        values
            .push_bind(*it.id.as_uuid())
            .push_bind(it.version.0.cast_signed())
            .push_bind(fields.owner.to_string())
            .push_bind(it.next.phase().as_str())
            .push_bind(cluster(&it.next))
            .push_bind(fields.holder.map(|it| *it.as_uuid()))
            .push_bind(fields.disputed.is_some())
            .push_bind(Json(fields.clone()))
            .push_bind(Json(it.book.rows().to_vec()));
    });
    sql.push(
        ") AS v WHERE machines.id = v.column1 AND machines.version = v.column2
            AND machines.owner = ",
    );
    sql.push_bind(shard.to_string());
    sql.push(" RETURNING machines.id");
    let done = sql.build_query_scalar::<Uuid>().fetch_all(&mut *conn).await;
    Ok(done.doing("write machines")?.into_iter().collect())
}

/// Begins the lives of machines whose names no row has.
async fn insert(
    conn: &mut Conn,
    adopted: &[Adopted],
    write_id: Uuid,
) -> Result<Vec<Option<MachineLifeId>>, Error> {
    let mut sql = QueryBuilder::<Db>::new(
        "INSERT INTO machines (id, owner, provider, name, version, write_id, phase, cluster,
            holder, disputed, woken, fields, book) ",
    );
    let ids: Vec<Uuid> = adopted.iter().map(|_| Uuid::now_v7()).collect();
    sql.push_values(ids.iter().zip(adopted), |mut values, (id, it)| {
        let fields = it.machine.fields();
        values
            .push_bind(*id)
            .push_bind(fields.owner.to_string())
            .push_bind(fields.provider.clone())
            .push_bind(fields.id.to_string())
            .push_bind(FIRST.0.cast_signed())
            .push_bind(write_id)
            .push_bind(it.machine.phase().as_str())
            .push_bind(cluster(&it.machine))
            .push_bind(fields.holder.map(|it| *it.as_uuid()))
            .push_bind(fields.disputed.is_some())
            .push_bind(false)
            .push_bind(Json(fields.clone()))
            .push_bind(Json(vec![it.row.clone()]));
    });
    sql.push(" ON CONFLICT (provider, name) WHERE phase <> 'Gone' DO NOTHING RETURNING id");
    let begun = sql.build_query_scalar::<Uuid>().fetch_all(&mut *conn).await;
    let begun: BTreeSet<Uuid> = begun.doing("adopt machines")?.into_iter().collect();
    let life = |id: Uuid| begun.contains(&id).then(|| MachineLifeId::from_uuid(id));
    Ok(ids.into_iter().map(life).collect())
}

/// A crossing of a machine, with the version it brings.
type Crossing<'a> = (MachineLifeId, &'a Machine, Version, &'a Event);

/// Tells of crossings in the one log, in their transaction.
pub(super) async fn tell(conn: &mut Conn, crossings: &[Crossing<'_>]) -> Result<(), Error> {
    if crossings.is_empty() {
        return Ok(());
    }
    let mut sql = QueryBuilder::<Db>::new(
        "INSERT INTO events (epoch, id, resource, version, type, occurred_at, data) ",
    );
    sql.push_values(crossings, |mut values, (id, machine, version, event)| {
        values
            .push("(SELECT epoch FROM installation)")
            .push_bind(Uuid::now_v7())
            .push_bind(*id.as_uuid())
            .push_bind(version.0.cast_signed())
            .push_bind(event.kind.as_str())
            .push(now!())
            .push_bind(Json(payload(machine, event)));
    });
    sql.build().execute(&mut *conn).await.doing("write an event")?;
    Ok(())
}

fn payload(machine: &Machine, event: &Event) -> Map<String, Value> {
    let fields = machine.fields();
    let mut data = Map::new();
    let mut put = |key: &str, text: &str| data.insert(key.to_owned(), text.into());
    put("machine", fields.id.as_str());
    put("provider", &fields.provider);
    put("shard", fields.owner.as_str());
    put("from", event.from.as_str());
    put("to", event.to.as_str());
    if let Some(cluster) = &event.cluster {
        put("cluster", cluster.as_str());
    }
    if let Some(error) = &event.error {
        put("error", &keepable(error));
    }
    if let Some(holder) = fields.holder {
        put(HOLDER, &holder.to_string());
    }
    data
}

/// Which machines of a batch were written by this very write.
pub(crate) async fn written_by(
    conn: &mut Conn,
    ids: &[MachineLifeId],
    write_id: Uuid,
) -> Result<BTreeSet<Uuid>, Error> {
    let mut found = BTreeSet::new();
    for ids in ids.chunks(ROWS_MAX) {
        let sql = concat!("SELECT id FROM machines WHERE write_id = $2 AND id", any!("$1"));
        let rows = sqlx::query_scalar::<Db, Uuid>(sql)
            .bind(crate::column::Ids(ids.iter().map(|it| *it.as_uuid()).collect()))
            .bind(write_id)
            .fetch_all(&mut *conn)
            .await
            .doing("ask what became of a commit")?;
        found.extend(rows);
    }
    Ok(found)
}

/// Which lives one write began, by provider and name.
pub(crate) async fn begun_by(
    conn: &mut Conn,
    adopted: &[Adopted],
    write_id: Uuid,
) -> Result<Vec<Option<MachineLifeId>>, Error> {
    let mut lives = Vec::with_capacity(adopted.len());
    for it in adopted {
        let fields = it.machine.fields();
        let sql = "SELECT id FROM machines WHERE provider = $1 AND name = $2 AND write_id = $3";
        let found = sqlx::query_scalar::<Db, Uuid>(sql)
            .bind(fields.provider.clone())
            .bind(fields.id.as_str())
            .bind(write_id)
            .fetch_optional(&mut *conn)
            .await
            .doing("ask what became of a commit")?;
        lives.push(found.map(MachineLifeId::from_uuid));
    }
    Ok(lives)
}

/// Takes the mark off machines that their shard has read.
pub(crate) async fn heed(
    conn: &mut Conn,
    shard: &ShardId,
    read: &[(MachineLifeId, Version)],
) -> Result<(), Error> {
    for read in read.chunks(ROWS_MAX) {
        let mut sql = QueryBuilder::<Db>::new("UPDATE machines SET woken = ");
        sql.push_bind(false);
        sql.push(" FROM (");
        sql.push_values(read, |mut values, (id, version)| {
            values.push_bind(*id.as_uuid()).push_bind(version.0.cast_signed());
        });
        sql.push(
            ") AS v WHERE machines.id = v.column1 AND machines.version = v.column2
                AND machines.owner = ",
        );
        sql.push_bind(shard.to_string());
        sql.build().execute(&mut *conn).await.doing("note what a shard has read")?;
    }
    Ok(())
}

/// Reads machines of a shard that are not gone.
pub(crate) async fn of_shard(
    conn: &mut Conn,
    shard: &ShardId,
    after: Option<MachineLifeId>,
    count: u32,
) -> Result<Roll, Error> {
    let mut sql = QueryBuilder::<Db>::new(COLUMNS);
    sql.push("phase <> 'Gone' AND owner = ").push_bind(shard.to_string());
    page(conn, sql, after, count).await
}

/// Reads machines of a shard that somebody else wrote.
pub(crate) async fn woken(conn: &mut Conn, shard: &ShardId, count: u32) -> Result<Roll, Error> {
    let mut sql = QueryBuilder::<Db>::new(COLUMNS);
    sql.push("woken AND owner = ").push_bind(shard.to_string());
    page(conn, sql, None, count).await
}

/// Reads the machines that are asked for.
pub(crate) async fn query(
    conn: &mut Conn,
    query: &MachineQuery,
    after: Option<MachineLifeId>,
    count: u32,
) -> Result<Roll, Error> {
    let mut sql = QueryBuilder::<Db>::new(COLUMNS);
    match query.phase {
        Some(Phase::Gone) => sql.push("phase = 'Gone'"),
        // An index of those that are not gone serves a plan that does not know the phase, too.
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
    after: Option<MachineLifeId>,
    count: u32,
) -> Result<Roll, Error> {
    sql.push(" AND id > ").push_bind(after.map_or(Uuid::nil(), |it| *it.as_uuid()));
    sql.push(" ORDER BY id LIMIT ").push_bind(i64::from(count));
    let rows = sql.build_query_as::<MachineRow>().fetch_all(&mut *conn).await;
    let rows = rows.doing("read machines")?;
    let full = u32::try_from(rows.len()).is_ok_and(|it| it >= count);
    let last = rows.last().map(|it| MachineLifeId::from_uuid(it.id));
    let mut roll = Roll { next: last.filter(|_| full), ..Roll::default() };
    for row in rows {
        let id = MachineLifeId::from_uuid(row.id);
        match row.stored() {
            Ok(machine) => roll.machines.push(machine),
            Err(broken) => roll.broken.push((id, broken.to_string())),
        }
    }
    Ok(roll)
}

/// Reads one machine.
pub(crate) async fn read(conn: &mut Conn, id: MachineLifeId) -> Result<StoredMachine, Error> {
    one(conn, id, "").await
}

pub(super) async fn one(
    conn: &mut Conn,
    id: MachineLifeId,
    lock: &'static str,
) -> Result<StoredMachine, Error> {
    let mut sql = QueryBuilder::<Db>::new(COLUMNS);
    sql.push("id = ").push_bind(*id.as_uuid()).push(lock);
    let row = sql.build_query_as::<MachineRow>().fetch_optional(&mut *conn).await;
    let missing = || Error::NotFound { what: format!("machine \"{id}\"") };
    row.doing("read a machine")?.ok_or_else(missing)?.stored()
}

/// Every resource that holds a machine of a shard.
pub(crate) async fn holders(conn: &mut Conn, shard: &ShardId) -> Result<Vec<ResourceId>, Error> {
    let sql = "SELECT DISTINCT holder FROM machines WHERE holder IS NOT NULL AND owner = $1
        AND phase <> 'Gone'";
    let found = sqlx::query_scalar::<Db, Uuid>(sql).bind(shard.to_string());
    let found = found.fetch_all(&mut *conn).await.doing("read who holds machines")?;
    Ok(found.into_iter().map(ResourceId::from_uuid).collect())
}

/// Finds a resource that holds a machine of another provider than this, and that provider.
pub(crate) async fn holder_beside(
    conn: &mut Conn,
    provider: &str,
) -> Result<Option<(ResourceId, String)>, Error> {
    let sql = "SELECT holder, provider FROM machines WHERE holder IS NOT NULL AND phase <> 'Gone'
        AND provider <> $1 LIMIT 1";
    let found = sqlx::query_as::<Db, (Uuid, String)>(sql).bind(provider.to_owned());
    let found = found.fetch_optional(&mut *conn).await.doing("read who holds machines")?;
    Ok(found.map(|(holder, provider)| (ResourceId::from_uuid(holder), provider)))
}

/// Finds the newest life of a name with each provider.
pub(crate) async fn find(
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
    sql.push(") AS lives WHERE place = 1) ORDER BY provider");
    let rows = sql.build_query_as::<MachineRow>().fetch_all(&mut *conn).await;
    rows.doing("find machines")?.into_iter().map(MachineRow::stored).collect()
}

/// Machines that are gone and of which the log says nothing any more.
macro_rules! forgotten {
    () => {
        "SELECT id FROM machines WHERE phase = 'Gone' AND NOT EXISTS (
            SELECT 1 FROM events WHERE events.resource = machines.id) LIMIT $1"
    };
}

/// Whether there is a machine to be forgotten.
pub(crate) async fn has_forgotten(conn: &mut Conn) -> Result<bool, Error> {
    let found = sqlx::query_scalar::<Db, Uuid>(forgotten!()).bind(1_i64);
    let found = found.fetch_optional(&mut *conn).await.doing("look for machines that are gone")?;
    Ok(found.is_some())
}

/// Forgets machines that are gone, up to so many.
pub(crate) async fn forget(conn: &mut Conn, count: u32) -> Result<u64, Error> {
    let sql = concat!("DELETE FROM machines WHERE id IN (", forgotten!(), ")");
    let done = sqlx::query::<Db>(sql).bind(i64::from(count));
    let done = done.execute(&mut *conn).await.doing("forget machines")?;
    Ok(done.rows_affected())
}

pub(super) fn cluster(machine: &Machine) -> Option<String> {
    machine.state().binding().map(|it| it.cluster.to_string())
}

impl MachineRow {
    fn stored(self) -> Result<StoredMachine, Error> {
        let row = format!("machine \"{}\"", self.id);
        let fields: Fields =
            serde_json::from_str(&self.fields).map_err(|_| corrupt(&row, "fields"))?;
        let rows: Vec<Row> = serde_json::from_str(&self.book).map_err(|_| corrupt(&row, "book"))?;
        let state = Machine::hydrate(fields).map_err(|refusal| {
            let field =
                if let Refusal::InvalidInput { what } = &refusal { what } else { refusal.code() };
            corrupt(&row, field)
        })?;
        let phase: Phase = record::word(&row, "phase", &self.phase)?;
        if phase != state.phase() {
            return Err(corrupt(&row, "phase"));
        }
        if state.fields().owner.as_str() != self.owner {
            return Err(corrupt(&row, "owner"));
        }
        let record =
            Record { version: Version(self.version.unsigned_abs()), state, book: Book::new(rows) };
        Ok(StoredMachine { id: MachineLifeId::from_uuid(self.id), record })
    }
}
