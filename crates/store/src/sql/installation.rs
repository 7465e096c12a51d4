//! Whose database this is, and whether it was seen elsewhere.

use usher_domain::object::id::InstallationId;
use uuid::Uuid;

use super::super::{BEGIN_EPOCH, Conn, Db};
use crate::error::{Context as _, Error};
use crate::port::{Installation, Provenance};
use crate::settings::Moved;

const DOING: &str = "read the installation";

/// Finds out whose database this is. One that was seen elsewhere is a clone or was restored: it
/// gets a new id unless configured otherwise, and its log continues in a new epoch either way. With
/// a new id its sinks are parked: the original already delivers to them.
///
/// A server on another timeline was promoted or recovered to a point in time. It is the same
/// installation, but commits may be missing that a client saw, and transaction ids may be given
/// again: the log continues in a new epoch.
pub(crate) async fn settle(
    conn: &mut Conn,
    (identifier, timeline): (&str, Option<&str>),
    moved: Moved,
) -> Result<Installation, Error> {
    let insert = concat!(
        "INSERT INTO installation (singleton, id, database_identifier, timeline, epoch, created_at)
        VALUES ($3, $1, $2, $4, 1, ",
        now!(),
        ") ON CONFLICT (singleton) DO NOTHING"
    );
    let inserted = sqlx::query::<Db>(insert)
        .bind(Uuid::now_v7())
        .bind(identifier)
        .bind(true)
        .bind(timeline)
        .execute(&mut *conn)
        .await
        .context(DOING)?;
    let sql = concat!("SELECT id, database_identifier, timeline FROM installation", lock!());
    let (id, recorded, known) = sqlx::query_as::<Db, (Uuid, String, Option<String>)>(sql)
        .fetch_one(&mut *conn)
        .await
        .context(DOING)?;
    let id = InstallationId::from_uuid(id);
    if inserted.rows_affected() == 1 {
        return Ok(Installation { id, provenance: Provenance::New });
    }
    if recorded == identifier && (known.is_none() || known.as_deref() == timeline) {
        if known.as_deref() != timeline {
            remember_timeline(conn, timeline).await?;
        }
        return Ok(Installation { id, provenance: Provenance::Known });
    }
    remember_timeline(conn, timeline).await?;
    let before = id;
    if recorded == identifier {
        begin_epoch(conn, before, identifier).await?;
        return Ok(Installation { id, provenance: Provenance::Recovered });
    }
    let id = match moved {
        Moved::NewInstallation => InstallationId::from_uuid(Uuid::now_v7()),
        Moved::SameInstallation => before,
    };
    if id != before {
        super::sinks::park_all(conn).await?;
    }
    begin_epoch(conn, id, identifier).await?;
    Ok(Installation { id, provenance: Provenance::Moved { before } })
}

/// The log continues in an epoch in which no earlier number is used again.
async fn begin_epoch(conn: &mut Conn, id: InstallationId, identifier: &str) -> Result<(), Error> {
    let sql = "UPDATE installation SET id = $1, database_identifier = $2, epoch = epoch + 1";
    sqlx::query::<Db>(sql)
        .bind(id.as_uuid())
        .bind(identifier)
        .execute(&mut *conn)
        .await
        .context(DOING)?;
    sqlx::raw_sql(BEGIN_EPOCH).execute(&mut *conn).await.context(DOING)?;
    Ok(())
}

async fn remember_timeline(conn: &mut Conn, timeline: Option<&str>) -> Result<(), Error> {
    sqlx::query::<Db>("UPDATE installation SET timeline = $1")
        .bind(timeline)
        .execute(&mut *conn)
        .await
        .context(DOING)?;
    Ok(())
}
