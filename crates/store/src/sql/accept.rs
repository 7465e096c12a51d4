//! Accepting a declaration: everything it needs, in one transaction.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use sqlx::QueryBuilder;
use sqlx::types::Json;
use usher_domain::audit;
use usher_domain::broker::aggregate::Resource;
use usher_domain::broker::provider_config::ProviderConfig;
use usher_kernel::schedule::Entry;
use uuid::Uuid;

use super::super::{Conn, Db};
use super::gather::Together;
use super::{events, names, queue};
use crate::column::{Ids, Time};
use crate::error::{Doing as _, Error};
use crate::life::Life;
use crate::port::{Acceptance, RememberedKey};

/// An accepted declaration, and what its write is known by.
#[derive(Debug)]
pub(crate) struct Declared {
    pub(crate) acceptance: Acceptance,
    pub(crate) write_id: Uuid,
    /// Its place in the queue, where its lease may be taken already.
    pub(crate) entry: Entry,
    /// Whether the write made somebody else due.
    pub(crate) stirs: AtomicBool,
}

impl Declared {
    fn resource(&self) -> &Resource {
        &self.acceptance.accepted.resource
    }

    fn life(&self) -> Life {
        Life::Resource(self.resource().id())
    }
}

impl Together for Declared {
    /// Writes accepted declarations, or says which of the views moved since they were resolved.
    async fn write(conn: &mut Conn, group: &[Arc<Self>]) -> Result<(), Error> {
        for it in group {
            if let Some(key) = &it.acceptance.key {
                remember(conn, key, &it.resource().id().to_string()).await?;
            }
        }
        hold_placements(conn, group).await?;
        for it in group {
            if let Some(config) = &it.acceptance.accepted.new_provider_config {
                begin_config(conn, config, it.resource()).await?;
                it.stirs.store(true, Ordering::Relaxed);
            }
        }
        insert_lives(conn, group.iter().map(|it| (it.life(), it.write_id))).await?;
        insert_tenancies(conn, group).await?;
        insert_resources(conn, group).await?;
        let books = group.iter().map(|it| (it.life().id(), it.acceptance.accepted.rows.as_slice()));
        names::begin(conn, &books.collect::<Vec<_>>()).await?;
        let entries = group.iter().map(|it| (it.life(), &it.entry));
        queue::begin(conn, &entries.collect::<Vec<_>>()).await?;
        let told = group
            .iter()
            .map(|it| (it.resource(), Acceptance::VERSION, &it.acceptance.accepted.event));
        events::tell(conn, &told.collect::<Vec<_>>()).await?;
        let notes = group.iter().filter_map(|it| it.acceptance.audit.as_ref());
        note(conn, &notes.collect::<Vec<_>>()).await?;
        // Last, because others who declare with the same credential wait for this row.
        join(conn, group).await
    }
}

/// Nobody ends the placements while this transaction runs.
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
        .doing("read a placement")?;
    let worlds: BTreeMap<Uuid, String> = worlds.into_iter().collect();
    let holds = |it: &Arc<Declared>| {
        let found = worlds.get(it.resource().fields().project.as_uuid());
        found.is_some_and(|world| *world == it.resource().pinned().world)
    };
    if group.iter().all(holds) { Ok(()) } else { Err(Error::ViewsMoved { what: "placement" }) }
}

async fn insert_lives(
    conn: &mut Conn,
    lives: impl IntoIterator<Item = (Life, Uuid)>,
) -> Result<(), Error> {
    let mut sql = QueryBuilder::<Db>::new("INSERT INTO lives (id, kind, version, write_id) ");
    sql.push_values(lives, |mut values, (life, write_id)| {
        let version = Acceptance::VERSION.0.cast_signed();
        values.push_bind(life.id()).push_bind(life.kind()).push_bind(version).push_bind(write_id);
    });
    sql.build().execute(&mut *conn).await.doing("begin a life")?;
    Ok(())
}

/// The first user of a ProviderConfig brings its row along.
async fn begin_config(
    conn: &mut Conn,
    config: &ProviderConfig,
    resource: &Resource,
) -> Result<(), Error> {
    let life = Life::ProviderConfig(config.id);
    insert_lives(conn, [(life, Uuid::now_v7())]).await?;
    let sql = "INSERT INTO provider_configs (id, installation, world, namespace, provider,
            credential, mount, path, users, phase, generation, quiet_until)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
        ON CONFLICT (world, namespace, credential) DO NOTHING";
    let inserted = sqlx::query::<Db>(sql)
        .bind(config.id.as_uuid())
        .bind(config.installation.as_uuid())
        .bind(&config.world)
        .bind(&config.namespace)
        .bind(config.provider.as_str())
        .bind(config.credential.as_uuid())
        .bind(config.coordinates.mount())
        .bind(config.coordinates.path())
        .bind(i64::from(config.users))
        .bind(config.phase.as_str())
        .bind(i64::from(config.generation.0))
        .bind(Time::some(config.quiet_until))
        .execute(&mut *conn)
        .await
        .map_err(|source| moved("credential", "begin a ProviderConfig", source))?;
    if inserted.rows_affected() == 0 {
        return Err(Error::ViewsMoved { what: "provider_config" });
    }
    let rows = config.intended("usher", resource.fields().created_at);
    names::begin(conn, &[(life.id(), &rows)]).await?;
    queue::insert(conn, &[life]).await
}

/// So many more users of ProviderConfigs, as their own rule counts them, and a look at each that
/// had none. Nothing is read: the fewer statements, the shorter others wait for the rows.
async fn join(conn: &mut Conn, group: &[Arc<Declared>]) -> Result<(), Error> {
    let mut users: BTreeMap<Uuid, i64> = BTreeMap::new();
    for it in group {
        if it.acceptance.accepted.new_provider_config.is_none() {
            *users.entry(*it.resource().pinned().provider_config.as_uuid()).or_default() += 1;
        }
    }
    if users.is_empty() {
        return Ok(());
    }
    let ids: Vec<Uuid> = users.keys().copied().collect();
    let sql = concat!("UPDATE lives SET version = version + 1, write_id = $2 WHERE id", any!("$1"));
    let moved = sqlx::query::<Db>(sql)
        .bind(Ids(ids.clone()))
        .bind(Uuid::now_v7())
        .execute(&mut *conn)
        .await
        .doing("join a ProviderConfig")?;
    if u64::try_from(ids.len()).is_ok_and(|all| all != moved.rows_affected()) {
        return Err(Error::ViewsMoved { what: "provider_config" });
    }
    let mut sql =
        QueryBuilder::<Db>::new("UPDATE provider_configs SET users = users + v.column2 FROM (");
    sql.push_values(&users, |mut values, (id, count)| {
        values.push_bind(*id).push_bind(*count);
    });
    sql.push(") AS v WHERE provider_configs.id = v.column1 RETURNING id, users");
    let joined = sql.build_query_as::<(Uuid, i64)>().fetch_all(&mut *conn).await;
    let joined = joined.doing("join a ProviderConfig")?.into_iter();
    let first = joined.filter(|(id, count)| users.get(id) == Some(count));
    let first: Vec<Uuid> = first.map(|(id, _)| id).collect();
    if !first.is_empty() {
        for it in group {
            it.stirs.store(true, Ordering::Relaxed);
        }
        queue::wake_kind(conn, "provider_config", first).await?;
    }
    Ok(())
}

async fn insert_resources(conn: &mut Conn, group: &[Arc<Declared>]) -> Result<(), Error> {
    let mut sql = QueryBuilder::<Db>::new(
        "INSERT INTO resources (id, name, tenancy, project, blueprint_version, credential,
            provider_config, installation, world, namespace, composite, xr_name, role, strategy,
            parameters, api_url, agent_image, key_id, phase, generation, tenure, created_at,
            updated_at, phase_since) ",
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
            .push_bind(it.pinned.key_id.as_str())
            .push_bind(it.phase.as_str())
            .push_bind(i64::from(it.generation.0))
            .push_bind(it.tenure.as_str())
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
fn moved(what: &'static str, doing: &'static str, source: sqlx::Error) -> Error {
    if Error::is_reference(&source) {
        Error::ViewsMoved { what }
    } else {
        Error::new(doing, source)
    }
}

/// Remembers a key; one that is remembered for something else already moved the views.
async fn remember(conn: &mut Conn, key: &RememberedKey, answer: &str) -> Result<(), Error> {
    let sql = concat!(
        "INSERT INTO idempotency_keys (caller, project, key, digest, answer, expires_at)
        VALUES ($1, $2, $3, $4, $5, ",
        later!("$6"),
        ") ON CONFLICT (caller, project, key) DO UPDATE SET digest = excluded.digest,
            answer = excluded.answer, expires_at = excluded.expires_at
            WHERE idempotency_keys.expires_at <= ",
        now!()
    );
    let kept = sqlx::query::<Db>(sql)
        .bind(&key.scope.caller)
        .bind(key.scope.project.as_uuid())
        .bind(key.key.as_str())
        .bind(key.digest.as_bytes().as_slice())
        .bind(answer)
        .bind(i64::try_from(key.keep.as_micros()).unwrap_or(i64::MAX))
        .execute(&mut *conn)
        .await
        .doing("remember an idempotency key")?;
    if kept.rows_affected() == 1 {
        Ok(())
    } else {
        Err(Error::ViewsMoved { what: "idempotency key" })
    }
}

/// Writes the row of an order into the audit log, if somebody gave one.
pub(crate) async fn note_order(conn: &mut Conn, entry: Option<&audit::Entry>) -> Result<(), Error> {
    note(conn, entry.as_slice()).await
}

/// Writes rows of the audit log.
pub(crate) async fn note(conn: &mut Conn, entries: &[&audit::Entry]) -> Result<(), Error> {
    if entries.is_empty() {
        return Ok(());
    }
    let mut sql = QueryBuilder::<Db>::new(
        "INSERT INTO audit (id, at, actor, action, project, subject, detail) ",
    );
    sql.push_values(entries, |mut values, entry| {
        values
            .push_bind(*entry.id.as_uuid())
            .push_bind(Time(entry.at))
            .push_bind(entry.actor.clone())
            .push_bind(entry.action.as_str())
            .push_bind(entry.project.map(|it| *it.as_uuid()))
            .push_bind(entry.subject.clone())
            .push_bind(Json(&entry.detail));
    });
    sql.build().execute(&mut *conn).await.doing("write the audit log")?;
    Ok(())
}
