//! Peers: enrolment, liveness, and the stage of a drain.

use sqlx::QueryBuilder;
use usher_domain::object::enrolment::KeyId;
use usher_domain::object::id::{PeerId, ProjectId, ResourceId, TokenId};
use usher_domain::peers::{self, Forced, Peer, Registration, Stage};
use usher_domain::tokens::{Consumption, Token};
use usher_kernel::Timestamp;
use uuid::Uuid;

use super::port::Port;
use super::record::{corrupt, generation, word};
use super::{Conn, Db, keys, queue};
use crate::column::{Ids, Time};
use crate::error::{Context as _, Error};
use crate::peers::{PeerFilter, PeerStatus};
use crate::port::WorkItem;
use crate::presence::ServerNumber;

reads! {
    fn peer(id: PeerId) -> Option<PeerStatus> = |conn| find(conn, id);
    fn node(id: PeerId) -> Option<(PeerStatus, KeyId)> = |conn| with_current_key(conn, id);
    fn peers(resource: ResourceId) -> Vec<Peer> = |conn| of_resource(conn, resource);
    fn peers_of(resources: Vec<ResourceId>) -> Vec<PeerStatus>
        = |conn| of_resources(conn, resources);
    fn mesh(project: ProjectId) -> (Option<Timestamp>, Vec<PeerStatus>)
        = |conn| mesh(conn, project);
    fn list_peers(filter: PeerFilter, after: Option<PeerId>, count: u32)
        -> Vec<(PeerStatus, String)> = |conn| list(conn, filter, after, count);
    fn leaving(project: ProjectId) -> Vec<PeerStatus> = |conn| leaving(conn, project);
}

writes! {
    fn ask_acknowledgements(leaver: PeerId) -> bool = |conn| ask(conn, leaver);
}

wakes! {
    fn claim_peer(id: PeerId, by: ServerNumber) -> bool = |conn| claim(conn, id, by);
    fn lose_peer(id: PeerId, claimed_by: Option<ServerNumber>) -> bool
        = |conn| lose(conn, id, claimed_by);
    fn acknowledge(project: ProjectId, by: Vec<PeerId>, snapshot: u64) -> ()
        = |conn| acknowledge(conn, project, (by, snapshot));
}

audited! {
    fn move_peer(before: Peer, after: Peer) -> () = |conn| move_on(conn, &before, &after);
}

#[derive(sqlx::FromRow)]
pub(crate) struct PeerRow {
    pub(crate) id: Uuid,
    pub(crate) token: Uuid,
    pub(crate) resource: Uuid,
    pub(crate) generation: i64,
    pub(crate) project: Uuid,
    pub(crate) nonce: String,
    pub(crate) public_key: String,
    pub(crate) registered_at: Time,
    pub(crate) stage: String,
    pub(crate) cordoned_at: Option<Time>,
    pub(crate) key_revoked_at: Option<Time>,
    pub(crate) deregistered_at: Option<Time>,
    pub(crate) cause: Option<String>,
    pub(crate) forced_by: Option<String>,
    pub(crate) forced_at: Option<Time>,
    pub(crate) lost_since: Option<Time>,
    pub(crate) asked_at: Option<Time>,
    pub(crate) acknowledged: Option<i64>,
    pub(crate) claimed_by: Option<i64>,
    pub(crate) key_id: String,
}

#[derive(sqlx::FromRow)]
struct TimedPeerRow {
    now: Time,
    #[sqlx(flatten)]
    peer: PeerRow,
}

#[derive(sqlx::FromRow)]
struct NamedPeerRow {
    name: String,
    #[sqlx(flatten)]
    peer: PeerRow,
}

#[derive(sqlx::FromRow)]
struct KeyedPeerRow {
    current_key: String,
    #[sqlx(flatten)]
    peer: PeerRow,
}

macro_rules! peer_columns {
    () => {
        "id, token, resource, generation, project, nonce, public_key, registered_at, stage,
        cordoned_at, key_revoked_at, deregistered_at, cause, forced_by, forced_at, lost_since,
        asked_at, acknowledged, claimed_by, key_id"
    };
}

/// Registers the peer that a token becomes.
pub(crate) async fn register(
    conn: &mut Conn,
    token: &Token,
    by: &Consumption,
) -> Result<(), Error> {
    let wanted = Registration {
        token: token.id,
        resource: token.resource,
        generation: token.generation,
        project: token.project,
        nonce: by.nonce.clone(),
        public_key: by.public_key.clone(),
    };
    // A token that was redeemed in this transaction has no peer yet.
    let Ok(registered) = peers::register(None, by.peer, &wanted, by.at) else { return Ok(()) };
    let sql = concat!(
        "INSERT INTO peers (",
        peer_columns!(),
        ") VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
            NULL, NULL, NULL, $10)"
    );
    let Peer { id, registration, registered_at, stage, forced: _ } = registered.peer;
    let key = keys::current(conn).await?;
    sqlx::query::<Db>(sql)
        .bind(id.as_uuid())
        .bind(registration.token.as_uuid())
        .bind(registration.resource.as_uuid())
        .bind(i64::from(registration.generation.0))
        .bind(registration.project.as_uuid())
        .bind(registration.nonce.as_str())
        .bind(registration.public_key.to_string())
        .bind(Time(registered_at))
        .bind(stage.as_str())
        .bind(key.as_str())
        .execute(&mut *conn)
        .await
        .context("register a peer")?;
    Ok(())
}

/// The peers of a resource, oldest generation first.
async fn of_resource(conn: &mut Conn, resource: ResourceId) -> Result<Vec<Peer>, Error> {
    Ok(status(conn, resource).await?.into_iter().map(|it| it.peer).collect())
}

/// The peers of a resource, oldest generation first, and whether they are lost.
async fn status(conn: &mut Conn, resource: ResourceId) -> Result<Vec<PeerStatus>, Error> {
    let sql =
        concat!("SELECT ", peer_columns!(), " FROM peers WHERE resource = $1 ORDER BY generation");
    rows(conn, sqlx::query_as::<Db, PeerRow>(sql).bind(resource.as_uuid())).await
}

/// The peers of several resources that are not deregistered.
async fn of_resources(
    conn: &mut Conn,
    resources: Vec<ResourceId>,
) -> Result<Vec<PeerStatus>, Error> {
    let sql = concat!(
        "SELECT ",
        peer_columns!(),
        " FROM peers WHERE stage <> 'deregistered' AND resource",
        any!("$1"),
        " ORDER BY id"
    );
    let resources = Ids(resources.iter().map(|it| *it.as_uuid()).collect());
    rows(conn, sqlx::query_as::<Db, PeerRow>(sql).bind(resources)).await
}

/// The time, if there is any peer, and the peers of a project that are not deregistered.
async fn mesh(
    conn: &mut Conn,
    project: ProjectId,
) -> Result<(Option<Timestamp>, Vec<PeerStatus>), Error> {
    let sql = concat!(
        "SELECT ",
        now!(),
        " AS now, ",
        peer_columns!(),
        " FROM peers WHERE project = $1 AND stage <> 'deregistered' ORDER BY id"
    );
    let query = sqlx::query_as::<Db, TimedPeerRow>(sql).bind(project.as_uuid());
    let rows = query.fetch_all(conn).await.context("read peers")?;
    let now = rows.first().map(|it| it.now.0);
    let mesh: Result<Vec<_>, _> = rows.into_iter().map(|it| it.peer.status()).collect();
    Ok((now, mesh?))
}

/// The peers of a project that are being drained.
async fn leaving(conn: &mut Conn, project: ProjectId) -> Result<Vec<PeerStatus>, Error> {
    let sql = concat!(
        "SELECT ",
        peer_columns!(),
        " FROM peers WHERE project = $1 AND stage IN ('cordoned', 'draining') ORDER BY id"
    );
    rows(conn, sqlx::query_as::<Db, PeerRow>(sql).bind(project.as_uuid())).await
}

/// Peers after an id, in the order of their ids, with the names of their resources.
async fn list(
    conn: &mut Conn,
    filter: PeerFilter,
    after: Option<PeerId>,
    count: u32,
) -> Result<Vec<(PeerStatus, String)>, Error> {
    let mut sql = QueryBuilder::<Db>::new(concat!(
        "SELECT ",
        peer_columns!(),
        ", (SELECT r.name FROM resources AS r WHERE r.id = peers.resource) AS name
        FROM peers WHERE id > "
    ));
    sql.push_bind(after.map_or(Uuid::nil(), |it| *it.as_uuid()));
    if let Some(project) = filter.project {
        sql.push(" AND project = ").push_bind(*project.as_uuid());
    }
    if let Some(key) = filter.key {
        sql.push(" AND key_id = ").push_bind(key.as_str().to_owned());
    }
    if !filter.deregistered {
        sql.push(" AND stage <> 'deregistered'");
    }
    sql.push(" ORDER BY id LIMIT ").push_bind(i64::from(count));
    let rows = sql.build_query_as::<NamedPeerRow>().fetch_all(conn).await.context("list peers")?;
    rows.into_iter().map(|row| Ok((row.peer.status()?, row.name))).collect()
}

async fn find(conn: &mut Conn, id: PeerId) -> Result<Option<PeerStatus>, Error> {
    let sql = concat!("SELECT ", peer_columns!(), " FROM peers WHERE id = $1");
    let found = rows(conn, sqlx::query_as::<Db, PeerRow>(sql).bind(id.as_uuid())).await?;
    Ok(found.into_iter().next())
}

/// A peer, and the key of the secret that it should call with.
async fn with_current_key(
    conn: &mut Conn,
    id: PeerId,
) -> Result<Option<(PeerStatus, KeyId)>, Error> {
    let sql = concat!(
        "SELECT (SELECT k.id FROM server_keys AS k WHERE k.state = 'current') AS current_key, ",
        peer_columns!(),
        " FROM peers WHERE id = $1"
    );
    let row = sqlx::query_as::<Db, KeyedPeerRow>(sql).bind(id.as_uuid()).fetch_optional(conn).await;
    let Some(row) = row.context("read a peer")? else { return Ok(None) };
    Ok(Some((row.peer.status()?, KeyId::from_stored(row.current_key))))
}

async fn rows(
    conn: &mut Conn,
    query: sqlx::query::QueryAs<'_, Db, PeerRow, <Db as sqlx::Database>::Arguments>,
) -> Result<Vec<PeerStatus>, Error> {
    let rows = query.fetch_all(conn).await.context("read peers")?;
    rows.into_iter().map(PeerRow::status).collect()
}

/// Records which server hears a peer, and its recovery if it was lost; whether it was.
async fn claim(conn: &mut Conn, id: PeerId, by: ServerNumber) -> Result<bool, Error> {
    let sql =
        concat!("SELECT lost_since FROM peers WHERE id = $1 AND stage <> 'deregistered'", lock!());
    let found = sqlx::query_scalar::<Db, Option<Time>>(sql)
        .bind(id.as_uuid())
        .fetch_optional(&mut *conn)
        .await
        .context("lock a peer")?;
    let Some(lost_since) = found else { return Ok(false) };
    let sql =
        "UPDATE peers SET claimed_by = $2, lost_since = NULL WHERE id = $1 RETURNING resource";
    let resource = sqlx::query_scalar::<Db, Uuid>(sql)
        .bind(id.as_uuid())
        .bind(by.0)
        .fetch_one(&mut *conn)
        .await
        .context("record which server hears a peer")?;
    if lost_since.is_some() {
        queue::wake(conn, WorkItem::Resource(ResourceId::from_uuid(resource))).await?;
    }
    Ok(lost_since.is_some())
}

/// Records that a peer is lost and wakes its resource; `false` if it already was, if another
/// server hears it meanwhile, or if it is deregistered.
async fn lose(
    conn: &mut Conn,
    id: PeerId,
    claimed_by: Option<ServerNumber>,
) -> Result<bool, Error> {
    let sql = concat!(
        "UPDATE peers SET lost_since = ",
        now!(),
        " WHERE id = $1 AND claimed_by IS NOT DISTINCT FROM $2 AND lost_since IS NULL
            AND stage <> 'deregistered' RETURNING resource"
    );
    let resource = sqlx::query_scalar::<Db, Uuid>(sql)
        .bind(id.as_uuid())
        .bind(claimed_by.map(|it| it.0))
        .fetch_optional(&mut *conn)
        .await
        .context("record the loss of a peer")?;
    let Some(resource) = resource else { return Ok(false) };
    queue::wake(conn, WorkItem::Resource(ResourceId::from_uuid(resource))).await?;
    Ok(true)
}

/// Writes the drain stage of a peer, if it was not moved since, and wakes its resource.
async fn move_on(conn: &mut Conn, before: &Peer, after: &Peer) -> Result<(), Error> {
    let sql = "UPDATE peers SET stage = $3, cordoned_at = $4, key_revoked_at = $5,
        deregistered_at = $6, cause = $7, forced_by = $8, forced_at = $9
        WHERE id = $1 AND stage = $2";
    let (cordoned, revoked, deregistered, cause) = match after.stage {
        Stage::Registered => (None, None, None, None),
        Stage::Cordoned { since } => (Some(since), None, None, None),
        Stage::Draining { since, key_revoked_at } => {
            (Some(since), Some(key_revoked_at), None, None)
        }
        Stage::Deregistered { key_revoked_at, at, cause } => {
            (None, Some(key_revoked_at), Some(at), Some(cause))
        }
    };
    let forced = after.forced.as_ref();
    let moved = sqlx::query::<Db>(sql)
        .bind(before.id.as_uuid())
        .bind(before.stage.as_str())
        .bind(after.stage.as_str())
        .bind(Time::some(cordoned))
        .bind(Time::some(revoked))
        .bind(Time::some(deregistered))
        .bind(cause.map(peers::Cause::as_str))
        .bind(forced.map(|it| it.by.as_str()))
        .bind(Time::some(forced.map(|it| it.at)))
        .execute(&mut *conn)
        .await
        .context("write a peer")?;
    if moved.rows_affected() == 0 {
        return Err(Error::Conflict);
    }
    queue::wake(conn, WorkItem::Resource(before.registration.resource)).await?;
    Ok(())
}

impl PeerRow {
    /// The peer, and whether it is lost.
    pub(crate) fn status(self) -> Result<PeerStatus, Error> {
        let lost_since = self.lost_since.map(|it| it.0);
        let asked_at = self.asked_at.map(|it| it.0);
        let acknowledged = self.acknowledged.unwrap_or(0).unsigned_abs();
        let claimed_by = self.claimed_by.map(ServerNumber);
        let key_id = KeyId::from_stored(self.key_id.clone());
        let peer = self.peer()?;
        Ok(PeerStatus { peer, lost_since, asked_at, acknowledged, claimed_by, key_id })
    }

    fn peer(self) -> Result<Peer, Error> {
        let row = format!("peer \"{}\"", self.id);
        let stage = self.stage(&row)?;
        let forced = match (self.forced_by, self.forced_at) {
            (Some(by), Some(at)) => Some(Forced { by, at: at.0 }),
            _ => None,
        };
        Ok(Peer {
            id: PeerId::from_uuid(self.id),
            registration: Registration {
                token: TokenId::from_uuid(self.token),
                resource: ResourceId::from_uuid(self.resource),
                generation: generation(&row, self.generation)?,
                project: ProjectId::from_uuid(self.project),
                nonce: word(&row, "nonce", &self.nonce)?,
                public_key: word(&row, "public_key", &self.public_key)?,
            },
            registered_at: self.registered_at.0,
            stage,
            forced,
        })
    }

    fn stage(&self, row: &str) -> Result<Stage, Error> {
        let at = |time: Option<Time>, field| time.map(|it| it.0).ok_or_else(|| corrupt(row, field));
        match self.stage.as_str() {
            "registered" => Ok(Stage::Registered),
            "cordoned" => Ok(Stage::Cordoned { since: at(self.cordoned_at, "cordoned_at")? }),
            "draining" => Ok(Stage::Draining {
                since: at(self.cordoned_at, "cordoned_at")?,
                key_revoked_at: at(self.key_revoked_at, "key_revoked_at")?,
            }),
            "deregistered" => Ok(Stage::Deregistered {
                key_revoked_at: at(self.key_revoked_at, "key_revoked_at")?,
                at: at(self.deregistered_at, "deregistered_at")?,
                cause: peers::Cause::ALL
                    .into_iter()
                    .find(|it| Some(it.as_str()) == self.cause.as_deref())
                    .ok_or_else(|| corrupt(row, "cause"))?,
            }),
            _ => Err(corrupt(row, "stage")),
        }
    }
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
        .context("request acknowledgements")?;
    Ok(asked.rows_affected() > 0)
}

/// The acknowledged snapshot only grows.
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
        .context("write acknowledgements")?;
    let sql = "SELECT DISTINCT resource FROM peers
        WHERE project = $1 AND stage = 'draining' AND asked_at IS NOT NULL ORDER BY resource";
    let waiting = sqlx::query_scalar::<Db, Uuid>(sql)
        .bind(project.as_uuid())
        .fetch_all(&mut *conn)
        .await
        .context("find who waits for acknowledgements")?;
    for resource in waiting {
        queue::wake(conn, WorkItem::Resource(ResourceId::from_uuid(resource))).await?;
    }
    Ok(())
}
