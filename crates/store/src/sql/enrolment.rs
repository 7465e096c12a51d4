//! Tokens and peers: issuing and redeeming hold the resource's row, then the token's.

use std::time::Duration;

use usher_domain::broker::aggregate::Resource;
use usher_domain::broker::facts::Tenure;
use usher_domain::object::enrolment::KeyId;
use usher_domain::object::id::{PeerId, ProjectId, ResourceId, TokenId};
use usher_domain::peers::{self, Forced, Peer, Registration, Stage};
use usher_domain::tokens::{
    Consumption, Issue, Lifetime, Outcome, Request, ResourceView, ServerKey, Token, Verifier,
};
use usher_kernel::{Generation, Record, Timestamp};
use uuid::Uuid;

use super::super::{Conn, Db};
use super::queue::{EntryRow, Taking, Woken};
use super::record::{corrupt, generation, word};
use super::{claim, queue, record};
use crate::column::Time;
use crate::error::{Doing as _, Error};
use crate::inside::Attended;
use crate::life::Life;
use crate::port::{Held, Leased};

#[derive(sqlx::FromRow)]
pub(crate) struct TokenRow {
    pub(crate) id: Uuid,
    pub(crate) resource: Uuid,
    pub(crate) project: Uuid,
    pub(crate) generation: i64,
    pub(crate) key_id: String,
    pub(crate) verifier: Vec<u8>,
    pub(crate) issued_at: Time,
    pub(crate) first_ready_at: Option<Time>,
    pub(crate) lifetime_us: i64,
    pub(crate) consumed_by: Option<Uuid>,
    pub(crate) consumed_nonce: Option<String>,
    pub(crate) consumed_key: Option<String>,
    pub(crate) consumed_at: Option<Time>,
    pub(crate) revoked_at: Option<Time>,
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
}

#[derive(sqlx::FromRow)]
struct TimedPeerRow {
    now: Time,
    #[sqlx(flatten)]
    peer: PeerRow,
}

macro_rules! token_columns {
    () => {
        "id, resource, project, generation, key_id, verifier, issued_at, first_ready_at,
        lifetime_us, consumed_by, consumed_nonce, consumed_key, consumed_at, revoked_at"
    };
}

macro_rules! peer_columns {
    () => {
        "id, token, resource, generation, project, nonce, public_key, registered_at, stage,
        cordoned_at, key_revoked_at, deregistered_at, cause, forced_by, forced_at, lost_since,
        asked_at, acknowledged"
    };
}

/// Issues the token of a generation; asking again changes nothing.
pub(crate) async fn issue(
    conn: &mut Conn,
    key: &ServerKey,
    (resource, generation): (ResourceId, Generation),
    lifetime: Lifetime,
) -> Result<(), Error> {
    let (Record { state, .. }, now) = held(conn, resource).await?;
    if !state.admits(generation) {
        return Err(Error::Leaving { what: format!("resource \"{resource}\"") });
    }
    let project = state.fields().project;
    let token = Token::issue(key, Issue { resource, project, generation, lifetime }, now);
    let sql = "INSERT INTO tokens (id, resource, project, generation, key_id, verifier, issued_at,
            lifetime_us) VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (id) DO NOTHING";
    sqlx::query::<Db>(sql)
        .bind(token.id.as_uuid())
        .bind(resource.as_uuid())
        .bind(project.as_uuid())
        .bind(i64::from(generation.0))
        .bind(token.key_id.as_str())
        .bind(token.verifier.as_bytes().as_slice())
        .bind(Time(token.issued_at))
        .bind(i64::try_from(lifetime.as_duration().as_micros()).unwrap_or(i64::MAX))
        .execute(&mut *conn)
        .await
        .doing("issue a token")?;
    Ok(())
}

/// Redeems a token, or says why not; a peer that comes with it wakes its resource, whose lease is
/// taken if somebody takes it.
pub(crate) async fn redeem(
    conn: &mut Conn,
    request: &Request,
    (taking, bound): (Option<Taking>, Duration),
) -> Result<(Outcome, Stirred), Error> {
    let id = request.text.id();
    let sql = "SELECT resource FROM tokens WHERE id = $1";
    let resource = sqlx::query_scalar::<Db, Uuid>(sql)
        .bind(id.as_uuid())
        .fetch_optional(&mut *conn)
        .await
        .doing("read a token")?;
    let Some(resource) = resource.map(ResourceId::from_uuid) else {
        return Ok((
            Outcome::Refused(usher_domain::tokens::Refusal::WrongVerifier),
            Stirred::Nobody,
        ));
    };
    let (record, _) = held(conn, resource).await?;
    let Some(token) = token(conn, id, true).await? else {
        return Err(Error::NotFound { what: format!("token \"{id}\"") });
    };
    let life = Life::Resource(resource);
    let Some(entry) = queue::entry(conn, life, true).await? else {
        return Err(Error::NotFound { what: format!("the entry of {life}") });
    };
    let outcome = token.redeem(request, view(&record.state), entry.now.0);
    let Outcome::Redeemed(consumption) = &outcome else {
        return Ok((outcome, Stirred::Nobody));
    };
    consume(conn, id, consumption).await?;
    register(conn, &token, consumption).await?;
    let stirred = wake(conn, (record, &entry), (taking, bound)).await?;
    Ok((outcome, stirred))
}

/// Whom a write woke.
#[derive(Debug)]
pub(crate) enum Stirred {
    /// Nobody.
    Nobody,
    /// A life whose lease was taken with it.
    Leased(Box<Leased>),
    /// A life that somebody may be stepping; so many times was it woken.
    Woken(Life, u64),
}

/// Wakes a resource whose rows are held, and takes its lease if somebody takes it.
async fn wake(
    conn: &mut Conn,
    (record, entry): (Record<Resource>, &EntryRow),
    (taking, bound): (Option<Taking>, Duration),
) -> Result<Stirred, Error> {
    let life = Life::Resource(record.state.id());
    Ok(match queue::wake_held(conn, (life, entry), taking, false).await? {
        Woken::Taken(claim, heard_until) => {
            let held = Held::Resource(Box::new(record));
            let leased = claim::leased((life, claim, heard_until), held, (entry.now.0, bound));
            Stirred::Leased(Box::new(leased))
        }
        Woken::Waits(wake_seq) => Stirred::Woken(life, wake_seq),
    })
}

/// Moves a peer and wakes its resource, whose lease is taken if somebody takes it.
pub(crate) async fn leave(
    conn: &mut Conn,
    (before, after): (&Peer, &Peer),
    (taking, bound): (Option<Taking>, Duration),
) -> Result<Stirred, Error> {
    move_peer(conn, before, after).await?;
    let resource = before.registration.resource;
    let life = Life::Resource(resource);
    let Some(entry) = queue::entry(conn, life, true).await? else { return Ok(Stirred::Nobody) };
    // Read once the entry is held, as whoever claims does.
    let record = record::resource(conn, resource).await?;
    wake(conn, (record, &entry), (taking, bound)).await
}

/// What redeeming asks of a resource.
fn view(resource: &Resource) -> ResourceView {
    ResourceView {
        generation: resource.generation(),
        deletion_requested: resource.deletion_requested_at().is_some(),
        replacing: resource.tenure() == Tenure::Leaving,
    }
}

/// A resource that nobody else moves while this transaction runs, and the time.
async fn held(conn: &mut Conn, id: ResourceId) -> Result<(Record<Resource>, Timestamp), Error> {
    let Some(now) = record::lock(conn, *id.as_uuid()).await? else {
        return Err(record::missing_resource(id));
    };
    Ok((record::resource(conn, id).await?, now))
}

async fn consume(conn: &mut Conn, id: TokenId, by: &Consumption) -> Result<(), Error> {
    let sql = "UPDATE tokens SET consumed_by = $2, consumed_nonce = $3, consumed_key = $4,
        consumed_at = $5 WHERE id = $1";
    sqlx::query::<Db>(sql)
        .bind(id.as_uuid())
        .bind(by.peer.as_uuid())
        .bind(by.nonce.as_str())
        .bind(by.public_key.to_string())
        .bind(Time(by.at))
        .execute(&mut *conn)
        .await
        .doing("consume a token")?;
    Ok(())
}

async fn register(conn: &mut Conn, token: &Token, by: &Consumption) -> Result<(), Error> {
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
            NULL, NULL)"
    );
    let Peer { id, registration, registered_at, stage, forced: _ } = registered.peer;
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
        .execute(&mut *conn)
        .await
        .doing("register a peer")?;
    Ok(())
}

/// Reads a token, once nobody else can move it if it is to be locked.
pub(crate) async fn token(
    conn: &mut Conn,
    id: TokenId,
    locked: bool,
) -> Result<Option<Token>, Error> {
    let sql = concat!("SELECT ", token_columns!(), " FROM tokens WHERE id = $1");
    let locking = concat!("SELECT ", token_columns!(), " FROM tokens WHERE id = $1", lock!());
    let row = sqlx::query_as::<Db, TokenRow>(if locked { locking } else { sql })
        .bind(id.as_uuid())
        .fetch_optional(&mut *conn)
        .await
        .doing("read a token")?;
    row.map(TokenRow::token).transpose()
}

/// The tokens of a resource, oldest generation first.
pub(crate) async fn tokens(conn: &mut Conn, resource: ResourceId) -> Result<Vec<Token>, Error> {
    let sql = concat!(
        "SELECT ",
        token_columns!(),
        " FROM tokens WHERE resource = $1 ORDER BY generation"
    );
    let rows = sqlx::query_as::<Db, TokenRow>(sql)
        .bind(resource.as_uuid())
        .fetch_all(&mut *conn)
        .await
        .doing("read tokens")?;
    rows.into_iter().map(TokenRow::token).collect()
}

/// Tokens after an id, in the order of their ids.
pub(crate) async fn tokens_after(
    conn: &mut Conn,
    after: Option<TokenId>,
    count: u32,
) -> Result<Vec<Token>, Error> {
    let sql =
        concat!("SELECT ", token_columns!(), " FROM tokens WHERE id > $1 ORDER BY id LIMIT $2");
    let rows = sqlx::query_as::<Db, TokenRow>(sql)
        .bind(after.map_or(Uuid::nil(), |it| *it.as_uuid()))
        .bind(i64::from(count))
        .fetch_all(&mut *conn)
        .await
        .doing("read tokens")?;
    rows.into_iter().map(TokenRow::token).collect()
}

/// The peers of a resource, oldest generation first.
pub(crate) async fn peers(conn: &mut Conn, resource: ResourceId) -> Result<Vec<Peer>, Error> {
    Ok(attended(conn, resource).await?.into_iter().map(|it| it.peer).collect())
}

/// The peers of a resource, oldest generation first, and whether they are heard.
pub(crate) async fn attended(
    conn: &mut Conn,
    resource: ResourceId,
) -> Result<Vec<Attended>, Error> {
    let sql =
        concat!("SELECT ", peer_columns!(), " FROM peers WHERE resource = $1 ORDER BY generation");
    rows(conn, sqlx::query_as::<Db, PeerRow>(sql).bind(resource.as_uuid())).await
}

/// The time, if there is somebody, and the peers of a project that are not deregistered.
pub(crate) async fn mesh(
    conn: &mut Conn,
    project: ProjectId,
) -> Result<(Option<Timestamp>, Vec<Attended>), Error> {
    let sql = concat!(
        "SELECT ",
        now!(),
        " AS now, ",
        peer_columns!(),
        " FROM peers WHERE project = $1 AND stage <> 'deregistered' ORDER BY id"
    );
    let query = sqlx::query_as::<Db, TimedPeerRow>(sql).bind(project.as_uuid());
    let rows = query.fetch_all(conn).await.doing("read peers")?;
    let now = rows.first().map(|it| it.now.0);
    let mesh: Result<Vec<_>, _> = rows.into_iter().map(|it| it.peer.attended()).collect();
    Ok((now, mesh?))
}

/// The peers of a project that are on their way out.
pub(crate) async fn leaving(conn: &mut Conn, project: ProjectId) -> Result<Vec<Attended>, Error> {
    let sql = concat!(
        "SELECT ",
        peer_columns!(),
        " FROM peers WHERE project = $1 AND stage IN ('cordoned', 'draining') ORDER BY id"
    );
    rows(conn, sqlx::query_as::<Db, PeerRow>(sql).bind(project.as_uuid())).await
}

pub(crate) async fn peers_after(
    conn: &mut Conn,
    after: Option<PeerId>,
    count: u32,
) -> Result<Vec<Attended>, Error> {
    let sql = concat!("SELECT ", peer_columns!(), " FROM peers WHERE id > $1 ORDER BY id LIMIT $2");
    let query = sqlx::query_as::<Db, PeerRow>(sql)
        .bind(after.map_or(Uuid::nil(), |it| *it.as_uuid()))
        .bind(i64::from(count));
    rows(conn, query).await
}

pub(crate) async fn peer(conn: &mut Conn, id: PeerId) -> Result<Option<Attended>, Error> {
    let sql = concat!("SELECT ", peer_columns!(), " FROM peers WHERE id = $1");
    let found = rows(conn, sqlx::query_as::<Db, PeerRow>(sql).bind(id.as_uuid())).await?;
    Ok(found.into_iter().next())
}

async fn rows(
    conn: &mut Conn,
    query: sqlx::query::QueryAs<'_, Db, PeerRow, <Db as sqlx::Database>::Arguments>,
) -> Result<Vec<Attended>, Error> {
    let rows = query.fetch_all(conn).await.doing("read peers")?;
    rows.into_iter().map(PeerRow::attended).collect()
}

/// Writes that a peer fell silent or is heard again and wakes its resource; `false` if that was
/// known, or if it is out.
pub(crate) async fn hear(conn: &mut Conn, id: PeerId, heard: bool) -> Result<bool, Error> {
    let lose = concat!(
        "UPDATE peers SET lost_since = ",
        now!(),
        " WHERE id = $1 AND lost_since IS NULL AND stage <> 'deregistered' RETURNING resource"
    );
    let hear = "UPDATE peers SET lost_since = NULL
        WHERE id = $1 AND lost_since IS NOT NULL RETURNING resource";
    let resource = sqlx::query_scalar::<Db, Uuid>(if heard { hear } else { lose })
        .bind(id.as_uuid())
        .fetch_optional(&mut *conn)
        .await
        .doing("write whether a peer is heard")?;
    let Some(resource) = resource else { return Ok(false) };
    queue::wake(conn, Life::Resource(ResourceId::from_uuid(resource))).await?;
    Ok(true)
}

/// Writes how far a peer is on its way out, if nobody moved it since. Who steps its resource is to
/// be woken.
pub(crate) async fn move_peer(conn: &mut Conn, before: &Peer, after: &Peer) -> Result<(), Error> {
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
        .doing("write a peer")?;
    if moved.rows_affected() == 0 {
        return Err(Error::Conflict);
    }
    Ok(())
}

impl TokenRow {
    pub(crate) fn token(self) -> Result<Token, Error> {
        let row = format!("token \"{}\"", self.id);
        let verifier: [u8; 32] = self.verifier.try_into().map_err(|_| corrupt(&row, "verifier"))?;
        let lifetime = Duration::from_micros(self.lifetime_us.unsigned_abs());
        let consumed = match (self.consumed_by, self.consumed_nonce, self.consumed_key) {
            (Some(peer), Some(nonce), Some(key)) => Some(Consumption {
                peer: PeerId::from_uuid(peer),
                nonce: word(&row, "consumed_nonce", &nonce)?,
                public_key: word(&row, "consumed_key", &key)?,
                at: self.consumed_at.ok_or_else(|| corrupt(&row, "consumed_at"))?.0,
            }),
            _ => None,
        };
        Ok(Token {
            id: TokenId::from_uuid(self.id),
            resource: ResourceId::from_uuid(self.resource),
            project: ProjectId::from_uuid(self.project),
            generation: generation(&row, self.generation)?,
            key_id: KeyId::from_stored(self.key_id),
            verifier: Verifier::from_bytes(verifier),
            issued_at: self.issued_at.0,
            first_ready_at: self.first_ready_at.map(|it| it.0),
            lifetime: Lifetime::new(lifetime).map_err(|_| corrupt(&row, "lifetime"))?,
            consumed,
            revoked_at: self.revoked_at.map(|it| it.0),
        })
    }
}

impl PeerRow {
    /// The peer, and whether it is heard.
    pub(crate) fn attended(self) -> Result<Attended, Error> {
        let lost_since = self.lost_since.map(|it| it.0);
        let asked_at = self.asked_at.map(|it| it.0);
        let acknowledged = self.acknowledged.unwrap_or(0).unsigned_abs();
        Ok(Attended { peer: self.peer()?, lost_since, asked_at, acknowledged })
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
