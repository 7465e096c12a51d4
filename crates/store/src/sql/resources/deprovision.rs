//! Commands of operators about a resource (deprovision, replace, abandon, reap, retry): the row is
//! locked, the domain decides what changes, that is written, and the resource is woken.

use std::time::Duration;

use usher_domain::audit;
use usher_domain::broker::aggregate::Resource;
use usher_domain::broker::command::{self as rules, Change, Outstanding};
use usher_domain::broker::event::Outcome;
use usher_domain::broker::phase::Phase;
use usher_domain::object::id::ResourceId;
use usher_kernel::{Record, Timestamp, Version};
use uuid::Uuid;

use super::super::port::Port;
use super::super::{Conn, Db, queue, record};
use super::{commit, load, tombstone};
use crate::error::{Context as _, Error};
use crate::port::WorkItem;
use crate::port::{Command, ResourceWrite};

impl Port {
    pub(crate) async fn command(
        &self,
        id: ResourceId,
        command: Command,
        audit: Option<audit::Entry>,
    ) -> Result<(Resource, Version), Error> {
        let bound = self.settings.request_bound;
        let written = self.pool.write(move |conn| {
            Box::pin(async move { carry_out(conn, (id, &command), audit, bound).await })
        });
        let written = written.await;
        self.notify_log(&written);
        self.notifying_due(written)
    }
}

/// Applies a command; the resource then, and its version. Repeating it changes nothing and
/// writes no event; the resource is woken either way. The row of the audit log names the
/// resource's own project.
async fn carry_out(
    conn: &mut Conn,
    (id, command): (ResourceId, &Command),
    audit: Option<audit::Entry>,
    bound: Duration,
) -> Result<(Resource, Version), Error> {
    let (record, now) = load::locked(conn, id).await?;
    if matches!(command, Command::Abandon { .. }) {
        record::lock(conn, *record.state.pinned().provider_config.as_uuid()).await?;
    }
    let project = Some(record.state.fields().project);
    let item = awake(&record.state);
    let entry = queue::entry(conn, WorkItem::Resource(id), true).await?;
    let now = entry.as_ref().map_or(now, |it| it.now.0);
    let may_act_until = entry.and_then(|it| it.entry().may_act_until());
    let outstanding = Outstanding { may_act_until, request_bound: bound };
    let change = decide(conn, &record, command, (&outstanding, now)).await?;
    let (next, mut version) = (change.next.clone(), record.version);
    if change.next != record.state || !change.rows.is_empty() || change.event.is_some() {
        record::advance(conn, &[(*id.as_uuid(), record.version, Uuid::now_v7())]).await?;
        version = version.next();
        let write = ResourceWrite {
            version: record.version,
            before: record.state,
            next: change.next,
            rows: change.rows,
            event: change.event,
            lease: None,
            release: None,
        };
        commit::change(conn, &[(&write, bound)]).await?;
        // The last step observed under another desired state.
        queue::forget_reason(conn, item).await?;
    }
    match command {
        Command::Retry => queue::unpark(conn, item).await?,
        Command::Reap { .. } => tombstone::create(conn, &next).await?,
        Command::Deprovision | Command::Replace | Command::Abandon { .. } => {}
    }
    queue::wake(conn, awake(&next)).await?;
    let audit = audit.map(|it| audit::Entry { project, ..it });
    Port::write_audit(conn, audit.as_ref()).await?;
    Ok((next, version))
}

/// The work item of a resource.
fn awake(resource: &Resource) -> WorkItem {
    let removed = resource.fields().outcome == Some(Outcome::Removed);
    if resource.phase() == Phase::Deleted && removed {
        WorkItem::Tombstone(resource.id())
    } else {
        WorkItem::Resource(resource.id())
    }
}

async fn decide(
    conn: &mut Conn,
    record: &Record<Resource>,
    command: &Command,
    (outstanding, now): (&Outstanding, Timestamp),
) -> Result<Change, Error> {
    let resource = &record.state;
    match command {
        Command::Deprovision => Ok(rules::deprovision(resource, outstanding, now)),
        Command::Replace => rules::replace(resource, outstanding, now).map_err(Error::Refused),
        Command::Abandon { by, reason } => {
            let registered = has_live_peer(conn, resource.id()).await?;
            rules::abandon(record, registered, (by, reason), now).map_err(Error::Refused)
        }
        Command::Reap { by } => rules::reap(record, by, now).map_err(Error::Refused),
        Command::Retry => Ok(Change { next: resource.clone(), rows: vec![], event: None }),
    }
}

async fn has_live_peer(conn: &mut Conn, id: ResourceId) -> Result<bool, Error> {
    let sql = "SELECT 1 FROM peers WHERE resource = $1 AND stage <> 'deregistered' LIMIT 1";
    let found = sqlx::query::<Db>(sql)
        .bind(id.as_uuid())
        .fetch_optional(&mut *conn)
        .await
        .context("find a live peer")?;
    Ok(found.is_some())
}
