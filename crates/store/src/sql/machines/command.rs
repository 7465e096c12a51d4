//! Commands about a machine by other callers than its shard.

use sqlx::types::Json;
use usher_domain::audit;
use usher_domain::broker::phase::Phase as ResourcePhase;
use usher_domain::fleet::aggregate::Machine;
use usher_domain::fleet::command::{self as rules, Change};
use usher_domain::fleet::refusal::Refusal;
use usher_domain::object::id::{MachineRecordId, ResourceId};
use usher_kernel::{Record, Timestamp};
use uuid::Uuid;

use super::super::port::Port;
use super::super::{Conn, Db, record};
use super::{cycle, rows};
use crate::error::{Context as _, Error};
use crate::machines::{MachineCommand, StoredMachine};

impl Port {
    pub(crate) async fn command_machine(
        &self,
        id: MachineRecordId,
        command: MachineCommand,
        audit: Option<audit::Entry>,
    ) -> Result<StoredMachine, Error> {
        let write_id = Uuid::now_v7();
        let written = self
            .pool
            .write(move |conn| {
                Box::pin(async move {
                    let machine = carry_out(conn, id, command, write_id).await?;
                    Self::write_audit(conn, audit.as_ref()).await?;
                    Ok(machine)
                })
            })
            .await;
        self.notify_log(&written);
        self.notifying_due(written)
    }
}

/// Applies a command to the current row, and marks it for its shard.
async fn carry_out(
    conn: &mut Conn,
    id: MachineRecordId,
    command: MachineCommand,
    write_id: Uuid,
) -> Result<StoredMachine, Error> {
    if let MachineCommand::Hold { holder, .. } = &command {
        hold_no_other(conn, id, *holder).await?;
    }
    let StoredMachine { record, .. } = rows::one(conn, id, lock!()).await?;
    let now: Timestamp = record::now(conn).await?;
    let machine = &record.state;
    if let MachineCommand::Aim { read, .. } | MachineCommand::LetGo { read, .. } = &command
        && *read != record.version
    {
        return Err(Error::Conflict);
    }
    let changed = match command {
        MachineCommand::Hold { holder, wanted } => rules::hold(machine, holder, wanted),
        MachineCommand::Aim { holder, wanted, .. } => rules::aim(machine, holder, wanted),
        MachineCommand::LetGo { holder, .. } => rules::let_go(machine, holder),
        MachineCommand::Settle(settlement) => rules::settle(machine, settlement, now),
    };
    let Change { next, event } = changed.map_err(Error::FleetRefused)?;
    if next == *machine {
        return Ok(StoredMachine { id, record });
    }
    let version = record.version.next();
    mark(conn, (id, &next), write_id).await?;
    if let Some(event) = &event {
        cycle::write_events(conn, &[(id, &next, version, event)]).await?;
    }
    Ok(StoredMachine {
        id,
        record: Record { version, state: next, name_ledger: record.name_ledger },
    })
}

/// Refuses a resource that holds another machine already, or is gone. Its row is locked, so that of
/// two callers that take one for it at the same time the second sees the first.
async fn hold_no_other(
    conn: &mut Conn,
    id: MachineRecordId,
    holder: ResourceId,
) -> Result<(), Error> {
    let sql = concat!("SELECT phase FROM resources WHERE id = $1", lock!());
    let locked = sqlx::query_scalar::<Db, String>(sql).bind(*holder.as_uuid());
    let phase = locked.fetch_optional(&mut *conn).await.context("lock a resource")?;
    if phase.is_some_and(|it| it == ResourcePhase::Deleted.as_str()) {
        return Err(Error::NotFound { what: format!("resource \"{holder}\", which is out") });
    }
    let sql =
        "SELECT name FROM machines WHERE holder = $1 AND id <> $2 AND phase <> 'Gone' LIMIT 1";
    let other = sqlx::query_scalar::<Db, String>(sql).bind(*holder.as_uuid()).bind(*id.as_uuid());
    let other = other.fetch_optional(&mut *conn).await.context("read who holds machines")?;
    match other {
        Some(what) => Err(Error::FleetRefused(Refusal::MachineHeld(what))),
        None => Ok(()),
    }
}

/// Writes a locked row for another caller than its shard.
async fn mark(
    conn: &mut Conn,
    (id, next): (MachineRecordId, &Machine),
    write_id: Uuid,
) -> Result<(), Error> {
    let sql = "UPDATE machines SET version = version + 1, write_id = $2, phase = $3, cluster = $4,
        holder = $5, disputed = $6, woken = $7, fields = $8 WHERE id = $1";
    let fields = next.fields();
    sqlx::query::<Db>(sql)
        .bind(*id.as_uuid())
        .bind(write_id)
        .bind(next.phase().as_str())
        .bind(cycle::cluster(next))
        .bind(fields.holder.map(|it| *it.as_uuid()))
        .bind(fields.disputed.is_some())
        .bind(true)
        .bind(Json(fields.clone()))
        .execute(&mut *conn)
        .await
        .context("write a machine")?;
    Ok(())
}
