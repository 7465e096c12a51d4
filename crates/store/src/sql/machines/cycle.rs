//! Committing a cycle of a shard: many machines at once, under the shard's lease.

use std::collections::BTreeSet;

use serde_json::{Map, Value};
use sqlx::QueryBuilder;
use sqlx::types::Json;
use usher_domain::fleet::accept::Adopted;
use usher_domain::fleet::aggregate::Machine;
use usher_domain::fleet::event::Event;
use usher_domain::fleet::ident::ShardId;
use usher_domain::object::id::MachineRecordId;
use usher_kernel::Version;
use uuid::Uuid;

use super::super::port::Port;
use super::super::{Conn, Db};
use super::shards;
use crate::error::{Context as _, Error};
use crate::keepable;
use crate::machines::{Cycle, HOLDER, MachineWrite, ShardLease, Written};

/// How many rows one statement writes: databases bound the values of a statement.
const ROWS_MAX: usize = 500;
/// The version of a new machine.
const FIRST: Version = Version(1);

writes! {
    fn heed_machines(lease: ShardLease, read: Vec<(MachineRecordId, Version)>) -> ()
        = |conn| heed(conn, &lease, &read);
}

impl Port {
    pub(crate) async fn commit_cycle(&self, cycle: Cycle) -> Result<Written, Error> {
        let write_id = Uuid::now_v7();
        let shard = cycle.lease.shard.clone();
        let items: Vec<MachineRecordId> = cycle.writes.iter().map(|it| it.id).collect();
        let adopted = cycle.adopted.clone();
        // Resources that wait for a machine are woken when there are new ones.
        let tells = !adopted.is_empty() || cycle.writes.iter().any(|it| it.event.is_some());
        let written = self
            .pool
            .write(move |conn| Box::pin(async move { commit(conn, &cycle, write_id).await }))
            .await;
        if tells {
            self.notify_log(&written);
        }
        match written {
            Err(Error::OutcomeUnknown { source }) => {
                let known = self.known_cycle(&shard, (&items, &adopted), write_id).await?;
                known.ok_or_else(|| Error::new("commit", source))
            }
            other => other,
        }
    }

    /// The outcome of a cycle whose answer was lost, read from its rows once no write under
    /// a lease of the shard is open. A cycle without any trace was not written, or wrote nothing.
    async fn known_cycle(
        &self,
        shard: &ShardId,
        (items, adopted): (&[MachineRecordId], &[Adopted]),
        write_id: Uuid,
    ) -> Result<Option<Written>, Error> {
        let conn = &mut *self.pool.read().await?;
        shards::quiesce(conn, shard).await?;
        let done = written_by(conn, items, write_id).await?;
        let begun = begun_by(conn, adopted, write_id).await?;
        if done.is_empty() && begun.iter().all(Option::is_none) {
            return Ok(None);
        }
        let moved = items.iter().filter(|it| !done.contains(it.as_uuid())).copied().collect();
        Ok(Some(Written { adopted: begun, moved }))
    }
}

/// Writes what a shard changes, under its lease.
async fn commit(conn: &mut Conn, cycle: &Cycle, write_id: Uuid) -> Result<Written, Error> {
    let shard = &cycle.lease.shard;
    shards::fence(conn, &cycle.lease).await?;
    let mut written = Written::default();
    for writes in cycle.writes.chunks(ROWS_MAX) {
        let done = update(conn, shard, writes, write_id).await?;
        let (kept, moved): (Vec<_>, Vec<_>) =
            writes.iter().partition(|it| done.contains(it.id.as_uuid()));
        written.moved.extend(moved.iter().map(|it| it.id));
        let events = kept.iter().filter_map(|it| {
            it.event.as_ref().map(|event| (it.id, &it.next, it.version.next(), event))
        });
        write_events(conn, &events.collect::<Vec<_>>()).await?;
    }
    for adopted in cycle.adopted.chunks(ROWS_MAX) {
        written.adopted.extend(insert(conn, adopted, write_id).await?);
    }
    shards::write_lists(conn, shard, &cycle.lists).await?;
    Ok(written)
}

/// Writes the machines whose version still holds, and returns their ids.
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
    sql.push(", fields = v.column8, name_ledger = v.column9 FROM (");
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
            .push_bind(Json(it.name_ledger.rows().to_vec()));
    });
    sql.push(
        ") AS v WHERE machines.id = v.column1 AND machines.version = v.column2
            AND machines.owner = ",
    );
    sql.push_bind(shard.to_string());
    sql.push(" RETURNING machines.id");
    let done = sql.build_query_scalar::<Uuid>().fetch_all(&mut *conn).await;
    Ok(done.context("write machines")?.into_iter().collect())
}

/// Inserts machines whose names no row has.
async fn insert(
    conn: &mut Conn,
    adopted: &[Adopted],
    write_id: Uuid,
) -> Result<Vec<Option<MachineRecordId>>, Error> {
    let mut sql = QueryBuilder::<Db>::new(
        "INSERT INTO machines (id, owner, provider, name, version, write_id, phase, cluster,
            holder, disputed, woken, fields, name_ledger) ",
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
    let begun: BTreeSet<Uuid> = begun.context("adopt machines")?.into_iter().collect();
    let item = |id: Uuid| begun.contains(&id).then(|| MachineRecordId::from_uuid(id));
    Ok(ids.into_iter().map(item).collect())
}

/// A crossing of a machine, with the version it brings.
type Crossing<'a> = (MachineRecordId, &'a Machine, Version, &'a Event);

/// Writes the events of crossings to the one log, in their transaction.
pub(super) async fn write_events(conn: &mut Conn, crossings: &[Crossing<'_>]) -> Result<(), Error> {
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
    sql.build().execute(&mut *conn).await.context("write an event")?;
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
async fn written_by(
    conn: &mut Conn,
    ids: &[MachineRecordId],
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
            .context("read the outcome of a commit")?;
        found.extend(rows);
    }
    Ok(found)
}

/// Which machines one write inserted, by provider and name.
async fn begun_by(
    conn: &mut Conn,
    adopted: &[Adopted],
    write_id: Uuid,
) -> Result<Vec<Option<MachineRecordId>>, Error> {
    let mut items = Vec::with_capacity(adopted.len());
    for it in adopted {
        let fields = it.machine.fields();
        let sql = "SELECT id FROM machines WHERE provider = $1 AND name = $2 AND write_id = $3";
        let found = sqlx::query_scalar::<Db, Uuid>(sql)
            .bind(fields.provider.clone())
            .bind(fields.id.as_str())
            .bind(write_id)
            .fetch_optional(&mut *conn)
            .await
            .context("read the outcome of a commit")?;
        items.push(found.map(MachineRecordId::from_uuid));
    }
    Ok(items)
}

/// Takes the mark off machines that their shard has read.
async fn heed(
    conn: &mut Conn,
    lease: &ShardLease,
    read: &[(MachineRecordId, Version)],
) -> Result<(), Error> {
    shards::fence(conn, lease).await?;
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
        sql.push_bind(lease.shard.to_string());
        sql.build().execute(&mut *conn).await.context("note what a shard has read")?;
    }
    Ok(())
}

pub(super) fn cluster(machine: &Machine) -> Option<String> {
    machine.state().binding().map(|it| it.cluster.to_string())
}
