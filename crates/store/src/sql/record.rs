//! Records as rows: reading them whole, writing what of them can change.

use std::str::FromStr;

use serde_json::Value;
use sqlx::QueryBuilder;
use sqlx::types::Json;
use usher_domain::broker::aggregate::{Fields, Pinned, Resource};
use usher_domain::broker::event::Outcome;
use usher_domain::broker::provider_config::ProviderConfig;
use usher_domain::broker::refusal::Refusal;
use usher_domain::object::enrolment::KeyId;
use usher_domain::object::id::{
    BlueprintVersionId, CredentialId, InstallationId, ProjectId, ProviderConfigId, ResourceId,
    TenancyId,
};
use usher_domain::object::kv::KvCoordinates;
use usher_kernel::{Book, Generation, Record, Timestamp, Version};
use uuid::Uuid;

use super::super::{Conn, Db};
use super::names;
use crate::column::{Ids, Time};
use crate::error::{Doing as _, Error};

/// A record, or what is wrong with it.
pub(crate) type Read<S> = Result<Record<S>, Error>;

/// One resource, with the version of its life and its identity rows.
#[derive(sqlx::FromRow)]
struct ResourceRow {
    version: i64,
    book: String,
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
    key_id: String,
    phase: String,
    generation: i64,
    tenure: String,
    deletion_requested_at: Option<Time>,
    quiet_until: Option<Time>,
    substrate_ready_at: Option<Time>,
    outcome: Option<String>,
    created_at: Time,
    updated_at: Time,
    phase_since: Time,
}

/// One ProviderConfig, with the version of its life and its identity rows.
#[derive(sqlx::FromRow)]
struct ConfigRow {
    version: i64,
    book: String,
    id: Uuid,
    installation: Uuid,
    world: String,
    namespace: String,
    provider: String,
    credential: Uuid,
    mount: String,
    path: String,
    users: i64,
    phase: String,
    generation: i64,
    quiet_until: Option<Time>,
}

/// The time, if there is such a life, once nobody else can move it.
pub(crate) async fn lock(conn: &mut Conn, id: Uuid) -> Result<Option<Timestamp>, Error> {
    let sql = concat!("SELECT ", now!(), " FROM lives WHERE id = $1", lock!());
    let found = sqlx::query_scalar::<Db, Time>(sql)
        .bind(id)
        .fetch_optional(&mut *conn)
        .await
        .doing("lock a life")?;
    Ok(found.map(|it| it.0))
}

/// Reads resources, each in one piece; one that cannot be read spoils no other.
pub(crate) async fn resources(
    conn: &mut Conn,
    ids: Vec<Uuid>,
) -> Result<Vec<(Uuid, Read<Resource>)>, Error> {
    let sql = concat!(
        "SELECT l.version AS version, ",
        book!(),
        " AS book, r.id, r.name, r.tenancy, r.project, r.blueprint_version, r.credential,
        r.provider_config, r.installation, r.world, r.namespace, r.composite, r.xr_name, r.role,
        r.strategy, r.parameters, r.api_url, r.agent_image, r.key_id, r.phase, r.generation,
        r.tenure, r.deletion_requested_at, r.quiet_until, r.substrate_ready_at, r.outcome,
        r.created_at, r.updated_at, r.phase_since
        FROM lives AS l JOIN resources AS r ON r.id = l.id WHERE l.id",
        any!("$1")
    );
    let rows = sqlx::query_as::<Db, ResourceRow>(sql)
        .bind(Ids(ids))
        .fetch_all(&mut *conn)
        .await
        .doing("read resources")?;
    Ok(rows.into_iter().map(|row| (row.id, row.record())).collect())
}

/// Reads ProviderConfigs, each in one piece; one that cannot be read spoils no other.
pub(crate) async fn configs(
    conn: &mut Conn,
    ids: Vec<Uuid>,
) -> Result<Vec<(Uuid, Read<ProviderConfig>)>, Error> {
    let sql = concat!(
        "SELECT l.version AS version, ",
        book!(),
        " AS book, c.id, c.installation, c.world, c.namespace, c.provider, c.credential, c.mount,
        c.path, c.users, c.phase, c.generation, c.quiet_until
        FROM lives AS l JOIN provider_configs AS c ON c.id = l.id WHERE l.id",
        any!("$1")
    );
    let rows = sqlx::query_as::<Db, ConfigRow>(sql)
        .bind(Ids(ids))
        .fetch_all(&mut *conn)
        .await
        .doing("read ProviderConfigs")?;
    Ok(rows.into_iter().map(|row| (row.id, row.record())).collect())
}

/// Reads one resource.
pub(crate) async fn resource(conn: &mut Conn, id: ResourceId) -> Read<Resource> {
    let found = resources(conn, vec![*id.as_uuid()]).await?.pop();
    found.map_or_else(|| Err(missing_resource(id)), |(_, read)| read)
}

/// Reads one ProviderConfig.
pub(crate) async fn config(conn: &mut Conn, id: ProviderConfigId) -> Read<ProviderConfig> {
    let found = configs(conn, vec![*id.as_uuid()]).await?.pop();
    let missing = || Error::NotFound { what: format!("provider_config \"{id}\"") };
    found.map_or_else(|| Err(missing()), |(_, read)| read)
}

/// The refusal for a resource nobody knows.
pub(crate) fn missing_resource(id: ResourceId) -> Error {
    Error::Refused(Refusal::ProvisionedResourceNotFound { what: id.to_string() })
}

/// Writes what of resources can change.
pub(crate) async fn update_resources(conn: &mut Conn, changed: &[&Fields]) -> Result<(), Error> {
    if changed.is_empty() {
        return Ok(());
    }
    let mut sql = QueryBuilder::<Db>::new(
        "UPDATE resources SET phase = v.column2, generation = v.column3, tenure = v.column4,
            deletion_requested_at = v.column5, quiet_until = v.column6,
            substrate_ready_at = v.column7, outcome = v.column8, updated_at = v.column9,
            phase_since = v.column10 FROM (",
    );
    sql.push_values(changed, |mut values, next| {
        values
            .push_bind(*next.id.as_uuid())
            .push_bind(next.phase.as_str())
            .push_bind(i64::from(next.generation.0))
            .push_bind(next.tenure.as_str())
            .push_bind(Time::some(next.deletion_requested_at))
            .push_bind(Time::some(next.quiet_until))
            .push_bind(Time::some(next.substrate_ready_at))
            .push_bind(next.outcome.map(Outcome::as_str))
            .push_bind(Time(next.updated_at))
            .push_bind(Time(next.phase_since));
    });
    sql.push(") AS v WHERE resources.id = v.column1");
    sql.build().execute(&mut *conn).await.doing("write a resource")?;
    Ok(())
}

/// Writes what of a ProviderConfig can change.
pub(crate) async fn update_config(conn: &mut Conn, next: &ProviderConfig) -> Result<(), Error> {
    let sql = "UPDATE provider_configs SET users = $2, phase = $3, generation = $4,
        quiet_until = $5 WHERE id = $1";
    sqlx::query::<Db>(sql)
        .bind(next.id.as_uuid())
        .bind(i64::from(next.users))
        .bind(next.phase.as_str())
        .bind(i64::from(next.generation.0))
        .bind(Time::some(next.quiet_until))
        .execute(&mut *conn)
        .await
        .doing("write a ProviderConfig")?;
    Ok(())
}

impl ResourceRow {
    fn record(self) -> Read<Resource> {
        let row = format!("resource \"{}\"", self.id);
        let (version, book) = (version(self.version), read_book(&row, &self.book)?);
        let resource = Resource::hydrate(self.fields(&row)?);
        let state = resource.map_err(|refusal| {
            let field = if let Refusal::InvalidInput { what } = &refusal {
                what.as_str()
            } else {
                refusal.code()
            };
            corrupt(&row, field)
        })?;
        Ok(Record { version, state, book })
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
            key_id: KeyId::from_stored(self.key_id),
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
            tenure: word(row, "tenure", &self.tenure)?,
            deletion_requested_at: at(self.deletion_requested_at),
            quiet_until: at(self.quiet_until),
            substrate_ready_at: at(self.substrate_ready_at),
            outcome: self.outcome.map(|it| word(row, "outcome", &it)).transpose()?,
            created_at: self.created_at.0,
            updated_at: self.updated_at.0,
            phase_since: self.phase_since.0,
        })
    }
}

impl ConfigRow {
    fn record(self) -> Read<ProviderConfig> {
        let row = format!("provider_config \"{}\"", self.id);
        let coordinates = KvCoordinates::new(&self.mount, &self.path);
        let state = ProviderConfig {
            id: ProviderConfigId::from_uuid(self.id),
            installation: InstallationId::from_uuid(self.installation),
            world: self.world,
            namespace: self.namespace,
            provider: word(&row, "provider", &self.provider)?,
            credential: CredentialId::from_uuid(self.credential),
            coordinates: coordinates.map_err(|_| corrupt(&row, "coordinates"))?,
            users: u32::try_from(self.users).map_err(|_| corrupt(&row, "users"))?,
            phase: word(&row, "phase", &self.phase)?,
            generation: generation(&row, self.generation)?,
            quiet_until: self.quiet_until.map(|it| it.0),
        };
        let book = read_book(&row, &self.book)?;
        Ok(Record { version: version(self.version), state, book })
    }
}

fn read_book(row: &str, text: &str) -> Result<Book, Error> {
    names::read(text).ok_or_else(|| corrupt(row, "book"))
}

pub(crate) fn corrupt(row: &str, field: &str) -> Error {
    Error::Corrupt { row: row.to_owned(), field: field.to_owned() }
}

/// A word of a closed set, or a text that is checked when it is read.
pub(crate) fn word<T: FromStr>(row: &str, field: &str, text: &str) -> Result<T, Error> {
    text.parse().map_err(|_| corrupt(row, field))
}

pub(crate) fn from_json<T: serde::de::DeserializeOwned>(
    row: &str,
    field: &str,
    value: Value,
) -> Result<T, Error> {
    serde_json::from_value(value).map_err(|_| corrupt(row, field))
}

pub(crate) fn generation(row: &str, number: i64) -> Result<Generation, Error> {
    u32::try_from(number).map(Generation).map_err(|_| corrupt(row, "generation"))
}

fn version(number: i64) -> Version {
    Version(number.unsigned_abs())
}

/// The database's time.
pub(crate) async fn now(conn: &mut Conn) -> Result<Timestamp, Error> {
    let time = sqlx::query_scalar::<Db, Time>(concat!("SELECT ", now!()))
        .fetch_one(&mut *conn)
        .await
        .doing("read the clock")?;
    Ok(time.0)
}
