//! Accepting a declaration: everything it needs, in one transaction that several may share.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use sqlx::QueryBuilder;
use sqlx::types::Json;
use usher_domain::broker::aggregate::Resource;
use uuid::Uuid;

use super::super::group::Batchable;
use super::super::port::Port;
use super::super::{Conn, Db, audit, events, idempotency, names, provider_configs, queue, record};
use crate::column::{Ids, Time};
use crate::error::{Context as _, Error};
use crate::port::Acceptance;
use crate::port::WorkItem;

impl Port {
    pub(crate) async fn accept(&self, acceptance: Acceptance) -> Result<(), Error> {
        let declared = Arc::new(Declared { acceptance, write_id: Uuid::now_v7() });
        let id = declared.item().id();
        let written = self.accepts.write(&self.pool, declared).await;
        self.notify_log(&written);
        self.notify_due(&written);
        match written {
            Err(Error::OutcomeUnknown { source }) => match self.written(id).await? {
                Some(_) => Ok(()),
                None => Err(Error::new("accept a declaration", source)),
            },
            other => other,
        }
    }
}

/// An accepted declaration, and the id of its write.
#[derive(Debug)]
pub(crate) struct Declared {
    acceptance: Acceptance,
    write_id: Uuid,
}

impl Declared {
    fn resource(&self) -> &Resource {
        &self.acceptance.accepted.resource
    }

    fn item(&self) -> WorkItem {
        WorkItem::Resource(self.resource().id())
    }
}

impl Batchable for Declared {
    /// Writes accepted declarations, or returns which of the views moved since they were resolved.
    async fn write(conn: &mut Conn, group: &[Arc<Self>]) -> Result<(), Error> {
        for it in group {
            if let Some(key) = &it.acceptance.key {
                idempotency::remember(conn, key, &it.resource().id().to_string()).await?;
            }
        }
        hold_placements(conn, group).await?;
        for it in group {
            if let Some(config) = &it.acceptance.accepted.new_provider_config {
                provider_configs::insert(conn, config, it.resource()).await?;
            }
        }
        record::insert(conn, group.iter().map(|it| (it.item(), it.write_id))).await?;
        insert_tenancies(conn, group).await?;
        insert_resources(conn, group).await?;
        let ledgers =
            group.iter().map(|it| (it.item().id(), it.acceptance.accepted.rows.as_slice()));
        names::begin(conn, &ledgers.collect::<Vec<_>>()).await?;
        queue::insert(conn, &group.iter().map(|it| it.item()).collect::<Vec<_>>()).await?;
        let crossings = group
            .iter()
            .map(|it| (it.resource(), Acceptance::VERSION, &it.acceptance.accepted.event));
        events::write(conn, &crossings.collect::<Vec<_>>()).await?;
        let notes = group.iter().filter_map(|it| it.acceptance.audit.as_ref());
        audit::write(conn, &notes.collect::<Vec<_>>()).await?;
        // Last, because other declarations with the same credential wait for this row.
        provider_configs::add_users(conn, &new_users(group)).await
    }
}

/// How many users each existing ProviderConfig gains.
fn new_users(group: &[Arc<Declared>]) -> BTreeMap<Uuid, i64> {
    let mut users: BTreeMap<Uuid, i64> = BTreeMap::new();
    for it in group {
        if it.acceptance.accepted.new_provider_config.is_none() {
            *users.entry(*it.resource().pinned().provider_config.as_uuid()).or_default() += 1;
        }
    }
    users
}

/// Locks the placements: none ends while this transaction runs.
async fn hold_placements(conn: &mut Conn, group: &[Arc<Declared>]) -> Result<(), Error> {
    let sql = concat!(
        "SELECT project, world FROM placements
        WHERE phase NOT IN ('Terminating', 'Deleted') AND project",
        any!("$1"),
        share!()
    );
    let projects: BTreeSet<Uuid> =
        group.iter().map(|it| *it.resource().fields().project.as_uuid()).collect();
    let worlds = sqlx::query_as::<Db, (Uuid, String)>(sql)
        .bind(Ids(projects.into_iter().collect()))
        .fetch_all(&mut *conn)
        .await
        .context("read a placement")?;
    let worlds: BTreeMap<Uuid, String> = worlds.into_iter().collect();
    let holds = |it: &Arc<Declared>| {
        let found = worlds.get(it.resource().fields().project.as_uuid());
        found.is_some_and(|world| *world == it.resource().pinned().world)
    };
    if group.iter().all(holds) { Ok(()) } else { Err(Error::ViewsMoved { what: "placement" }) }
}

async fn insert_resources(conn: &mut Conn, group: &[Arc<Declared>]) -> Result<(), Error> {
    let mut sql = QueryBuilder::<Db>::new(
        "INSERT INTO resources (id, name, tenancy, project, blueprint_version, credential,
            provider_config, installation, world, namespace, composite, xr_name, role, strategy,
            parameters, api_url, agent_image, phase, generation, generation_state,
            created_at, updated_at, phase_since) ",
    );
    sql.push_values(group, |mut values, declared| {
        let it = declared.resource().fields();
        values
            .push_bind(*it.id.as_uuid())
            .push_bind(it.name.clone())
            .push_bind(*it.tenancy.as_uuid())
            .push_bind(*it.project.as_uuid())
            .push_bind(*it.blueprint_version.as_uuid())
            .push_bind(*it.credential.as_uuid())
            .push_bind(*it.pinned.provider_config.as_uuid())
            .push_bind(*it.pinned.installation.as_uuid())
            .push_bind(it.pinned.world.clone())
            .push_bind(it.pinned.namespace.clone())
            .push_bind(Json(&it.pinned.composite))
            .push_bind(it.pinned.xr_name.clone())
            .push_bind(it.pinned.role.as_str())
            .push_bind(it.pinned.strategy.as_str())
            .push_bind(Json(&it.pinned.parameters))
            .push_bind(it.pinned.api_url.as_str())
            .push_bind(it.pinned.agent_image.as_str())
            .push_bind(it.phase.as_str())
            .push_bind(i64::from(it.generation.0))
            .push_bind(it.generation_state.as_str())
            .push_bind(Time(it.created_at))
            .push_bind(Time(it.updated_at))
            .push_bind(Time(it.phase_since));
    });
    sql.push(" ON CONFLICT (project, held_name) DO NOTHING");
    let inserted = sql
        .build()
        .execute(&mut *conn)
        .await
        .map_err(|source| moved("blueprint or credential", "write a resource", source))?;
    let all = u64::try_from(group.len()).is_ok_and(|all| all == inserted.rows_affected());
    if all { Ok(()) } else { Err(Error::ViewsMoved { what: "name" }) }
}

async fn insert_tenancies(conn: &mut Conn, group: &[Arc<Declared>]) -> Result<(), Error> {
    let mut sql =
        QueryBuilder::<Db>::new("INSERT INTO tenancy_resources (id, project, created_at) ");
    sql.push_values(group, |mut values, declared| {
        let it = declared.resource().fields();
        values
            .push_bind(*it.tenancy.as_uuid())
            .push_bind(*it.project.as_uuid())
            .push_bind(Time(it.created_at));
    });
    sql.build()
        .execute(&mut *conn)
        .await
        .map_err(|source| moved("project", "write a tenancy resource", source))?;
    Ok(())
}

/// A reference that points nowhere was there when the views were read.
pub(crate) fn moved(what: &'static str, doing: &'static str, source: sqlx::Error) -> Error {
    if Error::is_reference(&source) {
        Error::ViewsMoved { what }
    } else {
        Error::new(doing, source)
    }
}
