//! Revoking the tokens of a resource, in the transaction that records its deletion.

use uuid::Uuid;

use super::super::{Conn, Db};
use crate::error::{Doing as _, Error};

/// Revokes the tokens of a resource that were not redeemed.
pub(crate) async fn all(conn: &mut Conn, resource: Uuid) -> Result<(), Error> {
    let sql = concat!(
        "UPDATE tokens SET revoked_at = ",
        now!(),
        " WHERE resource = $1 AND consumed_at IS NULL AND revoked_at IS NULL"
    );
    sqlx::query::<Db>(sql).bind(resource).execute(&mut *conn).await.doing("revoke tokens")?;
    Ok(())
}
