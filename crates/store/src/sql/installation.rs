//! Whose database this is, and whether it was seen elsewhere.

use usher_domain::object::id::InstallationId;
use uuid::Uuid;

use super::super::{Conn, Db};
use crate::error::{Doing as _, Error};
use crate::port::{Installation, Provenance};
use crate::settings::Moved;

const DOING: &str = "read the installation";

/// Finds out whose database this is. One that was seen elsewhere is a clone or was restored: it
/// gets a new id unless told otherwise, and its log goes on in a new epoch either way. With a new id
/// its sinks are parked: they are told of the first one already.
pub(crate) async fn settle(
    conn: &mut Conn,
    identifier: &str,
    moved: Moved,
) -> Result<Installation, Error> {
    let insert = concat!(
        "INSERT INTO installation (singleton, id, database_identifier, epoch, created_at)
        VALUES ($3, $1, $2, 1, ",
        now!(),
        ") ON CONFLICT (singleton) DO NOTHING"
    );
    let inserted = sqlx::query::<Db>(insert)
        .bind(Uuid::now_v7())
        .bind(identifier)
        .bind(true)
        .execute(&mut *conn)
        .await
        .doing(DOING)?;
    let sql = concat!("SELECT id, database_identifier FROM installation", lock!());
    let (id, recorded) =
        sqlx::query_as::<Db, (Uuid, String)>(sql).fetch_one(&mut *conn).await.doing(DOING)?;
    let id = InstallationId::from_uuid(id);
    if inserted.rows_affected() == 1 {
        return Ok(Installation { id, provenance: Provenance::New });
    }
    if recorded == identifier {
        return Ok(Installation { id, provenance: Provenance::Known });
    }
    let before = id;
    let id = match moved {
        Moved::NewInstallation => InstallationId::from_uuid(Uuid::now_v7()),
        Moved::SameInstallation => before,
    };
    if id != before {
        super::sinks::park_all(conn).await?;
    }
    let sql = "UPDATE installation SET id = $1, database_identifier = $2, epoch = epoch + 1";
    sqlx::query::<Db>(sql)
        .bind(id.as_uuid())
        .bind(identifier)
        .execute(&mut *conn)
        .await
        .doing(DOING)?;
    Ok(Installation { id, provenance: Provenance::Moved { before } })
}
