//! Lists of resources, each one query, and their display names.

use sqlx::QueryBuilder;
use usher_domain::object::id::{ProjectId, ResourceId};
use uuid::Uuid;

use super::super::port::Port;
use super::super::{Conn, Db};
use super::load::{ResourceRow, record_columns, record_tables};
use crate::error::{Context as _, Error};
use crate::resources::{DisplayNames, ListedResource, ResourceFilter};

reads! {
    fn display_names(id: ResourceId) -> Option<DisplayNames> = |conn| display_names(conn, id);
    fn resources_after(project: Option<ProjectId>, after: Option<ResourceId>, count: u32)
        -> Vec<ResourceId>
        = |conn| ids(conn, project, after, count);
    fn list_resources(filter: &ResourceFilter, after: Option<ResourceId>, count: u32)
        -> Vec<ListedResource>
        = |conn| list(conn, filter, after, count);
}

#[derive(sqlx::FromRow)]
struct DisplayNamesRow {
    name: String,
    project_slug: Option<String>,
    blueprint_name: Option<String>,
    version_name: Option<String>,
    credential_name: Option<String>,
    reason: Option<String>,
}

#[derive(sqlx::FromRow)]
struct ListedRow {
    #[sqlx(flatten)]
    record: ResourceRow,
    #[sqlx(flatten)]
    names: DisplayNamesRow,
}

/// What is read for [`DisplayNamesRow`], but for the name.
macro_rules! display_columns {
    () => {
        "p.slug AS project_slug, b.name AS blueprint_name, v.version AS version_name,
        c.name AS credential_name, q.reason"
    };
}

macro_rules! display_tables {
    () => {
        " LEFT JOIN projects AS p ON p.id = r.project
        LEFT JOIN blueprint_versions AS v ON v.id = r.blueprint_version
        LEFT JOIN blueprints AS b ON b.id = v.blueprint
        LEFT JOIN credentials AS c ON c.id = r.credential
        LEFT JOIN queue AS q ON q.record = r.id AND q.kind = 'resource'"
    };
}

async fn display_names(conn: &mut Conn, id: ResourceId) -> Result<Option<DisplayNames>, Error> {
    let sql = concat!(
        "SELECT r.name, ",
        display_columns!(),
        " FROM resources AS r",
        display_tables!(),
        " WHERE r.id = $1"
    );
    let row =
        sqlx::query_as::<Db, DisplayNamesRow>(sql).bind(id.as_uuid()).fetch_optional(conn).await;
    Ok(row.context("read what a resource is called")?.map(DisplayNamesRow::display_names))
}

async fn ids(
    conn: &mut Conn,
    project: Option<ProjectId>,
    after: Option<ResourceId>,
    count: u32,
) -> Result<Vec<ResourceId>, Error> {
    let mut sql = QueryBuilder::<Db>::new("SELECT r.id FROM resources AS r WHERE r.id > ");
    sql.push_bind(after.map_or(Uuid::nil(), |it| *it.as_uuid()));
    if let Some(project) = project {
        sql.push(" AND r.project = ").push_bind(*project.as_uuid());
    }
    sql.push(" ORDER BY r.id LIMIT ").push_bind(i64::from(count));
    let ids = sql.build_query_scalar::<Uuid>().fetch_all(conn).await.context("list resources")?;
    Ok(ids.into_iter().map(ResourceId::from_uuid).collect())
}

/// Resources with their names, in the order of their ids. A name means its newest resource in each
/// project, deleted or not.
async fn list(
    conn: &mut Conn,
    filter: &ResourceFilter,
    after: Option<ResourceId>,
    count: u32,
) -> Result<Vec<ListedResource>, Error> {
    let mut sql = QueryBuilder::<Db>::new(concat!(
        "SELECT ",
        record_columns!(),
        ", ",
        display_columns!(),
        record_tables!(),
        display_tables!(),
        " WHERE r.id > "
    ));
    sql.push_bind(after.map_or(Uuid::nil(), |it| *it.as_uuid()));
    if let Some(project) = filter.project {
        sql.push(" AND r.project = ").push_bind(*project.as_uuid());
    }
    if let Some(name) = &filter.name {
        sql.push(" AND r.name = ").push_bind(name.clone()).push(
            " AND NOT EXISTS (SELECT 1 FROM resources AS other WHERE other.project = r.project
                AND other.name = r.name AND (other.created_at, other.id) > (r.created_at, r.id))",
        );
    } else if !filter.deleted {
        sql.push(" AND r.phase <> 'Deleted'");
    }
    sql.push(" ORDER BY r.id LIMIT ").push_bind(i64::from(count));
    let rows = sql.build_query_as::<ListedRow>().fetch_all(conn).await.context("list resources")?;
    let listed = |row: ListedRow| {
        Ok(ListedResource { record: row.record.record()?, names: row.names.display_names() })
    };
    rows.into_iter().map(listed).collect()
}

impl DisplayNamesRow {
    fn display_names(self) -> DisplayNames {
        DisplayNames {
            name: self.name,
            project: self.project_slug,
            blueprint: self.blueprint_name.zip(self.version_name),
            credential: self.credential_name,
            reason: self.reason,
        }
    }
}
