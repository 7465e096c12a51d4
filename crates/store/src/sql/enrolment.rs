//! Tokens: issuing and redeeming hold the resource's row, then the token's.

use std::time::Duration;

use usher_domain::broker::aggregate::Resource;
use usher_domain::broker::facts::Tenure;
use usher_domain::object::enrolment::KeyId;
use usher_domain::object::id::{PeerId, ProjectId, ResourceId, TokenId};
use usher_domain::peers::Peer;
use usher_domain::tokens::{
    Consumption, Issue, Lifetime, Outcome, Request, ResourceView, ServerKey, Token, Verifier,
};
use usher_kernel::{Generation, Record, Timestamp};
use uuid::Uuid;

use super::super::{Conn, Db};
use super::queue::{EntryRow, Taking, Woken};
use super::record::{corrupt, generation, word};
use super::{claim, peers, queue, record};
use crate::column::Time;
use crate::error::{Doing as _, Error};
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

macro_rules! token_columns {
    () => {
        "id, resource, project, generation, key_id, verifier, issued_at, first_ready_at,
        lifetime_us, consumed_by, consumed_nonce, consumed_key, consumed_at, revoked_at"
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
    peers::register(conn, &token, consumption).await?;
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
    peers::move_on(conn, before, after).await?;
    let resource = before.registration.resource;
    let life = Life::Resource(resource);
    let Some(entry) = queue::entry(conn, life, true).await? else { return Ok(Stirred::Nobody) };
    if taking.is_some() {
        // Read once the entry is held, as whoever claims does.
        match record::resource(conn, resource).await {
            Ok(record) => return wake(conn, (record, &entry), (taking, bound)).await,
            // Whoever leaves does so also if nobody can step its resource.
            Err(Error::Corrupt { .. }) => {}
            Err(why) => return Err(why),
        }
    }
    queue::wake(conn, life).await?;
    Ok(Stirred::Woken(life, entry.entry().wake_seq + 1))
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
