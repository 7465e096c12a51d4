//! Credentials and which project may use them.

use usher_domain::credentials::{Assignment, Credential};
use usher_domain::object::id::{CloudId, CredentialId, ProjectId};
use usher_domain::object::kv::KvCoordinates;
use usher_kernel::Timestamp;
use uuid::Uuid;

use super::super::port::Port;
use super::super::record::{corrupt, word};
use super::super::{Conn, Db};
use super::{change, insert, remove, withdraw};
use crate::column::Time;
use crate::error::{Context as _, Error};

reads! {
    fn credentials() -> Vec<Credential> = |conn| list(conn);
    fn assignments(project: ProjectId) -> Vec<Assignment> = |conn| assignments(conn, project);
}

audited! {
    fn create_credential(it: Credential) -> () = |conn| create(conn, &it);
    fn revoke_credential(id: CredentialId, at: Timestamp) -> () = |conn| revoke(conn, id, at);
    fn delete_credential(id: CredentialId) -> () = |conn| delete(conn, id);
    fn assign(it: Assignment) -> () = |conn| assign(conn, &it);
    fn decide_assignment(before: Assignment, after: Assignment) -> ()
        = |conn| decide(conn, &before, &after);
    fn unassign(project: ProjectId, credential: CredentialId) -> ()
        = |conn| unassign(conn, project, credential);
}

#[derive(sqlx::FromRow)]
struct CredentialRow {
    id: Uuid,
    name: String,
    cloud: Uuid,
    provider: String,
    mount: String,
    path: String,
    expires_at: Option<Time>,
    revoked_at: Option<Time>,
}

async fn create(conn: &mut Conn, it: &Credential) -> Result<(), Error> {
    let sql = "INSERT INTO credentials (id, name, cloud, mount, path, expires_at, revoked_at)
        VALUES ($1, $2, $3, $4, $5, $6, $7)";
    let query = sqlx::query::<Db>(sql)
        .bind(it.id.as_uuid())
        .bind(it.name.as_str())
        .bind(it.cloud.as_uuid())
        .bind(it.coordinates.mount())
        .bind(it.coordinates.path())
        .bind(Time::some(it.expires_at))
        .bind(Time::some(it.revoked_at));
    insert(conn, query, &format!("credential \"{}\"", it.name)).await
}

async fn list(conn: &mut Conn) -> Result<Vec<Credential>, Error> {
    let sql = "SELECT c.id, c.name, c.cloud, d.provider, c.mount, c.path, c.expires_at,
            c.revoked_at
        FROM credentials AS c JOIN clouds AS d ON d.id = c.cloud ORDER BY c.id";
    let rows = sqlx::query_as::<Db, CredentialRow>(sql)
        .fetch_all(conn)
        .await
        .context("read credentials")?;
    rows.into_iter().map(CredentialRow::credential).collect()
}

/// Withdraws a credential; the first time counts.
async fn revoke(conn: &mut Conn, id: CredentialId, at: Timestamp) -> Result<(), Error> {
    let sql = "UPDATE credentials SET revoked_at = COALESCE(revoked_at, $2) WHERE id = $1";
    withdraw(conn, (sql, *id.as_uuid()), at, "credential").await
}

/// Removes a credential that no project uses or may use.
async fn delete(conn: &mut Conn, id: CredentialId) -> Result<(), Error> {
    remove(conn, ("DELETE FROM credentials WHERE id = $1", *id.as_uuid()), "credential").await
}

async fn assign(conn: &mut Conn, it: &Assignment) -> Result<(), Error> {
    let sql = "INSERT INTO assignments (project, credential, requested_by, state, decided_by,
            decided_at) VALUES ($1, $2, $3, $4, $5, $6)";
    let query = sqlx::query::<Db>(sql)
        .bind(it.project.as_uuid())
        .bind(it.credential.as_uuid())
        .bind(&it.requested_by)
        .bind(it.state.as_str())
        .bind(it.decided_by.as_deref())
        .bind(Time::some(it.decided_at));
    let what = format!("the assignment of credential \"{}\"", it.credential);
    insert(conn, query, &what).await
}

/// The assignments of a project.
async fn assignments(conn: &mut Conn, project: ProjectId) -> Result<Vec<Assignment>, Error> {
    type Row = (Uuid, String, String, Option<String>, Option<Time>);
    let sql = "SELECT credential, requested_by, state, decided_by, decided_at FROM assignments
        WHERE project = $1 ORDER BY credential";
    let rows = sqlx::query_as::<Db, Row>(sql)
        .bind(project.as_uuid())
        .fetch_all(conn)
        .await
        .context("read assignments")?;
    let assignment = |(credential, requested_by, state, decided_by, decided_at): Row| {
        let row = format!("assignment of \"{credential}\"");
        Ok(Assignment {
            project,
            credential: CredentialId::from_uuid(credential),
            requested_by,
            state: word(&row, "state", &state)?,
            decided_by,
            decided_at: decided_at.map(|it| it.0),
        })
    };
    rows.into_iter().map(assignment).collect()
}

/// Writes a verdict about an assignment, if it still is where it was read.
async fn decide(conn: &mut Conn, before: &Assignment, after: &Assignment) -> Result<(), Error> {
    let sql = "UPDATE assignments SET state = $4, decided_by = $5, decided_at = $6
        WHERE project = $1 AND credential = $2 AND state = $3";
    let query = sqlx::query::<Db>(sql)
        .bind(before.project.as_uuid())
        .bind(before.credential.as_uuid())
        .bind(before.state.as_str())
        .bind(after.state.as_str())
        .bind(after.decided_by.as_deref())
        .bind(Time::some(after.decided_at));
    change(conn, query).await
}

/// Removes an assignment: the project has nothing to do with the credential any more.
async fn unassign(
    conn: &mut Conn,
    project: ProjectId,
    credential: CredentialId,
) -> Result<(), Error> {
    let sql = "DELETE FROM assignments WHERE project = $1 AND credential = $2";
    let query = sqlx::query::<Db>(sql).bind(project.as_uuid()).bind(credential.as_uuid());
    change(conn, query).await
}

impl CredentialRow {
    fn credential(self) -> Result<Credential, Error> {
        let row = format!("credential \"{}\"", self.id);
        Ok(Credential {
            id: CredentialId::from_uuid(self.id),
            name: word(&row, "name", &self.name)?,
            cloud: CloudId::from_uuid(self.cloud),
            provider: word(&row, "provider", &self.provider)?,
            coordinates: KvCoordinates::new(&self.mount, &self.path)
                .map_err(|_| corrupt(&row, "coordinates"))?,
            expires_at: self.expires_at.map(|it| it.0),
            revoked_at: self.revoked_at.map(|it| it.0),
        })
    }
}
