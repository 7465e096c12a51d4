//! What servers that share a store tell each other of drains.

use usher_domain::object::id::{PeerId, ProjectId, ResourceId};
use uuid::Uuid;

use super::super::{Conn, Db};
use super::port::Port;
use super::{peers, queue};
use crate::column::Ids;
use crate::error::{Doing as _, Error};
use crate::inside::Attended;
use crate::life::Life;

impl Port {
    pub(crate) async fn projects_being_left(&self) -> Result<Vec<ProjectId>, Error> {
        being_left(&mut *self.door.read().await?).await
    }

    pub(crate) async fn leaving(&self, project: ProjectId) -> Result<Vec<Attended>, Error> {
        peers::leaving(&mut *self.door.read().await?, project).await
    }

    pub(crate) async fn ask_acknowledgements(&self, leaver: PeerId) -> Result<bool, Error> {
        self.door.write(move |conn| Box::pin(ask(conn, leaver))).await
    }

    pub(crate) async fn acknowledge(
        &self,
        project: ProjectId,
        by: Vec<PeerId>,
        snapshot: u64,
    ) -> Result<(), Error> {
        let written =
            self.door.write(move |conn| Box::pin(acknowledge(conn, project, (by, snapshot)))).await;
        self.stirring(written)
    }
}

async fn being_left(conn: &mut Conn) -> Result<Vec<ProjectId>, Error> {
    let sql = "SELECT DISTINCT project FROM peers WHERE stage IN ('cordoned', 'draining')";
    let projects = sqlx::query_scalar::<Db, Uuid>(sql).fetch_all(&mut *conn).await;
    let projects = projects.doing("read the projects that nodes leave")?;
    Ok(projects.into_iter().map(ProjectId::from_uuid).collect())
}

async fn ask(conn: &mut Conn, leaver: PeerId) -> Result<bool, Error> {
    let sql = concat!(
        "UPDATE peers SET asked_at = ",
        now!(),
        " WHERE id = $1 AND stage = 'draining' AND asked_at IS NULL"
    );
    let asked = sqlx::query::<Db>(sql)
        .bind(leaver.as_uuid())
        .execute(conn)
        .await
        .doing("ask for acknowledgements")?;
    Ok(asked.rows_affected() > 0)
}

/// What was acknowledged never goes back.
async fn acknowledge(
    conn: &mut Conn,
    project: ProjectId,
    (by, snapshot): (Vec<PeerId>, u64),
) -> Result<(), Error> {
    let sql = concat!(
        "UPDATE peers SET acknowledged = $2
            WHERE (acknowledged IS NULL OR acknowledged < $2) AND id",
        any!("$1")
    );
    sqlx::query::<Db>(sql)
        .bind(Ids(by.iter().map(|it| *it.as_uuid()).collect()))
        .bind(i64::try_from(snapshot).unwrap_or(i64::MAX))
        .execute(&mut *conn)
        .await
        .doing("write acknowledgements")?;
    let sql = "SELECT DISTINCT resource FROM peers
        WHERE project = $1 AND stage = 'draining' AND asked_at IS NOT NULL ORDER BY resource";
    let waiting = sqlx::query_scalar::<Db, Uuid>(sql)
        .bind(project.as_uuid())
        .fetch_all(&mut *conn)
        .await
        .doing("look who waits for acknowledgements")?;
    for resource in waiting {
        queue::wake(conn, Life::Resource(ResourceId::from_uuid(resource))).await?;
    }
    Ok(())
}
