//! What a world and the mesh ask: each verb is one read, or one small transaction.

use std::time::Duration;

use usher_domain::audit;
use usher_domain::broker::aggregate::Resource;
use usher_domain::object::authority::Pin;
use usher_domain::object::id::{PeerId, ProjectId, ResourceId, TokenId};
use usher_domain::projects::Project;
use usher_domain::tokens::Token;
use usher_kernel::{Record, Timestamp, Uid};
use uuid::Uuid;

use super::super::{Conn, Db};
use super::port::Port;
use super::siblings::projects;
use super::{accept, beside, enrolment, peers, queue, record};
use crate::column::Time;
use crate::error::{Doing as _, Error};
use crate::inside::{Attended, Attention, Beside, Titles, WorldState};
use crate::life::Life;

#[derive(sqlx::FromRow)]
struct TitlesRow {
    name: String,
    slug: Option<String>,
    blueprint: Option<String>,
    version: Option<String>,
    credential: Option<String>,
    reason: Option<String>,
}

impl Port {
    pub(crate) async fn titles(&self, id: ResourceId) -> Result<Option<Titles>, Error> {
        let sql = "SELECT r.name, p.slug, b.name AS blueprint, v.version, c.name AS credential,
                q.reason
            FROM resources AS r
            LEFT JOIN projects AS p ON p.id = r.project
            LEFT JOIN blueprint_versions AS v ON v.id = r.blueprint_version
            LEFT JOIN blueprints AS b ON b.id = v.blueprint
            LEFT JOIN credentials AS c ON c.id = r.credential
            LEFT JOIN queue AS q ON q.life = r.id AND q.kind = 'resource'
            WHERE r.id = $1";
        let row = sqlx::query_as::<Db, TitlesRow>(sql)
            .bind(id.as_uuid())
            .fetch_optional(&mut *self.door.read().await?)
            .await
            .doing("read what a resource is called")?;
        Ok(row.map(|it| Titles {
            name: it.name,
            project: it.slug,
            blueprint: it.blueprint.zip(it.version),
            credential: it.credential,
            reason: it.reason,
        }))
    }

    pub(crate) async fn project_of(&self, id: ProjectId) -> Result<Option<Project>, Error> {
        projects::find_by_id(&mut *self.door.read().await?, id).await
    }

    pub(crate) async fn beside(&self, resource: &Resource) -> Result<Beside, Error> {
        beside::read(&mut *self.door.read().await?, resource).await
    }

    pub(crate) async fn attention(&self, life: Life) -> Result<Option<Attention>, Error> {
        let conn = &mut *self.door.read().await?;
        let Some(entry) = queue::entry(conn, life, false).await? else { return Ok(None) };
        let sql = "SELECT reason, trouble FROM queue WHERE life = $1 AND kind = $2";
        let words = sqlx::query_as::<Db, (Option<String>, Option<String>)>(sql)
            .bind(life.id())
            .bind(life.kind())
            .fetch_optional(conn)
            .await
            .doing("read an entry of the queue")?;
        let (reason, trouble) = words.unwrap_or_default();
        Ok(Some(Attention { entry: entry.entry(), reason, trouble, now: entry.now.0 }))
    }

    pub(crate) async fn peer(&self, id: PeerId) -> Result<Option<Attended>, Error> {
        peers::find(&mut *self.door.read().await?, id).await
    }

    pub(crate) async fn mesh(
        &self,
        project: ProjectId,
    ) -> Result<(Option<Timestamp>, Vec<Attended>), Error> {
        peers::mesh(&mut *self.door.read().await?, project).await
    }

    pub(crate) async fn peers_after(
        &self,
        after: Option<PeerId>,
        count: u32,
    ) -> Result<Vec<Attended>, Error> {
        peers::after(&mut *self.door.read().await?, after, count).await
    }

    pub(crate) async fn hear_peer(&self, id: PeerId, heard: bool) -> Result<bool, Error> {
        let written = self.door.write(move |conn| Box::pin(peers::hear(conn, id, heard))).await;
        self.stirring(written)
    }

    pub(crate) async fn resources_after(
        &self,
        after: Option<ResourceId>,
        count: u32,
    ) -> Result<Vec<ResourceId>, Error> {
        let sql = "SELECT id FROM resources WHERE id > $1 ORDER BY id LIMIT $2";
        let ids = sqlx::query_scalar::<Db, Uuid>(sql)
            .bind(after.map_or(Uuid::nil(), |it| *it.as_uuid()))
            .bind(i64::from(count))
            .fetch_all(&mut *self.door.read().await?)
            .await
            .doing("list resources")?;
        Ok(ids.into_iter().map(ResourceId::from_uuid).collect())
    }

    pub(crate) async fn records(
        &self,
        ids: &[ResourceId],
    ) -> Result<Vec<Result<Record<Resource>, Error>>, Error> {
        let ids = ids.iter().map(|it| *it.as_uuid()).collect();
        let read = record::resources(&mut *self.door.read().await?, ids).await?;
        Ok(read.into_iter().map(|(_, read)| read).collect())
    }

    pub(crate) async fn world(&self, name: &str) -> Result<Option<WorldState>, Error> {
        Ok(read_world(&mut *self.door.read().await?, name).await?.1)
    }

    pub(crate) async fn pin_world(&self, name: String, it: Pin) -> Result<WorldState, Error> {
        self.door
            .write(move |conn| Box::pin(async move { pin_world(conn, &name, &it).await }))
            .await
    }

    pub(crate) async fn set_rail(
        &self,
        name: String,
        tripped: bool,
        audit: Option<audit::Entry>,
    ) -> Result<bool, Error> {
        let written = self
            .door
            .write(move |conn| {
                Box::pin(async move {
                    let changed = set_rail(conn, &name, tripped).await?;
                    accept::note_order(conn, audit.as_ref()).await?;
                    Ok(changed)
                })
            })
            .await;
        self.stirring(written)
    }

    /// Looks before it writes: at rest there is no transaction.
    pub(crate) async fn wake_buried(&self, keep: Duration, count: u32) -> Result<u64, Error> {
        let kept = queue::buried(&mut *self.door.read().await?, keep, count).await?;
        if kept.is_empty() {
            return Ok(0);
        }
        let written =
            self.door.write(move |conn| Box::pin(queue::wake_kind(conn, "tombstone", kept))).await;
        self.stirring(written)
    }

    pub(crate) async fn tokens_after(
        &self,
        after: Option<TokenId>,
        count: u32,
    ) -> Result<Vec<Token>, Error> {
        enrolment::tokens_after(&mut *self.door.read().await?, after, count).await
    }

    pub(crate) async fn standing(&self, world: &str) -> Result<u32, Error> {
        let sql = "SELECT count(*) FROM resources
            WHERE world = $1 AND tenure = 'Live' AND deletion_requested_at IS NULL";
        let count = sqlx::query_scalar::<Db, i64>(sql)
            .bind(world)
            .fetch_one(&mut *self.door.read().await?)
            .await
            .doing("count what stands in a world")?;
        Ok(u32::try_from(count).unwrap_or(u32::MAX))
    }
}

/// The time, and what is remembered of a world.
async fn read_world(conn: &mut Conn, name: &str) -> Result<(Timestamp, Option<WorldState>), Error> {
    let sql = concat!(
        "SELECT ",
        now!(),
        ", identity, revision, tripped_at, opened_at
        FROM (SELECT 1 AS it) AS one LEFT JOIN worlds ON name = $1"
    );
    let (now, identity, revision, tripped_at, opened_at) = sqlx::query_as::<Db, WorldRow>(sql)
        .bind(name)
        .fetch_one(conn)
        .await
        .doing("read a world")?;
    let world = identity.zip(revision).map(|(identity, revision)| WorldState {
        pin: Pin { identity: Uid::new(identity), revision: revision.unsigned_abs() },
        tripped_at: tripped_at.map(|it| it.0),
        opened_at: opened_at.map(|it| it.0),
    });
    Ok((now.0, world))
}

type WorldRow = (Time, Option<String>, Option<i64>, Option<Time>, Option<Time>);

/// The first one who asks pins; afterwards the revision only grows, and only with the identity.
async fn pin_world(conn: &mut Conn, name: &str, it: &Pin) -> Result<WorldState, Error> {
    let sql = "INSERT INTO worlds (name, identity, revision) VALUES ($1, $2, $3)
        ON CONFLICT (name) DO UPDATE SET revision = excluded.revision
        WHERE worlds.identity = excluded.identity AND worlds.revision < excluded.revision";
    sqlx::query::<Db>(sql)
        .bind(name)
        .bind(&it.identity.0)
        .bind(i64::try_from(it.revision).unwrap_or(i64::MAX))
        .execute(&mut *conn)
        .await
        .doing("pin a world")?;
    let (_, state) = read_world(conn, name).await?;
    state.ok_or_else(|| Error::NotFound { what: format!("world \"{name}\"") })
}

async fn set_rail(conn: &mut Conn, name: &str, tripped: bool) -> Result<bool, Error> {
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
        .doing("set a rail")?;
    let changed = changed.rows_affected() > 0;
    if changed && !tripped {
        queue::wake_all(conn).await?;
    }
    Ok(changed)
}
