//! Issuing the token of a generation.

use usher_domain::object::id::ResourceId;
use usher_domain::object::key::ServerKey;
use usher_domain::tokens::{Issue, Lifetime, Token};
use usher_kernel::Generation;

use super::super::keys;
use super::super::port::Port;
use super::super::resources::load;
use super::super::{Conn, Db};
use crate::column::{Time, micros};
use crate::error::{Context as _, Error};

writes! {
    fn issue(key: ServerKey, resource: ResourceId, generation: Generation, lifetime: Lifetime) -> ()
        = |conn| insert(conn, &key, (resource, generation), lifetime);
}

/// Idempotent. A key that is not current any more is refused: it may be retired.
async fn insert(
    conn: &mut Conn,
    key: &ServerKey,
    (resource, generation): (ResourceId, Generation),
    lifetime: Lifetime,
) -> Result<(), Error> {
    let (record, now) = load::locked(conn, resource).await?;
    if !record.state.admits(generation) {
        return Err(Error::Leaving { what: format!("resource \"{resource}\"") });
    }
    if keys::current(conn).await? != *key.id() {
        return Err(Error::Conflict);
    }
    let project = record.state.fields().project;
    let token = Token::issue(key, Issue { resource, project, generation, lifetime }, now);
    let sql = "INSERT INTO tokens (id, resource, project, generation, key_id, verifier, issued_at,
            lifetime_us) VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (id) DO NOTHING";
    sqlx::query::<Db>(sql)
        .bind(token.id.as_uuid())
        .bind(resource.as_uuid())
        .bind(project.as_uuid())
        .bind(i64::from(generation.0))
        .bind(token.key_id.as_str())
        .bind(token.verifier.as_bytes().as_slice())
        .bind(Time(token.issued_at))
        .bind(micros(lifetime.as_duration()))
        .execute(&mut *conn)
        .await
        .context("issue a token")?;
    Ok(())
}
