//! Projects, where they are placed, and whether anything of them lives.

use usher_domain::object::id::{ProjectId, ResourceId, TenancyId};
use usher_domain::object::occupancy::{Occupancy, Occupied};
use usher_domain::placements::Placement;
use usher_domain::projects::{Project, TenancyResource};
use uuid::Uuid;

use super::super::super::{Conn, Db};
use super::super::record::word;
use super::{change, insert, remove};
use crate::column::Time;
use crate::error::{Doing as _, Error};

pub(crate) async fn create(conn: &mut Conn, project: &Project) -> Result<(), Error> {
    let sql = concat!(
        "INSERT INTO projects (id, slug, name, created_at) VALUES ($1, $2, $3, ",
        now!(),
        ")"
    );
    let query = sqlx::query::<Db>(sql)
        .bind(project.id.as_uuid())
        .bind(project.slug.as_str())
        .bind(project.name.as_str());
    insert(conn, query, &format!("project \"{}\"", project.slug)).await
}

/// Projects after an id, in the order of their ids.
pub(crate) async fn list(
    conn: &mut Conn,
    after: Option<ProjectId>,
    count: u32,
) -> Result<Vec<Project>, Error> {
    let sql = "SELECT id, slug, name FROM projects WHERE id > $1 ORDER BY id LIMIT $2";
    let rows = sqlx::query_as::<Db, (Uuid, String, String)>(sql)
        .bind(after.map_or(Uuid::nil(), |it| *it.as_uuid()))
        .bind(i64::from(count))
        .fetch_all(conn)
        .await
        .doing("read projects")?;
    rows.into_iter().map(project).collect()
}

pub(crate) async fn find(conn: &mut Conn, slug: &str) -> Result<Option<Project>, Error> {
    let sql = "SELECT id, slug, name FROM projects WHERE slug = $1";
    let row = sqlx::query_as::<Db, (Uuid, String, String)>(sql)
        .bind(slug)
        .fetch_optional(conn)
        .await
        .doing("read a project")?;
    row.map(project).transpose()
}

pub(crate) async fn find_by_id(conn: &mut Conn, id: ProjectId) -> Result<Option<Project>, Error> {
    let sql = "SELECT id, slug, name FROM projects WHERE id = $1";
    let row = sqlx::query_as::<Db, (Uuid, String, String)>(sql)
        .bind(id.as_uuid())
        .fetch_optional(conn)
        .await
        .doing("read a project")?;
    row.map(project).transpose()
}

fn project((id, slug, name): (Uuid, String, String)) -> Result<Project, Error> {
    let row = format!("project \"{id}\"");
    let (slug, name) = (word(&row, "slug", &slug)?, word(&row, "name", &name)?);
    Ok(Project { id: ProjectId::from_uuid(id), slug, name })
}

/// Removes a project; whoever lives in it, or is watched in it, holds it.
pub(crate) async fn delete(conn: &mut Conn, id: ProjectId) -> Result<(), Error> {
    remove(conn, ("DELETE FROM projects WHERE id = $1", *id.as_uuid()), "project").await
}

pub(crate) async fn place(conn: &mut Conn, placement: &Placement) -> Result<(), Error> {
    let sql = "INSERT INTO placements (project, world, phase) VALUES ($1, $2, $3)";
    let query = sqlx::query::<Db>(sql)
        .bind(placement.project.as_uuid())
        .bind(&placement.world)
        .bind(placement.phase.as_str());
    insert(conn, query, &format!("the placement of project \"{}\"", placement.project)).await
}

pub(crate) async fn placement(
    conn: &mut Conn,
    project: ProjectId,
) -> Result<Option<Placement>, Error> {
    let sql = "SELECT world, phase FROM placements WHERE project = $1";
    read_placement(conn, project, sql).await
}

async fn read_placement(
    conn: &mut Conn,
    project: ProjectId,
    sql: &'static str,
) -> Result<Option<Placement>, Error> {
    let row = sqlx::query_as::<Db, (String, String)>(sql)
        .bind(project.as_uuid())
        .fetch_optional(conn)
        .await
        .doing("read a placement")?;
    let Some((world, phase)) = row else { return Ok(None) };
    let phase = word(&format!("placement of \"{project}\""), "phase", &phase)?;
    Ok(Some(Placement { project, world, phase }))
}

/// Writes how far a placement is, if it still is where it was read.
pub(crate) async fn move_placement(
    conn: &mut Conn,
    before: &Placement,
    after: &Placement,
) -> Result<(), Error> {
    let sql = "UPDATE placements SET phase = $3 WHERE project = $1 AND phase = $2";
    let query = sqlx::query::<Db>(sql)
        .bind(before.project.as_uuid())
        .bind(before.phase.as_str())
        .bind(after.phase.as_str());
    change(conn, query).await
}

/// Ends a placement in which nothing lives. Nobody is accepted into it meanwhile.
pub(crate) async fn terminate(
    conn: &mut Conn,
    project: ProjectId,
) -> Result<Result<Placement, Occupied>, Error> {
    let sql = concat!("SELECT world, phase FROM placements WHERE project = $1", lock!());
    let Some(placement) = read_placement(conn, project, sql).await? else {
        return Err(Error::NotFound { what: format!("a placement of project \"{project}\"") });
    };
    let ended = match placement.terminate(occupancy(conn, project).await?) {
        Ok(ended) => ended,
        Err(occupied) => return Ok(Err(occupied)),
    };
    if ended != placement {
        move_placement(conn, &placement, &ended).await?;
    }
    Ok(Ok(ended))
}

/// Removes a placement; whoever lives there, or is watched there, holds it.
pub(crate) async fn displace(conn: &mut Conn, project: ProjectId) -> Result<(), Error> {
    let sql = "DELETE FROM placements WHERE project = $1";
    remove(conn, (sql, *project.as_uuid()), "the placement of project").await
}

/// What a project still holds.
pub(crate) async fn occupancy(conn: &mut Conn, project: ProjectId) -> Result<Occupancy, Error> {
    let sql = "SELECT
        (SELECT count(*) FROM resources WHERE project = $1 AND phase <> 'Deleted'),
        (SELECT count(*) FROM tombstones WHERE project = $1)";
    let (rows, tombstones) = sqlx::query_as::<Db, (i64, i64)>(sql)
        .bind(project.as_uuid())
        .fetch_one(conn)
        .await
        .doing("count what lives in a project")?;
    Ok(Occupancy { rows: rows.unsigned_abs(), tombstones: tombstones.unsigned_abs() })
}

pub(crate) async fn tenancy(
    conn: &mut Conn,
    id: TenancyId,
) -> Result<Option<TenancyResource>, Error> {
    let sql = "SELECT project, created_at, released_at FROM tenancy_resources WHERE id = $1";
    let row = sqlx::query_as::<Db, (Uuid, Time, Option<Time>)>(sql)
        .bind(id.as_uuid())
        .fetch_optional(conn)
        .await
        .doing("read a tenancy resource")?;
    Ok(row.map(|(project, created_at, released_at)| TenancyResource {
        id,
        project: ProjectId::from_uuid(project),
        created_at: created_at.0,
        released_at: released_at.map(|it| it.0),
    }))
}

/// The newest life of a name, in one project or in all of them.
pub(crate) async fn find_resources(
    conn: &mut Conn,
    project: Option<ProjectId>,
    name: &str,
) -> Result<Vec<ResourceId>, Error> {
    let sql = "SELECT id FROM resources AS r WHERE name = $2
        AND (project = $1 OR CAST($1 AS text) IS NULL)
        AND NOT EXISTS (SELECT 1 FROM resources AS other WHERE other.project = r.project
            AND other.name = r.name AND (other.created_at, other.id) > (r.created_at, r.id))
        ORDER BY id";
    let ids = sqlx::query_scalar::<Db, Uuid>(sql)
        .bind(project.map(|it| *it.as_uuid()))
        .bind(name)
        .fetch_all(conn)
        .await
        .doing("find a resource by its name")?;
    Ok(ids.into_iter().map(ResourceId::from_uuid).collect())
}

/// The resources of a project after an id, deleted ones too, in the order of their ids.
pub(crate) async fn resources(
    conn: &mut Conn,
    project: ProjectId,
    after: Option<ResourceId>,
    count: u32,
) -> Result<Vec<ResourceId>, Error> {
    let sql = "SELECT id FROM resources WHERE project = $1 AND id > $2 ORDER BY id LIMIT $3";
    let ids = sqlx::query_scalar::<Db, Uuid>(sql)
        .bind(project.as_uuid())
        .bind(after.map_or(Uuid::nil(), |it| *it.as_uuid()))
        .bind(i64::from(count))
        .fetch_all(conn)
        .await
        .doing("list the resources of a project")?;
    Ok(ids.into_iter().map(ResourceId::from_uuid).collect())
}
