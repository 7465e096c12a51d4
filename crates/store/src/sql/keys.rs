//! The ids of the server keys. A secret is issued under a shared lock of its key's row, so that no
//! key is superseded or retired while a secret is about to name it.

use usher_domain::object::enrolment::KeyId;
use usher_domain::object::id::PeerId;
use usher_domain::object::key::{KeyRecord, KeyState};

use super::port::Port;
use super::record::word;
use super::{Conn, Db};
use crate::column::Time;
use crate::error::{Context as _, Error};
use crate::keys::KeyUse;

reads! {
    fn keys() -> Vec<KeyRecord> = |conn| all(conn);
    fn key_uses() -> Vec<KeyUse> = |conn| uses(conn);
}

writes! {
    fn admit_key(id: KeyId) -> Vec<KeyRecord> = |conn| admit(conn, id);
    fn move_node_to_key(id: PeerId, key: KeyId) -> () = |conn| move_node(conn, id, key);
}

audited! {
    fn rotate_key(from: KeyId, to: KeyId) -> () = |conn| rotate(conn, from, to);
}

#[derive(sqlx::FromRow)]
struct KeyRow {
    id: String,
    state: String,
    current_since: Time,
    superseded_at: Option<Time>,
    retired_at: Option<Time>,
}

#[derive(sqlx::FromRow)]
struct KeyUseRow {
    #[sqlx(flatten)]
    key: KeyRow,
    tokens: i64,
    nodes: i64,
}

/// The tokens that may still be redeemed with the key `k`.
macro_rules! open_tokens {
    () => {
        concat!(
            "SELECT t.id FROM tokens AS t WHERE t.key_id = k.id AND t.consumed_at IS NULL
            AND t.revoked_at IS NULL AND t.issued_at > ",
            later!("-86400000000"),
            " AND (t.first_ready_at IS NULL OR t.first_ready_at > ",
            later!("-t.lifetime_us"),
            ")"
        )
    };
}

/// The nodes whose secret was derived with the key `k`.
macro_rules! live_nodes {
    () => {
        "SELECT p.id FROM peers AS p WHERE p.key_id = k.id AND p.stage <> 'deregistered'"
    };
}

impl Port {
    /// Reads before it writes: without a previous key there is no write transaction.
    pub(crate) async fn retire_keys(&self) -> Result<Vec<KeyId>, Error> {
        let previous = |it: &KeyRecord| it.state == KeyState::Previous;
        if !self.keys().await?.iter().any(previous) {
            return Ok(vec![]);
        }
        self.pool.write(move |conn| Box::pin(retire(conn))).await
    }
}

/// The current key, which stays current until this transaction ends.
pub(crate) async fn current(conn: &mut Conn) -> Result<KeyId, Error> {
    let sql = concat!("SELECT id FROM server_keys WHERE state = 'current'", share!());
    let found = sqlx::query_scalar::<Db, String>(sql)
        .fetch_optional(&mut *conn)
        .await
        .context("read the current key")?;
    // It was superseded while this waited for the lock.
    found.map(KeyId::from_stored).ok_or(Error::Conflict)
}

async fn all(conn: &mut Conn) -> Result<Vec<KeyRecord>, Error> {
    let sql = "SELECT id, state, current_since, superseded_at, retired_at FROM server_keys
        ORDER BY current_since, id";
    let rows = sqlx::query_as::<Db, KeyRow>(sql).fetch_all(conn).await.context("read the keys")?;
    rows.into_iter().map(KeyRow::record).collect()
}

async fn uses(conn: &mut Conn) -> Result<Vec<KeyUse>, Error> {
    let sql = concat!(
        "SELECT k.id, k.state, k.current_since, k.superseded_at, k.retired_at,
            (SELECT COUNT(*) FROM (",
        open_tokens!(),
        ") AS open) AS tokens, (SELECT COUNT(*) FROM (",
        live_nodes!(),
        ") AS live) AS nodes FROM server_keys AS k ORDER BY k.current_since, k.id"
    );
    let rows = sqlx::query_as::<Db, KeyUseRow>(sql).fetch_all(conn).await.context("count keys")?;
    let used = |it: KeyUseRow| {
        let (tokens, nodes) = (it.tokens.unsigned_abs(), it.nodes.unsigned_abs());
        Ok(KeyUse { key: it.key.record()?, tokens, nodes })
    };
    rows.into_iter().map(used).collect()
}

/// Of two servers that start at once, one records its key.
async fn admit(conn: &mut Conn, id: KeyId) -> Result<Vec<KeyRecord>, Error> {
    if all(conn).await?.is_empty() {
        insert(conn, &id, " ON CONFLICT DO NOTHING").await?;
    }
    all(conn).await
}

async fn rotate(conn: &mut Conn, from: KeyId, to: KeyId) -> Result<(), Error> {
    let sql = concat!(
        "UPDATE server_keys SET state = 'previous', superseded_at = ",
        now!(),
        " WHERE id = $1 AND state = 'current'
            AND NOT EXISTS (SELECT 1 FROM server_keys WHERE state = 'previous')"
    );
    let done = sqlx::query::<Db>(sql).bind(from.as_str()).execute(&mut *conn).await;
    if done.context("supersede a key")?.rows_affected() == 0 {
        return Err(Error::Conflict);
    }
    insert(conn, &to, "").await
}

async fn insert(conn: &mut Conn, id: &KeyId, or_else: &str) -> Result<(), Error> {
    let values = concat!(
        "INSERT INTO server_keys (id, state, current_since) VALUES ($1, 'current', ",
        now!(),
        ")"
    );
    let sql = sqlx::AssertSqlSafe(format!("{values}{or_else}"));
    sqlx::query::<Db>(sql).bind(id.as_str()).execute(conn).await.context("record a key")?;
    Ok(())
}

/// The rows are locked by one statement and what names them is read by the next.
async fn retire(conn: &mut Conn) -> Result<Vec<KeyId>, Error> {
    let sql = concat!("SELECT id FROM server_keys WHERE state = 'previous'", lock!());
    sqlx::query_scalar::<Db, String>(sql).fetch_all(&mut *conn).await.context("lock the keys")?;
    let sql = concat!(
        "UPDATE server_keys AS k SET state = 'retired', retired_at = ",
        now!(),
        " WHERE k.state = 'previous' AND NOT EXISTS (",
        open_tokens!(),
        ") AND NOT EXISTS (",
        live_nodes!(),
        ") RETURNING id"
    );
    let retired = sqlx::query_scalar::<Db, String>(sql).fetch_all(conn).await;
    Ok(retired.context("retire keys")?.into_iter().map(KeyId::from_stored).collect())
}

async fn move_node(conn: &mut Conn, id: PeerId, key: KeyId) -> Result<(), Error> {
    if current(conn).await? != key {
        return Err(Error::Conflict);
    }
    sqlx::query::<Db>("UPDATE peers SET key_id = $2 WHERE id = $1 AND stage <> 'deregistered'")
        .bind(id.as_uuid())
        .bind(key.as_str())
        .execute(conn)
        .await
        .context("record the key of a node")?;
    Ok(())
}

impl KeyRow {
    fn record(self) -> Result<KeyRecord, Error> {
        let row = format!("key \"{}\"", self.id);
        Ok(KeyRecord {
            state: word(&row, "state", &self.state)?,
            id: KeyId::from_stored(self.id),
            current_since: self.current_since.0,
            superseded_at: self.superseded_at.map(|it| it.0),
            retired_at: self.retired_at.map(|it| it.0),
        })
    }
}
