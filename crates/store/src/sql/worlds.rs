//! What is stored of worlds: pins, the mass-deletion guard, and object counts.

use usher_domain::object::authority::Pin;
use usher_kernel::Uid;

use super::port::Port;
use super::{Conn, Db, queue};
use crate::column::Time;
use crate::error::{Context as _, Error};
use crate::worlds::WorldState;

reads! {
    fn world(name: &str) -> Option<WorldState> = |conn| known(conn, name);
    fn count_present(world: &str) -> u32 = |conn| count_present_in(conn, world);
}

writes! {
    fn pin_world(name: String, it: Pin) -> WorldState = |conn| pin(conn, &name, &it);
}

audited! {
    fn set_guard(name: String, tripped: bool) -> bool = |conn| set_guard(conn, &name, tripped);
}

async fn known(conn: &mut Conn, name: &str) -> Result<Option<WorldState>, Error> {
    let sql = "SELECT identity, revision, tripped_at, opened_at FROM worlds WHERE name = $1";
    let row = sqlx::query_as::<Db, WorldRow>(sql).bind(name).fetch_optional(conn).await;
    Ok(row.context("read a world")?.map(|(identity, revision, tripped_at, opened_at)| WorldState {
        pin: Pin { identity: Uid::new(identity), revision: revision.unsigned_abs() },
        tripped_at: tripped_at.map(|it| it.0),
        opened_at: opened_at.map(|it| it.0),
    }))
}

type WorldRow = (String, i64, Option<Time>, Option<Time>);

async fn count_present_in(conn: &mut Conn, world: &str) -> Result<u32, Error> {
    let sql = "SELECT count(*) FROM resources
        WHERE world = $1 AND generation_state = 'Live' AND deletion_requested_at IS NULL";
    let count = sqlx::query_scalar::<Db, i64>(sql).bind(world).fetch_one(conn).await;
    Ok(u32::try_from(count.context("count the resources in a world")?).unwrap_or(u32::MAX))
}

/// The first answer pins; afterwards the revision only grows, and only with the identity.
async fn pin(conn: &mut Conn, name: &str, it: &Pin) -> Result<WorldState, Error> {
    let sql = "INSERT INTO worlds (name, identity, revision) VALUES ($1, $2, $3)
        ON CONFLICT (name) DO UPDATE SET revision = excluded.revision
        WHERE worlds.identity = excluded.identity AND worlds.revision < excluded.revision";
    sqlx::query::<Db>(sql)
        .bind(name)
        .bind(&it.identity.0)
        .bind(i64::try_from(it.revision).unwrap_or(i64::MAX))
        .execute(&mut *conn)
        .await
        .context("pin a world")?;
    known(conn, name).await?.ok_or_else(|| Error::NotFound { what: format!("world \"{name}\"") })
}

async fn set_guard(conn: &mut Conn, name: &str, tripped: bool) -> Result<bool, Error> {
    let trip = concat!(
        "UPDATE worlds SET tripped_at = ",
        now!(),
        " WHERE name = $1 AND tripped_at IS NULL"
    );
    let open = concat!(
        "UPDATE worlds SET tripped_at = NULL, opened_at = ",
        now!(),
        " WHERE name = $1 AND tripped_at IS NOT NULL"
    );
    let changed = sqlx::query::<Db>(if tripped { trip } else { open })
        .bind(name)
        .execute(&mut *conn)
        .await
        .context("set a mass-deletion guard")?;
    let changed = changed.rows_affected() > 0;
    if changed && !tripped {
        queue::wake_all(conn).await?;
    }
    Ok(changed)
}
