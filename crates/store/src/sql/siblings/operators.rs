//! Tokens of operators, the audit log, and keys that are remembered no longer.

use serde_json::Value;
use sqlx::types::Json;
use usher_domain::audit;
use usher_domain::object::id::{AuditId, OperatorTokenId, ProjectId};
use usher_domain::operators::{Grant, OperatorToken, Reach, TokenHash};
use usher_kernel::Timestamp;
use uuid::Uuid;

use super::super::super::{Conn, Db};
use super::super::record::{from_json, word};
use super::insert;
use crate::column::Time;
use crate::error::{Doing as _, Error};

#[derive(sqlx::FromRow)]
struct AuditRow {
    id: Uuid,
    at: Time,
    actor: String,
    action: String,
    project: Option<Uuid>,
    subject: String,
    detail: Json<Value>,
}

#[derive(sqlx::FromRow)]
struct TokenRow {
    id: Uuid,
    name: String,
    role: String,
    project: Option<Uuid>,
    hash: Vec<u8>,
    expires_at: Option<Time>,
    revoked_at: Option<Time>,
}

macro_rules! columns {
    () => {
        "id, name, role, project, hash, expires_at, revoked_at"
    };
}

pub(crate) async fn create(conn: &mut Conn, it: &OperatorToken) -> Result<(), Error> {
    let sql = "INSERT INTO operator_tokens (id, name, role, project, hash, expires_at, revoked_at)
        VALUES ($1, $2, $3, $4, $5, $6, $7)";
    let project = match it.grant.reach() {
        Reach::Installation => None,
        Reach::Project(id) => Some(*id.as_uuid()),
    };
    let query = sqlx::query::<Db>(sql)
        .bind(it.id.as_uuid())
        .bind(it.name.as_str())
        .bind(it.grant.role().as_str())
        .bind(project)
        .bind(it.hash.as_bytes().as_slice())
        .bind(Time::some(it.expires_at))
        .bind(Time::some(it.revoked_at));
    insert(conn, query, &format!("operator token \"{}\"", it.name)).await
}

/// The token with this hash.
pub(crate) async fn find(conn: &mut Conn, hash: TokenHash) -> Result<Option<OperatorToken>, Error> {
    let sql = concat!("SELECT ", columns!(), " FROM operator_tokens WHERE hash = $1");
    let row = sqlx::query_as::<Db, TokenRow>(sql)
        .bind(hash.as_bytes().as_slice())
        .fetch_optional(conn)
        .await
        .doing("find an operator token")?;
    row.map(TokenRow::token).transpose()
}

/// Every token after an id, in the order of their ids.
pub(crate) async fn list(
    conn: &mut Conn,
    after: Option<OperatorTokenId>,
    count: u32,
) -> Result<Vec<OperatorToken>, Error> {
    let sql =
        concat!("SELECT ", columns!(), " FROM operator_tokens WHERE id > $1 ORDER BY id LIMIT $2");
    let rows = sqlx::query_as::<Db, TokenRow>(sql)
        .bind(after.map_or(Uuid::nil(), |it| *it.as_uuid()))
        .bind(i64::from(count))
        .fetch_all(conn)
        .await
        .doing("read operator tokens")?;
    rows.into_iter().map(TokenRow::token).collect()
}

/// Withdraws a token; the first time counts.
pub(crate) async fn revoke(
    conn: &mut Conn,
    id: OperatorTokenId,
    at: Timestamp,
) -> Result<(), Error> {
    let sql = "UPDATE operator_tokens SET revoked_at = COALESCE(revoked_at, $2) WHERE id = $1";
    let done = sqlx::query::<Db>(sql)
        .bind(id.as_uuid())
        .bind(Time(at))
        .execute(conn)
        .await
        .doing("revoke an operator token")?;
    if done.rows_affected() == 1 {
        Ok(())
    } else {
        Err(Error::NotFound { what: format!("operator token \"{id}\"") })
    }
}

/// The audit log after an id, in its order.
pub(crate) async fn audit(
    conn: &mut Conn,
    after: Option<AuditId>,
    count: u32,
) -> Result<Vec<audit::Entry>, Error> {
    let sql = "SELECT id, at, actor, action, project, subject, detail FROM audit
        WHERE id > $1 ORDER BY id LIMIT $2";
    let rows = sqlx::query_as::<Db, AuditRow>(sql)
        .bind(after.map_or(Uuid::nil(), |it| *it.as_uuid()))
        .bind(i64::from(count))
        .fetch_all(conn)
        .await
        .doing("read the audit log")?;
    rows.into_iter().map(AuditRow::entry).collect()
}

/// Whether the time of some idempotency key has passed.
pub(crate) async fn has_old_keys(conn: &mut Conn) -> Result<bool, Error> {
    let sql = concat!("SELECT 1 FROM idempotency_keys WHERE expires_at <= ", now!(), " LIMIT 1");
    let found = sqlx::query::<Db>(sql).fetch_optional(conn).await.doing("look for old keys")?;
    Ok(found.is_some())
}

/// Forgets idempotency keys whose time has passed, the oldest first, up to so many.
pub(crate) async fn forget_keys(conn: &mut Conn, count: u32) -> Result<u64, Error> {
    let sql = concat!(
        "DELETE FROM idempotency_keys WHERE (caller, project, key) IN (
            SELECT caller, project, key FROM idempotency_keys WHERE expires_at <= ",
        now!(),
        " ORDER BY expires_at LIMIT $1) AND expires_at <= ",
        now!()
    );
    let done = sqlx::query::<Db>(sql)
        .bind(i64::from(count))
        .execute(conn)
        .await
        .doing("forget idempotency keys")?;
    Ok(done.rows_affected())
}

impl TokenRow {
    fn token(self) -> Result<OperatorToken, Error> {
        let row = format!("operator token \"{}\"", self.id);
        let corrupt = |field: &str| Error::Corrupt { row: row.clone(), field: field.to_owned() };
        let hash = <[u8; 32]>::try_from(self.hash).map_err(|_| corrupt("hash"))?;
        let project = self.project.map(ProjectId::from_uuid);
        let role = word(&row, "role", &self.role)?;
        Ok(OperatorToken {
            id: OperatorTokenId::from_uuid(self.id),
            name: word(&row, "name", &self.name)?,
            grant: Grant::new(role, project).map_err(|_| corrupt("role"))?,
            hash: TokenHash::from_bytes(hash),
            expires_at: self.expires_at.map(|it| it.0),
            revoked_at: self.revoked_at.map(|it| it.0),
        })
    }
}

impl AuditRow {
    fn entry(self) -> Result<audit::Entry, Error> {
        let row = format!("audit \"{}\"", self.id);
        Ok(audit::Entry {
            id: AuditId::from_uuid(self.id),
            at: self.at.0,
            actor: self.actor,
            action: word(&row, "action", &self.action)?,
            project: self.project.map(ProjectId::from_uuid),
            subject: self.subject,
            detail: from_json(&row, "detail", self.detail.0)?,
        })
    }
}
