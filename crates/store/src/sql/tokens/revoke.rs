//! What becomes of the tokens of a resource with a write of it, in the transaction of that write.

use usher_domain::broker::aggregate::Resource;
use usher_domain::object::enrolment::TokenChange;
use usher_domain::tokens::changed;

use super::super::{Conn, Db};
use super::of_resource;
use crate::column::Time;
use crate::error::{Doing as _, Error};

/// Writes the tokens that change with a write of their resource, as the domain decided. The write
/// has locked the resource's row, so that none of them is issued or redeemed meanwhile.
pub(crate) async fn with_write(
    conn: &mut Conn,
    change: TokenChange,
    after: &Resource,
) -> Result<(), Error> {
    let tokens = of_resource(conn, after.id()).await?;
    for token in changed(&tokens, change, after.fields().updated_at) {
        sqlx::query::<Db>("UPDATE tokens SET first_ready_at = $2, revoked_at = $3 WHERE id = $1")
            .bind(token.id.as_uuid())
            .bind(Time::some(token.first_ready_at))
            .bind(Time::some(token.revoked_at))
            .execute(&mut *conn)
            .await
            .doing("write a token")?;
    }
    Ok(())
}
