//! The present servers, and what one poll of a server reads.

use usher_domain::object::id::{PeerId, ProjectId};
use uuid::Uuid;

use super::{Conn, Db};
use crate::error::{Context as _, Error};
use crate::presence::{ServerNumber, Sighting};

const PRESENT: i64 = 0;
const BEING_LEFT: i64 = 1;

/// One row of a poll; its kind says what it is about.
#[derive(sqlx::FromRow)]
struct SightingRow {
    kind: i64,
    id: Option<Uuid>,
    number: Option<i64>,
}

/// Takes a new number and forgets the servers that are gone.
pub(crate) async fn appear(conn: &mut Conn) -> Result<ServerNumber, Error> {
    sqlx::query::<Db>(super::super::FORGET_SERVERS)
        .execute(&mut *conn)
        .await
        .context("forget the servers that are gone")?;
    let number = sqlx::query_scalar::<Db, i64>(super::super::APPEAR)
        .fetch_one(conn)
        .await
        .context("make this server present")?;
    Ok(ServerNumber(number))
}

/// Everything a server asks for again and again, in one statement. The numbers that peers name are
/// found by stepping through an index: there are few, however many peers there are.
pub(crate) async fn sight(conn: &mut Conn) -> Result<Sighting, Error> {
    let sql = concat!(
        "WITH RECURSIVE present (number) AS (",
        present!(),
        "), named (number) AS (
            SELECT min(claimed_by) FROM peers
                WHERE claimed_by IS NOT NULL AND stage <> 'deregistered' AND lost_since IS NULL
            UNION ALL
            SELECT (SELECT min(claimed_by) FROM peers WHERE claimed_by > named.number
                    AND stage <> 'deregistered' AND lost_since IS NULL)
                FROM named WHERE named.number IS NOT NULL
        )
        SELECT CAST(0 AS bigint) AS kind, CAST(NULL AS uuid) AS id, number FROM present
        UNION ALL SELECT DISTINCT 1, project, CAST(NULL AS bigint) FROM peers
            WHERE stage IN ('cordoned', 'draining')
        UNION ALL SELECT 2, id, claimed_by FROM peers
            WHERE claimed_by IS NULL AND stage <> 'deregistered' AND lost_since IS NULL
        UNION ALL SELECT 2, p.id, p.claimed_by FROM named
            JOIN peers AS p ON p.claimed_by = named.number
            WHERE named.number NOT IN (SELECT number FROM present)
                AND p.stage <> 'deregistered' AND p.lost_since IS NULL"
    );
    let rows = sqlx::query_as::<Db, SightingRow>(sql).fetch_all(conn).await;
    let mut sighting = Sighting::default();
    for SightingRow { kind, id, number } in rows.context("poll for other servers and nodes")? {
        let number = number.map(ServerNumber);
        match (kind, id) {
            (PRESENT, _) => sighting.present.extend(number),
            (BEING_LEFT, Some(id)) => {
                sighting.draining_projects.insert(ProjectId::from_uuid(id));
            }
            (_, Some(id)) => sighting.unclaimed.push((PeerId::from_uuid(id), number)),
            (_, None) => {}
        }
    }
    Ok(sighting)
}
