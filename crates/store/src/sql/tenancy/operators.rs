//! Tokens of operators.

use usher_domain::object::id::{OperatorTokenId, ProjectId};
use usher_domain::operators::{Grant, OperatorToken, Reach, TokenHash};
use usher_kernel::Timestamp;
use uuid::Uuid;

use super::super::port::Port;
use super::super::record::word;
use super::super::{Conn, Db};
use super::{insert, withdraw};
use crate::column::Time;
use crate::error::{Context as _, Error};

reads! {
    fn operator_tokens(after: Option<OperatorTokenId>, count: u32) -> Vec<OperatorToken>
        = |conn| list(conn, after, count);
    fn operator_token(hash: TokenHash) -> Option<OperatorToken> = |conn| find(conn, hash);
}

audited! {
    fn create_operator_token(it: OperatorToken) -> () = |conn| create(conn, &it);
    fn revoke_operator_token(id: OperatorTokenId, at: Timestamp) -> ()
        = |conn| revoke(conn, id, at);
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

async fn create(conn: &mut Conn, it: &OperatorToken) -> Result<(), Error> {
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
async fn find(conn: &mut Conn, hash: TokenHash) -> Result<Option<OperatorToken>, Error> {
    let sql = concat!("SELECT ", columns!(), " FROM operator_tokens WHERE hash = $1");
    let row = sqlx::query_as::<Db, TokenRow>(sql)
        .bind(hash.as_bytes().as_slice())
        .fetch_optional(conn)
        .await
        .context("find an operator token")?;
    row.map(TokenRow::token).transpose()
}

/// Every token after an id, in the order of their ids.
async fn list(
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
        .context("read operator tokens")?;
    rows.into_iter().map(TokenRow::token).collect()
}

/// Withdraws a token; the first time counts.
async fn revoke(conn: &mut Conn, id: OperatorTokenId, at: Timestamp) -> Result<(), Error> {
    let sql = "UPDATE operator_tokens SET revoked_at = COALESCE(revoked_at, $2) WHERE id = $1";
    withdraw(conn, (sql, *id.as_uuid()), at, "operator token").await
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
