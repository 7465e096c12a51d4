//! What becomes of the tokens of a resource with a write of it, in the transaction of that write.

use usher_domain::broker::aggregate::Resource;
use usher_domain::object::enrolment::TokenChange;
use usher_domain::tokens::changed;
use usher_kernel::Timestamp;
use uuid::Uuid;

use super::super::{Conn, Db};
use super::rows_of_resource;
use crate::column::Time;
use crate::error::{Context as _, Error};

/// Writes the tokens that change with a write of their resource, as the domain decided. The write
/// has locked the resource's row, so that none of them is issued or redeemed meanwhile. A row that
/// cannot be read does not stop the write; revoking it needs none of its fields.
pub(crate) async fn with_write(
    conn: &mut Conn,
    change: TokenChange,
    after: &Resource,
) -> Result<(), Error> {
    let (mut tokens, now) = (vec![], after.fields().updated_at);
    for row in rows_of_resource(conn, after.id()).await? {
        let id = row.id;
        match row.token() {
            Ok(token) => tokens.push(token),
            Err(error) => {
                tracing::warn!(token = %id, %error, "failed to read a token");
                if change.teardown_began {
                    revoke_unreadable(conn, id, now).await?;
                }
            }
        }
    }
    for token in changed(&tokens, change, now) {
        sqlx::query::<Db>("UPDATE tokens SET first_ready_at = $2, revoked_at = $3 WHERE id = $1")
            .bind(token.id.as_uuid())
            .bind(Time::some(token.first_ready_at))
            .bind(Time::some(token.revoked_at))
            .execute(&mut *conn)
            .await
            .context("write a token")?;
    }
    Ok(())
}

async fn revoke_unreadable(conn: &mut Conn, id: Uuid, now: Timestamp) -> Result<(), Error> {
    let sql = "UPDATE tokens SET revoked_at = $2
        WHERE id = $1 AND consumed_at IS NULL AND revoked_at IS NULL";
    sqlx::query::<Db>(sql)
        .bind(id)
        .bind(Time(now))
        .execute(conn)
        .await
        .context("revoke a token")?;
    Ok(())
}
