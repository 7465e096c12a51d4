//! Projects, their placements, and what they still hold.

use sqlx::query::QueryAs;
use usher_domain::audit;
use usher_domain::object::id::{ProjectId, TenancyId};
use usher_domain::object::occupancy::{Occupancy, Occupied};
use usher_domain::placements::Placement;
use usher_domain::projects::{Project, TenancyResource};
use uuid::Uuid;

use super::super::port::Port;
use super::super::record::word;
use super::super::{Conn, Db};
use super::{Arguments, change, insert, remove};
use crate::column::Time;
use crate::error::{Context as _, Error};

reads! {
    fn projects(after: Option<ProjectId>, count: u32) -> Vec<Project>
        = |conn| list(conn, after, count);
    fn project(slug: &str) -> Option<Project> = |conn| find(conn, slug);
    fn project_of(id: ProjectId) -> Option<Project> = |conn| find_by_id(conn, id);
    fn placement(project: ProjectId) -> Option<Placement> = |conn| placement(conn, project);
    fn placements(after: Option<ProjectId>, count: u32) -> Vec<Placement>
        = |conn| placements(conn, after, count);
    fn occupancy(project: ProjectId) -> Occupancy = |conn| occupancy(conn, project);
    fn tenancy(id: TenancyId) -> Option<TenancyResource> = |conn| tenancy(conn, id);
}

audited! {
    fn create_project(it: Project) -> () = |conn| create(conn, &it);
    fn delete_project(id: ProjectId) -> () = |conn| delete(conn, id);
    fn place_project(it: Placement) -> () = |conn| place(conn, &it);
    fn move_placement(before: Placement, after: Placement) -> ()
        = |conn| move_placement(conn, &before, &after);
    fn displace_project(project: ProjectId) -> () = |conn| displace(conn, project);
}

impl Port {
    /// A placement that is occupied is not terminated, and no audit row is written.
    pub(crate) async fn terminate_placement(
        &self,
        project: ProjectId,
        audit: Option<audit::Entry>,
    ) -> Result<Result<Placement, Occupied>, Error> {
        self.pool
            .write(move |conn| {
                Box::pin(async move {
                    let ended = terminate(conn, project).await?;
                    if ended.is_ok() {
                        Self::write_audit(conn, audit.as_ref()).await?;
                    }
                    Ok(ended)
                })
            })
            .await
    }
}

async fn create(conn: &mut Conn, project: &Project) -> Result<(), Error> {
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
async fn list(
    conn: &mut Conn,
    after: Option<ProjectId>,
    count: u32,
) -> Result<Vec<Project>, Error> {
    let sql = "SELECT id, slug, name FROM projects WHERE id > $1 ORDER BY id LIMIT $2";
    let rows = sqlx::query_as::<Db, ProjectRow>(sql)
        .bind(after.map_or(Uuid::nil(), |it| *it.as_uuid()))
        .bind(i64::from(count))
        .fetch_all(conn)
        .await
        .context("read projects")?;
    rows.into_iter().map(project).collect()
}

async fn find(conn: &mut Conn, slug: &str) -> Result<Option<Project>, Error> {
    let query = sqlx::query_as("SELECT id, slug, name FROM projects WHERE slug = $1").bind(slug);
    one(conn, query).await
}

async fn find_by_id(conn: &mut Conn, id: ProjectId) -> Result<Option<Project>, Error> {
    let query = sqlx::query_as("SELECT id, slug, name FROM projects WHERE id = $1");
    one(conn, query.bind(*id.as_uuid())).await
}

async fn one(
    conn: &mut Conn,
    query: QueryAs<'_, Db, ProjectRow, Arguments>,
) -> Result<Option<Project>, Error> {
    query.fetch_optional(conn).await.context("read a project")?.map(project).transpose()
}

type ProjectRow = (Uuid, String, String);

fn project((id, slug, name): ProjectRow) -> Result<Project, Error> {
    let row = format!("project \"{id}\"");
    let (slug, name) = (word(&row, "slug", &slug)?, word(&row, "name", &name)?);
    Ok(Project { id: ProjectId::from_uuid(id), slug, name })
}

/// Removes a project; a resource or a tombstone in it holds it.
async fn delete(conn: &mut Conn, id: ProjectId) -> Result<(), Error> {
    remove(conn, ("DELETE FROM projects WHERE id = $1", *id.as_uuid()), "project").await
}

async fn place(conn: &mut Conn, placement: &Placement) -> Result<(), Error> {
    let sql = "INSERT INTO placements (project, world, phase) VALUES ($1, $2, $3)";
    let query = sqlx::query::<Db>(sql)
        .bind(placement.project.as_uuid())
        .bind(&placement.world)
        .bind(placement.phase.as_str());
    insert(conn, query, &format!("the placement of project \"{}\"", placement.project)).await
}

async fn placement(conn: &mut Conn, project: ProjectId) -> Result<Option<Placement>, Error> {
    let sql = "SELECT project, world, phase FROM placements WHERE project = $1";
    read_placement(conn, project, sql).await
}

async fn read_placement(
    conn: &mut Conn,
    project: ProjectId,
    sql: &'static str,
) -> Result<Option<Placement>, Error> {
    let row = sqlx::query_as::<Db, PlacementRow>(sql)
        .bind(project.as_uuid())
        .fetch_optional(conn)
        .await
        .context("read a placement")?;
    row.map(read_row).transpose()
}

type PlacementRow = (Uuid, String, String);

fn read_row((project, world, phase): PlacementRow) -> Result<Placement, Error> {
    let phase = word(&format!("placement of \"{project}\""), "phase", &phase)?;
    Ok(Placement { project: ProjectId::from_uuid(project), world, phase })
}

/// Placements after a project, in the order of their projects.
async fn placements(
    conn: &mut Conn,
    after: Option<ProjectId>,
    count: u32,
) -> Result<Vec<Placement>, Error> {
    let sql = "SELECT project, world, phase FROM placements
        WHERE project > $1 ORDER BY project LIMIT $2";
    let rows = sqlx::query_as::<Db, PlacementRow>(sql)
        .bind(after.map_or(Uuid::nil(), |it| *it.as_uuid()))
        .bind(i64::from(count))
        .fetch_all(conn)
        .await
        .context("list placements")?;
    rows.into_iter().map(read_row).collect()
}

/// Writes how far a placement is, if it still is where it was read.
async fn move_placement(
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

/// Terminates an empty placement. No declaration is accepted into it meanwhile.
async fn terminate(
    conn: &mut Conn,
    project: ProjectId,
) -> Result<Result<Placement, Occupied>, Error> {
    let sql = concat!("SELECT project, world, phase FROM placements WHERE project = $1", lock!());
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

/// Removes a placement; a resource or a tombstone there holds it.
async fn displace(conn: &mut Conn, project: ProjectId) -> Result<(), Error> {
    let sql = "DELETE FROM placements WHERE project = $1";
    remove(conn, (sql, *project.as_uuid()), "the placement of project").await
}

/// What a project still holds.
async fn occupancy(conn: &mut Conn, project: ProjectId) -> Result<Occupancy, Error> {
    let sql = "SELECT
        (SELECT count(*) FROM resources WHERE project = $1 AND phase <> 'Deleted'),
        (SELECT count(*) FROM tombstones WHERE project = $1)";
    let (rows, tombstones) = sqlx::query_as::<Db, (i64, i64)>(sql)
        .bind(project.as_uuid())
        .fetch_one(conn)
        .await
        .context("count what a project holds")?;
    Ok(Occupancy { rows: rows.unsigned_abs(), tombstones: tombstones.unsigned_abs() })
}

async fn tenancy(conn: &mut Conn, id: TenancyId) -> Result<Option<TenancyResource>, Error> {
    let sql = "SELECT project, created_at, released_at FROM tenancy_resources WHERE id = $1";
    let row = sqlx::query_as::<Db, (Uuid, Time, Option<Time>)>(sql)
        .bind(id.as_uuid())
        .fetch_optional(conn)
        .await
        .context("read a tenancy resource")?;
    Ok(row.map(|(project, created_at, released_at)| TenancyResource {
        id,
        project: ProjectId::from_uuid(project),
        created_at: created_at.0,
        released_at: released_at.map(|it| it.0),
    }))
}
