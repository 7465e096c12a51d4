//! Tombstones: they watch the names of a deleted resource for the retention time.

use std::time::Duration;

use usher_domain::broker::aggregate::Resource;
use usher_domain::broker::tombstone::Tombstone;
use usher_domain::object::id::ResourceId;
use usher_kernel::schedule::Claim;
use uuid::Uuid;

use super::super::port::Port;
use super::super::{Conn, Db, queue};
use super::load;
use crate::column::micros;
use crate::error::{Context as _, Error};
use crate::port::WorkItem;

writes! {
    fn expire_tombstone(id: ResourceId, claim: Claim, keep: Duration) -> bool
        = |conn| expire(conn, (id, claim), keep);
}

impl Port {
    /// Reads before it writes: while idle there is no write transaction.
    pub(crate) async fn wake_tombstones(&self, keep: Duration, count: u32) -> Result<u64, Error> {
        let kept = expired(&mut *self.pool.read().await?, keep, count).await?;
        if kept.is_empty() {
            return Ok(0);
        }
        let written =
            self.pool.write(move |conn| Box::pin(queue::wake_kind(conn, "tombstone", kept))).await;
        self.notifying_due(written)
    }
}

/// A tombstone begins: it watches, and holds its project.
pub(crate) async fn create(conn: &mut Conn, resource: &Resource) -> Result<(), Error> {
    let sql = concat!(
        "INSERT INTO tombstones (resource, project, created_at) VALUES ($1, $2, ",
        now!(),
        ") ON CONFLICT (resource) DO NOTHING"
    );
    let created = sqlx::query::<Db>(sql)
        .bind(resource.id().as_uuid())
        .bind(resource.fields().project.as_uuid())
        .execute(&mut *conn)
        .await
        .context("create a tombstone")?;
    if created.rows_affected() == 0 {
        return Ok(());
    }
    queue::insert(conn, &[WorkItem::Tombstone(resource.id())]).await
}

/// Expires a tombstone that was kept long enough and has no names to watch; `false` if it has.
async fn expire(
    conn: &mut Conn,
    (id, claim): (ResourceId, Claim),
    keep: Duration,
) -> Result<bool, Error> {
    let item = WorkItem::Tombstone(id);
    let (record, _) = load::locked(conn, id).await?;
    let Some(entry) = queue::entry(conn, item, true).await? else { return Ok(true) };
    let tombstone = Tombstone { keep, ..Tombstone::default() };
    let overtaken = entry.entry().fence != claim.fence;
    if overtaken || !tombstone.is_over(&record, entry.now.0) {
        return Ok(false);
    }
    sqlx::query::<Db>("DELETE FROM tombstones WHERE resource = $1")
        .bind(id.as_uuid())
        .execute(&mut *conn)
        .await
        .context("delete a tombstone")?;
    queue::remove(conn, item).await?;
    Ok(true)
}

/// Tombstones that were kept so long, up to so many.
async fn expired(conn: &mut Conn, keep: Duration, count: u32) -> Result<Vec<Uuid>, Error> {
    let sql = concat!(
        "SELECT resource FROM tombstones WHERE created_at <= ",
        later!("$1"),
        " ORDER BY created_at LIMIT $2"
    );
    sqlx::query_scalar::<Db, Uuid>(sql)
        .bind(micros(keep).saturating_neg())
        .bind(i64::from(count))
        .fetch_all(&mut *conn)
        .await
        .context("find old tombstones")
}
