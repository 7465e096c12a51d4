//! Resources as rows: reading them whole, writing what of them can change.

use serde_json::Value;
use sqlx::QueryBuilder;
use sqlx::types::Json;
use usher_domain::broker::aggregate::{Fields, Pinned, Resource};
use usher_domain::broker::event::Outcome;
use usher_domain::broker::refusal::Refusal;
use usher_domain::object::id::{
    BlueprintVersionId, CredentialId, InstallationId, ProjectId, ProviderConfigId, ResourceId,
    TenancyId,
};
use usher_kernel::{Record, Timestamp};
use uuid::Uuid;

use super::super::port::Port;
use super::super::record::{self, Read, corrupt, from_json, generation, version, word};
use super::super::{Conn, Db, names};
use crate::column::{Ids, Time};
use crate::error::{Context as _, Error};

reads! {
    fn resource(id: ResourceId) -> Record<Resource> = |conn| one(conn, id);
    fn records(ids: &[ResourceId]) -> Vec<Result<Record<Resource>, Error>>
        = |conn| these(conn, ids);
}

/// What is read of a resource `r` and its record `l`.
macro_rules! record_columns {
    () => {
        concat!(
            "l.version AS version, ",
            name_ledger!(),
            " AS name_ledger, r.id, r.name, r.tenancy, r.project, r.blueprint_version, r.credential,
            r.provider_config, r.installation, r.world, r.namespace, r.composite, r.xr_name, r.role,
            r.strategy, r.parameters, r.api_url, r.agent_image, r.phase, r.generation,
            r.generation_state, r.deletion_requested_at, r.grace_until, r.substrate_ready_at,
            r.outcome, r.created_at, r.updated_at, r.phase_since"
        )
    };
}
pub(super) use record_columns;

macro_rules! record_tables {
    () => {
        " FROM records AS l JOIN resources AS r ON r.id = l.id"
    };
}
pub(super) use record_tables;

async fn these(conn: &mut Conn, ids: &[ResourceId]) -> Result<Vec<Read<Resource>>, Error> {
    let read = many(conn, ids.iter().map(|it| *it.as_uuid()).collect()).await?;
    Ok(read.into_iter().map(|(_, read)| read).collect())
}

/// A resource that no other transaction changes until this one ends, and the database's time.
pub(crate) async fn locked(
    conn: &mut Conn,
    id: ResourceId,
) -> Result<(Record<Resource>, Timestamp), Error> {
    let now = record::lock(conn, *id.as_uuid()).await?.ok_or_else(|| missing(id))?;
    Ok((one(conn, id).await?, now))
}

/// Reads one resource.
pub(crate) async fn one(conn: &mut Conn, id: ResourceId) -> Read<Resource> {
    let found = many(conn, vec![*id.as_uuid()]).await?.pop();
    found.map_or_else(|| Err(missing(id)), |(_, read)| read)
}

fn missing(id: ResourceId) -> Error {
    Error::Refused(Refusal::ProvisionedResourceNotFound { what: id.to_string() })
}

/// Reads resources, each in one piece; one that cannot be read fails no other.
pub(crate) async fn many(
    conn: &mut Conn,
    ids: Vec<Uuid>,
) -> Result<Vec<(Uuid, Read<Resource>)>, Error> {
    let sql = concat!("SELECT ", record_columns!(), record_tables!(), " WHERE l.id", any!("$1"));
    let rows = sqlx::query_as::<Db, ResourceRow>(sql)
        .bind(Ids(ids))
        .fetch_all(&mut *conn)
        .await
        .context("read resources")?;
    Ok(rows.into_iter().map(|row| (row.id, row.record())).collect())
}

/// One resource, with its version and its identity rows.
#[derive(sqlx::FromRow)]
pub(super) struct ResourceRow {
    version: i64,
    name_ledger: String,
    id: Uuid,
    name: String,
    tenancy: Uuid,
    project: Uuid,
    blueprint_version: Uuid,
    credential: Uuid,
    provider_config: Uuid,
    installation: Uuid,
    world: String,
    namespace: String,
    composite: Json<Value>,
    xr_name: String,
    role: String,
    strategy: String,
    parameters: Json<Value>,
    api_url: String,
    agent_image: String,
    phase: String,
    generation: i64,
    generation_state: String,
    deletion_requested_at: Option<Time>,
    grace_until: Option<Time>,
    substrate_ready_at: Option<Time>,
    outcome: Option<String>,
    created_at: Time,
    updated_at: Time,
    phase_since: Time,
}

/// Writes what of resources can change.
pub(crate) async fn update(conn: &mut Conn, changed: &[&Fields]) -> Result<(), Error> {
    if changed.is_empty() {
        return Ok(());
    }
    let mut sql = QueryBuilder::<Db>::new(
        "UPDATE resources SET phase = v.column2, generation = v.column3,
            generation_state = v.column4, deletion_requested_at = v.column5,
            grace_until = v.column6, substrate_ready_at = v.column7, outcome = v.column8,
            updated_at = v.column9, phase_since = v.column10 FROM (",
    );
    sql.push_values(changed, |mut values, next| {
        values
            .push_bind(*next.id.as_uuid())
            .push_bind(next.phase.as_str())
            .push_bind(i64::from(next.generation.0))
            .push_bind(next.generation_state.as_str())
            .push_bind(Time::some(next.deletion_requested_at))
            .push_bind(Time::some(next.grace_until))
            .push_bind(Time::some(next.substrate_ready_at))
            .push_bind(next.outcome.map(Outcome::as_str))
            .push_bind(Time(next.updated_at))
            .push_bind(Time(next.phase_since));
    });
    sql.push(") AS v WHERE resources.id = v.column1");
    sql.build().execute(&mut *conn).await.context("write a resource")?;
    Ok(())
}

impl ResourceRow {
    pub(super) fn record(self) -> Read<Resource> {
        let row = format!("resource \"{}\"", self.id);
        let (version, name_ledger) = (version(self.version), names::read(&row, &self.name_ledger)?);
        let resource = Resource::hydrate(self.fields(&row)?);
        let state = resource.map_err(|refusal| {
            let field = if let Refusal::InvalidInput { what } = &refusal {
                what.as_str()
            } else {
                refusal.code()
            };
            corrupt(&row, field)
        })?;
        Ok(Record { version, state, name_ledger })
    }

    fn fields(self, row: &str) -> Result<Fields, Error> {
        let pinned = Pinned {
            installation: InstallationId::from_uuid(self.installation),
            world: self.world,
            namespace: self.namespace,
            composite: from_json(row, "composite", self.composite.0)?,
            xr_name: self.xr_name,
            role: word(row, "role", &self.role)?,
            strategy: word(row, "strategy", &self.strategy)?,
            parameters: from_json(row, "parameters", self.parameters.0)?,
            api_url: word(row, "api_url", &self.api_url)?,
            agent_image: word(row, "agent_image", &self.agent_image)?,
            provider_config: ProviderConfigId::from_uuid(self.provider_config),
        };
        let at = |time: Option<Time>| time.map(|it| it.0);
        Ok(Fields {
            id: ResourceId::from_uuid(self.id),
            name: self.name,
            tenancy: TenancyId::from_uuid(self.tenancy),
            project: ProjectId::from_uuid(self.project),
            blueprint_version: BlueprintVersionId::from_uuid(self.blueprint_version),
            credential: CredentialId::from_uuid(self.credential),
            pinned,
            phase: word(row, "phase", &self.phase)?,
            generation: generation(row, self.generation)?,
            generation_state: word(row, "generation_state", &self.generation_state)?,
            deletion_requested_at: at(self.deletion_requested_at),
            grace_until: at(self.grace_until),
            substrate_ready_at: at(self.substrate_ready_at),
            outcome: self.outcome.map(|it| word(row, "outcome", &it)).transpose()?,
            created_at: self.created_at.0,
            updated_at: self.updated_at.0,
            phase_since: self.phase_since.0,
        })
    }
}
