//! ProviderConfigs: counted rows with steps of their own.

use std::collections::BTreeMap;
use std::time::Duration;

use sqlx::QueryBuilder;
use usher_domain::broker::aggregate::Resource;
use usher_domain::broker::command::Outstanding;
use usher_domain::broker::provider_config::ProviderConfig;
use usher_domain::object::id::{CredentialId, InstallationId, ProviderConfigId};
use usher_domain::object::kv::KvCoordinates;
use usher_kernel::Record;
use uuid::Uuid;

use super::port::Port;
use super::record::{self, Read, corrupt, generation, version, word};
use super::resources::accept::moved;
use super::{Conn, Db, names, queue};
use crate::column::{Ids, Time};
use crate::error::{Context as _, Error};
use crate::port::ConfigWrite;
use crate::port::WorkItem;

reads! {
    fn provider_config(id: ProviderConfigId) -> Record<ProviderConfig> = |conn| one(conn, id);
}

impl Port {
    pub(crate) async fn commit_config(&self, write: ConfigWrite) -> Result<(), Error> {
        let write_id = Uuid::now_v7();
        let (id, version) = (*write.next.id.as_uuid(), write.version);
        let written = self
            .pool
            .write(move |conn| Box::pin(async move { commit(conn, &write, write_id).await }))
            .await;
        self.notify_due(&written);
        self.known(written, (id, version), write_id).await
    }
}

/// Writes a step of a ProviderConfig, if its version still holds.
async fn commit(conn: &mut Conn, write: &ConfigWrite, write_id: Uuid) -> Result<(), Error> {
    let id = *write.next.id.as_uuid();
    record::advance(conn, &[(id, write.version, write_id)]).await?;
    if write.next != write.before {
        update(conn, &write.next).await?;
    }
    names::write(conn, &[(id, &write.rows)]).await?;
    if write.next.is_ready() && !write.before.is_ready() {
        wake_users(conn, write.next.id).await?;
    }
    queue::settle(conn, &[(write.lease, write.release.as_ref())]).await
}

/// Makes the resources that wait for a ProviderConfig due.
async fn wake_users(conn: &mut Conn, id: ProviderConfigId) -> Result<(), Error> {
    let sql = concat!(
        "UPDATE queue SET wake_seq = wake_seq + 1, due = CASE WHEN due < ",
        now!(),
        " THEN due ELSE ",
        now!(),
        " END WHERE kind = 'resource' AND record IN (
            SELECT id FROM resources WHERE provider_config = $1 AND phase <> 'Deleted')"
    );
    sqlx::query::<Db>(sql)
        .bind(id.as_uuid())
        .execute(&mut *conn)
        .await
        .context("wake the users of a ProviderConfig")?;
    Ok(())
}

/// Inserts a ProviderConfig with its first user.
pub(crate) async fn insert(
    conn: &mut Conn,
    config: &ProviderConfig,
    resource: &Resource,
) -> Result<(), Error> {
    let item = WorkItem::ProviderConfig(config.id);
    record::insert(conn, [(item, Uuid::now_v7())]).await?;
    let sql = "INSERT INTO provider_configs (id, installation, world, namespace, provider,
            credential, mount, path, users, phase, generation, grace_until)
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
        .bind(Time::some(config.grace_until))
        .execute(&mut *conn)
        .await
        .map_err(|source| moved("credential", "insert a ProviderConfig", source))?;
    if inserted.rows_affected() == 0 {
        return Err(Error::ViewsMoved { what: "provider_config" });
    }
    let rows = config.intended("usher", resource.fields().created_at);
    names::begin(conn, &[(item.id(), &rows)]).await?;
    queue::insert(conn, &[item]).await
}

/// Adds so many users to ProviderConfigs, and makes each due that had none.
/// Nothing is read: the fewer statements, the shorter other declarations wait for the rows.
pub(crate) async fn add_users(conn: &mut Conn, users: &BTreeMap<Uuid, i64>) -> Result<(), Error> {
    if users.is_empty() {
        return Ok(());
    }
    let ids: Vec<Uuid> = users.keys().copied().collect();
    let sql =
        concat!("UPDATE records SET version = version + 1, write_id = $2 WHERE id", any!("$1"));
    let moved = sqlx::query::<Db>(sql)
        .bind(Ids(ids.clone()))
        .bind(Uuid::now_v7())
        .execute(&mut *conn)
        .await
        .context("join a ProviderConfig")?;
    if u64::try_from(ids.len()).is_ok_and(|all| all != moved.rows_affected()) {
        return Err(Error::ViewsMoved { what: "provider_config" });
    }
    let mut sql =
        QueryBuilder::<Db>::new("UPDATE provider_configs SET users = users + v.column2 FROM (");
    sql.push_values(users, |mut values, (id, count)| {
        values.push_bind(*id).push_bind(*count);
    });
    sql.push(") AS v WHERE provider_configs.id = v.column1 RETURNING id, users");
    let joined = sql.build_query_as::<(Uuid, i64)>().fetch_all(&mut *conn).await;
    let joined = joined.context("join a ProviderConfig")?.into_iter();
    let first = joined.filter(|(id, count)| users.get(id) == Some(count));
    let first: Vec<Uuid> = first.map(|(id, _)| id).collect();
    if !first.is_empty() {
        queue::wake_kind(conn, "provider_config", first).await?;
    }
    Ok(())
}

/// Removes one user of a ProviderConfig. With the last one its in-flight grace begins and it is
/// due; otherwise nothing is read, because every deletion waits for these rows.
pub(crate) async fn release(
    conn: &mut Conn,
    id: ProviderConfigId,
    request_bound: Duration,
) -> Result<(), Error> {
    let item = WorkItem::ProviderConfig(id);
    sqlx::query::<Db>("UPDATE records SET version = version + 1, write_id = $2 WHERE id = $1")
        .bind(item.id())
        .bind(Uuid::now_v7())
        .execute(&mut *conn)
        .await
        .context("release a ProviderConfig")?;
    let sql = "UPDATE provider_configs SET users = users - 1 WHERE id = $1 AND users > 1";
    let parted = sqlx::query::<Db>(sql).bind(item.id()).execute(&mut *conn).await;
    if parted.context("release a ProviderConfig")?.rows_affected() > 0 {
        return Ok(());
    }
    let before = one(conn, id).await?.state;
    let Some(entry) = queue::entry(conn, item, true).await? else {
        return Err(Error::NotFound { what: format!("the entry of {item}") });
    };
    let outstanding = Outstanding { may_act_until: entry.entry().may_act_until(), request_bound };
    let next = before.parted(&outstanding, entry.now.0);
    update(conn, &next).await?;
    if next.is_news_to(&before) {
        queue::wake(conn, item).await?;
    }
    Ok(())
}

/// Reads one ProviderConfig.
async fn one(conn: &mut Conn, id: ProviderConfigId) -> Read<ProviderConfig> {
    let found = many(conn, vec![*id.as_uuid()]).await?.pop();
    let missing = || Error::NotFound { what: format!("provider_config \"{id}\"") };
    found.map_or_else(|| Err(missing()), |(_, read)| read)
}

/// Reads ProviderConfigs, each in one piece; one that cannot be read fails no other.
pub(crate) async fn many(
    conn: &mut Conn,
    ids: Vec<Uuid>,
) -> Result<Vec<(Uuid, Read<ProviderConfig>)>, Error> {
    let sql = concat!(
        "SELECT l.version AS version, ",
        name_ledger!(),
        " AS name_ledger, c.id, c.installation, c.world, c.namespace, c.provider, c.credential,
        c.mount, c.path, c.users, c.phase, c.generation, c.grace_until
        FROM records AS l JOIN provider_configs AS c ON c.id = l.id WHERE l.id",
        any!("$1")
    );
    let rows = sqlx::query_as::<Db, ConfigRow>(sql)
        .bind(Ids(ids))
        .fetch_all(&mut *conn)
        .await
        .context("read ProviderConfigs")?;
    Ok(rows.into_iter().map(|row| (row.id, row.record())).collect())
}

/// One ProviderConfig, with its version and its identity rows.
#[derive(sqlx::FromRow)]
struct ConfigRow {
    version: i64,
    name_ledger: String,
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
    grace_until: Option<Time>,
}

/// Writes what of a ProviderConfig can change.
async fn update(conn: &mut Conn, next: &ProviderConfig) -> Result<(), Error> {
    let sql = "UPDATE provider_configs SET users = $2, phase = $3, generation = $4,
        grace_until = $5 WHERE id = $1";
    sqlx::query::<Db>(sql)
        .bind(next.id.as_uuid())
        .bind(i64::from(next.users))
        .bind(next.phase.as_str())
        .bind(i64::from(next.generation.0))
        .bind(Time::some(next.grace_until))
        .execute(&mut *conn)
        .await
        .context("write a ProviderConfig")?;
    Ok(())
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
            grace_until: self.grace_until.map(|it| it.0),
        };
        let name_ledger = names::read(&row, &self.name_ledger)?;
        Ok(Record { version: version(self.version), state, name_ledger })
    }
}
