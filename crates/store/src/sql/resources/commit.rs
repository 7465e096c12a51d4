//! Committing a step: state, identity rows, event, side writes and the lease, in one transaction
//! that several steps may share.

use std::sync::Arc;
use std::time::Duration;

use usher_domain::broker::aggregate::{Fields, Resource};
use usher_domain::broker::side_writes::SideWrites;
use usher_domain::object::enrolment::TokenChange;
use uuid::Uuid;

use super::super::group::Batchable;
use super::super::port::Port;
use super::super::record::{self, Move};
use super::super::{Conn, Db, events, names, provider_configs, queue, tokens};
use super::{load, tombstone};
use crate::error::{Context as _, Error};
use crate::port::ResourceWrite;

impl Port {
    pub(crate) async fn commit(&self, write: ResourceWrite) -> Result<(), Error> {
        let (write_id, bound) = (Uuid::now_v7(), self.settings.request_bound);
        let (id, version) = (*write.next.id().as_uuid(), write.version);
        let (tells, ends) = (write.event.is_some(), write.lease.is_none());
        let step = Arc::new(Step { write, write_id, bound });
        let written = self.commits.write(&self.pool, step).await;
        if tells {
            self.notify_log(&written);
        }
        // An item that keeps its lease for another step is not due and makes nothing due.
        if ends {
            self.notify_due(&written);
        }
        self.known(written, (id, version), write_id).await
    }
}

/// A step of a resource, and the id of its write.
#[derive(Debug)]
pub(crate) struct Step {
    write: ResourceWrite,
    write_id: Uuid,
    /// How long a request may outlive its worker's lease.
    bound: Duration,
}

impl Batchable for Step {
    /// Writes the steps whose versions still hold; if one of them does not, none is written.
    async fn write(conn: &mut Conn, group: &[Arc<Self>]) -> Result<(), Error> {
        let moves: Vec<Move> = group
            .iter()
            .map(|it| (*it.write.next.id().as_uuid(), it.write.version, it.write_id))
            .collect();
        record::advance(conn, &moves).await?;
        let changes: Vec<Change<'_>> = group.iter().map(|it| (&it.write, it.bound)).collect();
        change(conn, &changes).await?;
        let leases = group.iter().map(|it| (it.write.lease, it.write.release.as_ref()));
        queue::settle(conn, &leases.collect::<Vec<_>>()).await
    }
}

/// What changes, and how long a request may outlive its worker's lease.
pub(crate) type Change<'a> = (&'a ResourceWrite, Duration);

/// Writes everything of resources whose versions were moved in this transaction.
pub(crate) async fn change(conn: &mut Conn, changes: &[Change<'_>]) -> Result<(), Error> {
    let states = changes.iter().filter(|(it, _)| it.next != it.before);
    let states: Vec<&Fields> = states.map(|(it, _)| it.next.fields()).collect();
    load::update(conn, &states).await?;
    let ledgers = changes.iter().map(|(it, _)| (*it.next.id().as_uuid(), it.rows.as_slice()));
    names::write(conn, &ledgers.collect::<Vec<_>>()).await?;
    let crossings = changes
        .iter()
        .filter_map(|(it, _)| it.event.as_ref().map(|event| (&it.next, it.version.next(), event)));
    events::write(conn, &crossings.collect::<Vec<_>>()).await?;
    let mut ordered: Vec<&Change<'_>> = changes.iter().collect();
    // ProviderConfigs are locked in one order.
    ordered.sort_by_key(|(it, _)| it.next.pinned().provider_config);
    for (it, bound) in ordered {
        apply_side_writes(conn, (&it.before, &it.next), *bound).await?;
    }
    Ok(())
}

/// The side writes that the domain decided.
async fn apply_side_writes(
    conn: &mut Conn,
    (before, after): (&Resource, &Resource),
    bound: Duration,
) -> Result<(), Error> {
    let side_writes = SideWrites::of(before, after);
    if side_writes.tokens != TokenChange::default() {
        tokens::revoke::with_write(conn, side_writes.tokens, after).await?;
    }
    if side_writes.release_provider_config {
        release_tenancy(conn, after).await?;
        provider_configs::release(conn, after.pinned().provider_config, bound).await?;
    }
    if side_writes.create_tombstone {
        tombstone::create(conn, after).await?;
    }
    Ok(())
}

async fn release_tenancy(conn: &mut Conn, resource: &Resource) -> Result<(), Error> {
    let sql = concat!(
        "UPDATE tenancy_resources SET released_at = ",
        now!(),
        " WHERE id = $1 AND released_at IS NULL"
    );
    sqlx::query::<Db>(sql)
        .bind(resource.fields().tenancy.as_uuid())
        .execute(&mut *conn)
        .await
        .context("release a tenancy resource")?;
    Ok(())
}
