//! Idempotency keys: kept with their request until they expire.

use super::port::Port;
use super::{Conn, Db};
use crate::column::micros;
use crate::error::{Context as _, Error};
use crate::port::RememberedKey;

writes! {
    fn forget_keys(count: u32) -> u64 = |conn| forget(conn, count);
}

/// Records a key; if it is in use for another request, the views have moved.
pub(crate) async fn remember(
    conn: &mut Conn,
    key: &RememberedKey,
    answer: &str,
) -> Result<(), Error> {
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
        .bind(micros(key.keep))
        .execute(&mut *conn)
        .await
        .context("record an idempotency key")?;
    if kept.rows_affected() == 1 {
        Ok(())
    } else {
        Err(Error::ViewsMoved { what: "idempotency key" })
    }
}

/// Whether some idempotency key has expired.
pub(crate) async fn has_expired(conn: &mut Conn) -> Result<bool, Error> {
    let sql = concat!("SELECT 1 FROM idempotency_keys WHERE expires_at <= ", now!(), " LIMIT 1");
    let found = sqlx::query::<Db>(sql).fetch_optional(conn).await.context("find expired keys")?;
    Ok(found.is_some())
}

/// Deletes expired idempotency keys, the oldest first, up to so many.
async fn forget(conn: &mut Conn, count: u32) -> Result<u64, Error> {
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
        .context("delete expired keys")?;
    Ok(done.rows_affected())
}
