//! Lists of resources, and what people call them.

use usher_domain::object::id::{ProjectId, ResourceId};
use uuid::Uuid;

use super::super::port::Port;
use super::super::{Conn, Db};
use crate::error::{Doing as _, Error};
use crate::resources::Titles;

reads! {
    fn titles(id: ResourceId) -> Option<Titles> = |conn| titles(conn, id);
    fn resources_after(after: Option<ResourceId>, count: u32) -> Vec<ResourceId>
        = |conn| after_id(conn, after, count);
    fn find_resources(project: Option<ProjectId>, name: &str) -> Vec<ResourceId>
        = |conn| find(conn, project, name);
    fn resources(project: ProjectId, after: Option<ResourceId>, count: u32) -> Vec<ResourceId>
        = |conn| of_project(conn, project, after, count);
}

#[derive(sqlx::FromRow)]
struct TitlesRow {
    name: String,
    slug: Option<String>,
    blueprint: Option<String>,
    version: Option<String>,
    credential: Option<String>,
    reason: Option<String>,
}

async fn titles(conn: &mut Conn, id: ResourceId) -> Result<Option<Titles>, Error> {
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
            .fetch_optional(conn)
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

async fn after_id(
    conn: &mut Conn,
    after: Option<ResourceId>,
    count: u32,
) -> Result<Vec<ResourceId>, Error> {
        let sql = "SELECT id FROM resources WHERE id > $1 ORDER BY id LIMIT $2";
        let ids = sqlx::query_scalar::<Db, Uuid>(sql)
            .bind(after.map_or(Uuid::nil(), |it| *it.as_uuid()))
            .bind(i64::from(count))
            .fetch_all(conn)
            .await
            .doing("list resources")?;
        Ok(ids.into_iter().map(ResourceId::from_uuid).collect())
}

/// The newest resource of a name, in one project or in all of them.
async fn find(
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
async fn of_project(
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
