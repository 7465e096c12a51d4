//! The audit log: one row per command of a person, in the command's own transaction.

use serde_json::Value;
use sqlx::QueryBuilder;
use sqlx::types::Json;
use usher_domain::audit;
use usher_domain::object::id::{AuditId, ProjectId};
use uuid::Uuid;

use super::port::Port;
use super::record::{from_json, word};
use super::{Conn, Db};
use crate::column::Time;
use crate::error::{Context as _, Error};

reads! {
    fn audit(after: Option<AuditId>, count: u32) -> Vec<audit::Entry>
        = |conn| list(conn, after, count);
}

writes! {
    fn note(it: audit::Entry) -> () = |conn| write(conn, &[&it]);
}

impl Port {
    /// Writes the row of a command, if its caller gave one.
    pub(super) async fn write_audit(
        conn: &mut Conn,
        entry: Option<&audit::Entry>,
    ) -> Result<(), Error> {
        write(conn, entry.as_slice()).await
    }
}

/// Writes rows of the audit log.
pub(crate) async fn write(conn: &mut Conn, entries: &[&audit::Entry]) -> Result<(), Error> {
    if entries.is_empty() {
        return Ok(());
    }
    let mut sql = QueryBuilder::<Db>::new(
        "INSERT INTO audit (id, at, actor, action, project, subject, detail) ",
    );
    sql.push_values(entries, |mut values, entry| {
        values
            .push_bind(*entry.id.as_uuid())
            .push_bind(Time(entry.at))
            .push_bind(entry.actor.clone())
            .push_bind(entry.action.as_str())
            .push_bind(entry.project.map(|it| *it.as_uuid()))
            .push_bind(entry.subject.clone())
            .push_bind(Json(&entry.detail));
    });
    sql.build().execute(&mut *conn).await.context("write the audit log")?;
    Ok(())
}

/// The audit log after an id, in its order.
async fn list(
    conn: &mut Conn,
    after: Option<AuditId>,
    count: u32,
) -> Result<Vec<audit::Entry>, Error> {
    let sql = "SELECT id, at, actor, action, project, subject, detail FROM audit
        WHERE id > $1 ORDER BY id LIMIT $2";
    let rows = sqlx::query_as::<Db, AuditRow>(sql)
        .bind(after.map_or(Uuid::nil(), |it| *it.as_uuid()))
        .bind(i64::from(count))
        .fetch_all(conn)
        .await
        .context("read the audit log")?;
    rows.into_iter().map(AuditRow::entry).collect()
}

#[derive(sqlx::FromRow)]
struct AuditRow {
    id: Uuid,
    at: Time,
    actor: String,
    action: String,
    project: Option<Uuid>,
    subject: String,
    detail: Json<Value>,
}

impl AuditRow {
    fn entry(self) -> Result<audit::Entry, Error> {
        let row = format!("audit \"{}\"", self.id);
        Ok(audit::Entry {
            id: AuditId::from_uuid(self.id),
            at: self.at.0,
            actor: self.actor,
            action: word(&row, "action", &self.action)?,
            project: self.project.map(ProjectId::from_uuid),
            subject: self.subject,
            detail: from_json(&row, "detail", self.detail.0)?,
        })
    }
}
