//! Blueprints, their versions, and clouds.

use serde_json::Value;
use sqlx::types::Json;
use usher_domain::catalog::{Blueprint, BlueprintVersion};
use usher_domain::clouds::Cloud;
use usher_domain::object::id::{BlueprintId, BlueprintVersionId, CloudId, CredentialId};
use uuid::Uuid;

use super::super::port::Port;
use super::super::record::{from_json, word};
use super::super::{Conn, Db};
use super::{insert, remove};
use crate::column::Time;
use crate::error::{Context as _, Error};

reads! {
    fn blueprints() -> Vec<Blueprint> = |conn| blueprints(conn);
    fn blueprint_versions(blueprint: BlueprintId) -> Vec<BlueprintVersion>
        = |conn| versions(conn, blueprint);
    fn named(blueprint: (String, Option<String>), credential: String)
        -> (Option<BlueprintVersionId>, Option<CredentialId>)
        = |conn| named(conn, blueprint, credential);
    fn clouds() -> Vec<Cloud> = |conn| clouds(conn);
}

audited! {
    fn create_blueprint(it: Blueprint) -> () = |conn| create_blueprint(conn, &it);
    fn publish(it: BlueprintVersion) -> () = |conn| publish(conn, &it);
    fn delete_blueprint_version(id: BlueprintVersionId) -> () = |conn| delete_version(conn, id);
    fn create_cloud(it: Cloud) -> () = |conn| create_cloud(conn, &it);
    fn delete_cloud(id: CloudId) -> () = |conn| delete_cloud(conn, id);
}

#[derive(sqlx::FromRow)]
struct VersionRow {
    id: Uuid,
    blueprint: Uuid,
    version: String,
    xrd: Json<Value>,
    composition: Json<Value>,
    parameters: Json<Value>,
    strategy: String,
    role: String,
    published_at: Time,
    providers: Option<String>,
}

async fn create_blueprint(conn: &mut Conn, it: &Blueprint) -> Result<(), Error> {
    let query = sqlx::query::<Db>("INSERT INTO blueprints (id, name) VALUES ($1, $2)")
        .bind(it.id.as_uuid())
        .bind(it.name.as_str());
    insert(conn, query, &format!("blueprint \"{}\"", it.name)).await
}

async fn blueprints(conn: &mut Conn) -> Result<Vec<Blueprint>, Error> {
    let rows = sqlx::query_as::<Db, (Uuid, String)>("SELECT id, name FROM blueprints ORDER BY id")
        .fetch_all(conn)
        .await
        .context("read blueprints")?;
    let blueprint = |(id, name): (Uuid, String)| {
        let name = word(&format!("blueprint \"{id}\""), "name", &name)?;
        Ok(Blueprint { id: BlueprintId::from_uuid(id), name })
    };
    rows.into_iter().map(blueprint).collect()
}

/// Publishes a version; nothing ever changes it.
async fn publish(conn: &mut Conn, it: &BlueprintVersion) -> Result<(), Error> {
    let sql = "INSERT INTO blueprint_versions (id, blueprint, version, xrd, composition,
            parameters, strategy, role, published_at)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)";
    let query = sqlx::query::<Db>(sql)
        .bind(it.id.as_uuid())
        .bind(it.blueprint.as_uuid())
        .bind(&it.version)
        .bind(Json(&it.xrd))
        .bind(Json(&it.composition))
        .bind(Json(&it.schema))
        .bind(it.strategy.as_str())
        .bind(it.role.as_str())
        .bind(Time(it.published_at));
    insert(conn, query, &format!("blueprint version \"{}\"", it.version)).await?;
    for provider in &it.providers {
        let sql = "INSERT INTO blueprint_version_providers (blueprint_version, provider)
            VALUES ($1, $2) ON CONFLICT (blueprint_version, provider) DO NOTHING";
        let query = sqlx::query::<Db>(sql).bind(it.id.as_uuid()).bind(provider.as_str());
        insert(conn, query, "a provider").await?;
    }
    Ok(())
}

/// The versions of a blueprint, oldest first.
async fn versions(conn: &mut Conn, blueprint: BlueprintId) -> Result<Vec<BlueprintVersion>, Error> {
    let sql = "SELECT id, blueprint, version, xrd, composition, parameters, strategy, role,
            published_at, (SELECT string_agg(provider, ',') FROM blueprint_version_providers
                WHERE blueprint_version = v.id) AS providers
        FROM blueprint_versions AS v WHERE blueprint = $1 ORDER BY published_at, id";
    let rows = sqlx::query_as::<Db, VersionRow>(sql)
        .bind(blueprint.as_uuid())
        .fetch_all(conn)
        .await
        .context("read blueprint versions")?;
    rows.into_iter().map(VersionRow::version).collect()
}

/// What a declaration names: a version of a blueprint, the newest one unless one is named, and a
/// credential. What does not exist is omitted.
async fn named(
    conn: &mut Conn,
    (blueprint, version): (String, Option<String>),
    credential: String,
) -> Result<(Option<BlueprintVersionId>, Option<CredentialId>), Error> {
    let sql = "SELECT (SELECT v.id FROM blueprint_versions AS v
            JOIN blueprints AS b ON b.id = v.blueprint
            WHERE b.name = $1 AND v.version = COALESCE($2, v.version)
            ORDER BY v.published_at DESC, v.id DESC LIMIT 1),
        (SELECT id FROM credentials WHERE name = $3)";
    let (version, credential) = sqlx::query_as::<Db, (Option<Uuid>, Option<Uuid>)>(sql)
        .bind(blueprint)
        .bind(version)
        .bind(credential)
        .fetch_one(conn)
        .await
        .context("read what a declaration names")?;
    let version = version.map(BlueprintVersionId::from_uuid);
    Ok((version, credential.map(CredentialId::from_uuid)))
}

/// Removes a version without declarations, or whose declarations are all deleted.
async fn delete_version(conn: &mut Conn, id: BlueprintVersionId) -> Result<(), Error> {
    let sql = "DELETE FROM blueprint_versions WHERE id = $1";
    remove(conn, (sql, *id.as_uuid()), "blueprint version").await
}

async fn create_cloud(conn: &mut Conn, it: &Cloud) -> Result<(), Error> {
    let sql = "INSERT INTO clouds (id, name, provider, endpoint) VALUES ($1, $2, $3, $4)";
    let query = sqlx::query::<Db>(sql)
        .bind(it.id.as_uuid())
        .bind(it.name.as_str())
        .bind(it.provider.as_str())
        .bind(Json(&it.endpoint));
    insert(conn, query, &format!("cloud \"{}\"", it.name)).await
}

async fn clouds(conn: &mut Conn) -> Result<Vec<Cloud>, Error> {
    type Row = (Uuid, String, String, Json<Value>);
    let sql = "SELECT id, name, provider, endpoint FROM clouds ORDER BY id";
    let rows = sqlx::query_as::<Db, Row>(sql).fetch_all(conn).await.context("read clouds")?;
    let cloud = |(id, name, provider, endpoint): Row| {
        let row = format!("cloud \"{id}\"");
        Ok(Cloud {
            id: CloudId::from_uuid(id),
            name: word(&row, "name", &name)?,
            provider: word(&row, "provider", &provider)?,
            endpoint: from_json(&row, "endpoint", endpoint.0)?,
        })
    };
    rows.into_iter().map(cloud).collect()
}

async fn delete_cloud(conn: &mut Conn, id: CloudId) -> Result<(), Error> {
    remove(conn, ("DELETE FROM clouds WHERE id = $1", *id.as_uuid()), "cloud").await
}

impl VersionRow {
    fn version(self) -> Result<BlueprintVersion, Error> {
        let row = format!("blueprint version \"{}\"", self.id);
        let providers = self.providers.unwrap_or_default();
        let mut providers = providers
            .split(',')
            .filter(|it| !it.is_empty())
            .map(|it| word(&row, "providers", it))
            .collect::<Result<Vec<_>, _>>()?;
        providers.sort();
        Ok(BlueprintVersion {
            id: BlueprintVersionId::from_uuid(self.id),
            blueprint: BlueprintId::from_uuid(self.blueprint),
            version: self.version,
            xrd: self.xrd.0,
            composition: self.composition.0,
            schema: from_json(&row, "parameters", self.parameters.0)?,
            strategy: word(&row, "strategy", &self.strategy)?,
            role: word(&row, "role", &self.role)?,
            providers,
            published_at: self.published_at.0,
        })
    }
}
