//! Accepting a declaration: everything it needs, in one transaction.

use sqlx::types::Json;
use usher_domain::audit;
use usher_domain::broker::aggregate::Resource;
use usher_domain::broker::provider_config::ProviderConfig;
use usher_domain::object::id::ProviderConfigId;
use usher_kernel::Version;
use uuid::Uuid;

use super::super::{Conn, Db};
use super::{events, names, queue};
use crate::column::Time;
use crate::error::{Doing as _, Error};
use crate::life::Life;
use crate::port::{Acceptance, RememberedKey};

const FIRST: Version = Version(1);

/// Writes an accepted declaration, or says which of the views moved since it was resolved.
pub(crate) async fn write(
    conn: &mut Conn,
    acceptance: &Acceptance,
    write_id: Uuid,
) -> Result<(), Error> {
    let Acceptance { accepted, audit, key } = acceptance;
    let resource = &accepted.resource;
    if let Some(key) = key {
        remember(conn, key, &resource.id().to_string()).await?;
    }
    hold_placement(conn, resource).await?;
    if let Some(config) = &accepted.new_provider_config {
        begin_config(conn, config, resource).await?;
    }
    insert_life(conn, Life::Resource(resource.id()), write_id).await?;
    insert_resource(conn, resource).await?;
    names::write(conn, *resource.id().as_uuid(), &accepted.rows).await?;
    queue::insert(conn, Life::Resource(resource.id())).await?;
    events::tell(conn, resource, FIRST, &accepted.event).await?;
    if let Some(entry) = audit {
        note(conn, entry).await?;
    }
    // Last, because others who declare with the same credential wait for this row.
    match &accepted.new_provider_config {
        Some(_) => Ok(()),
        None => join(conn, resource.pinned().provider_config).await,
    }
}

/// Nobody ends the placement while this transaction runs.
async fn hold_placement(conn: &mut Conn, resource: &Resource) -> Result<(), Error> {
    let sql = concat!(
        "SELECT world FROM placements
        WHERE project = $1 AND phase NOT IN ('Terminating', 'Deleted')",
        share!()
    );
    let world = sqlx::query_scalar::<Db, String>(sql)
        .bind(resource.fields().project.as_uuid())
        .fetch_optional(&mut *conn)
        .await
        .doing("read a placement")?;
    if world.as_deref() == Some(resource.pinned().world.as_str()) {
        Ok(())
    } else {
        Err(Error::ViewsMoved { what: "placement" })
    }
}

async fn insert_life(conn: &mut Conn, life: Life, write_id: Uuid) -> Result<(), Error> {
    sqlx::query::<Db>("INSERT INTO lives (id, kind, version, write_id) VALUES ($1, $2, 1, $3)")
        .bind(life.id())
        .bind(life.kind())
        .bind(write_id)
        .execute(&mut *conn)
        .await
        .doing("begin a life")?;
    Ok(())
}

/// The first user of a ProviderConfig brings its row along.
async fn begin_config(
    conn: &mut Conn,
    config: &ProviderConfig,
    resource: &Resource,
) -> Result<(), Error> {
    let life = Life::ProviderConfig(config.id);
    insert_life(conn, life, Uuid::now_v7()).await?;
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
    names::write(conn, life.id(), &rows).await?;
    queue::insert(conn, life).await
}

/// One more user of a ProviderConfig, as its own rule counts it, and a look at it. Nothing is read:
/// the fewer statements, the shorter others wait for the row.
async fn join(conn: &mut Conn, id: ProviderConfigId) -> Result<(), Error> {
    let life = Life::ProviderConfig(id);
    let sql = "UPDATE lives SET version = version + 1, write_id = $2 WHERE id = $1";
    let moved = sqlx::query::<Db>(sql)
        .bind(life.id())
        .bind(Uuid::now_v7())
        .execute(&mut *conn)
        .await
        .doing("join a ProviderConfig")?;
    if moved.rows_affected() == 0 {
        return Err(Error::ViewsMoved { what: "provider_config" });
    }
    sqlx::query::<Db>("UPDATE provider_configs SET users = users + 1 WHERE id = $1")
        .bind(life.id())
        .execute(&mut *conn)
        .await
        .doing("join a ProviderConfig")?;
    queue::wake(conn, life).await?;
    Ok(())
}

async fn insert_resource(conn: &mut Conn, resource: &Resource) -> Result<(), Error> {
    let it = resource.fields();
    insert_tenancy(conn, resource).await?;
    let sql = "INSERT INTO resources (id, name, tenancy, project, blueprint_version, credential,
            provider_config, installation, world, namespace, composite, xr_name, role, strategy,
            parameters, api_url, agent_image, key_id, phase, generation, tenure, created_at,
            updated_at, phase_since)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18,
            $19, $20, $21, $22, $23, $24)
        ON CONFLICT (project, name) WHERE phase <> 'Deleted' DO NOTHING";
    let inserted = sqlx::query::<Db>(sql)
        .bind(it.id.as_uuid())
        .bind(&it.name)
        .bind(it.tenancy.as_uuid())
        .bind(it.project.as_uuid())
        .bind(it.blueprint_version.as_uuid())
        .bind(it.credential.as_uuid())
        .bind(it.pinned.provider_config.as_uuid())
        .bind(it.pinned.installation.as_uuid())
        .bind(&it.pinned.world)
        .bind(&it.pinned.namespace)
        .bind(Json(&it.pinned.composite))
        .bind(&it.pinned.xr_name)
        .bind(it.pinned.role.as_str())
        .bind(it.pinned.strategy.as_str())
        .bind(Json(&it.pinned.parameters))
        .bind(it.pinned.api_url.as_str())
        .bind(it.pinned.agent_image.as_str())
        .bind(it.pinned.key_id.as_str())
        .bind(it.phase.as_str())
        .bind(i64::from(it.generation.0))
        .bind(it.tenure.as_str())
        .bind(Time(it.created_at))
        .bind(Time(it.updated_at))
        .bind(Time(it.phase_since))
        .execute(&mut *conn)
        .await
        .map_err(|source| moved("blueprint or credential", "write a resource", source))?;
    if inserted.rows_affected() == 1 { Ok(()) } else { Err(Error::ViewsMoved { what: "name" }) }
}

async fn insert_tenancy(conn: &mut Conn, resource: &Resource) -> Result<(), Error> {
    let it = resource.fields();
    sqlx::query::<Db>(
        "INSERT INTO tenancy_resources (id, project, created_at) VALUES ($1, $2, $3)",
    )
    .bind(it.tenancy.as_uuid())
    .bind(it.project.as_uuid())
    .bind(Time(it.created_at))
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
    match entry {
        Some(entry) => note(conn, entry).await,
        None => Ok(()),
    }
}

/// Writes one row of the audit log.
pub(crate) async fn note(conn: &mut Conn, entry: &audit::Entry) -> Result<(), Error> {
    let sql = "INSERT INTO audit (id, at, actor, action, project, subject, detail)
        VALUES ($1, $2, $3, $4, $5, $6, $7)";
    sqlx::query::<Db>(sql)
        .bind(entry.id.as_uuid())
        .bind(Time(entry.at))
        .bind(&entry.actor)
        .bind(entry.action.as_str())
        .bind(entry.project.map(|it| *it.as_uuid()))
        .bind(&entry.subject)
        .bind(Json(&entry.detail))
        .execute(&mut *conn)
        .await
        .doing("write the audit log")?;
    Ok(())
}
