//! Enrolment tokens. Issuing and redeeming lock the resource's row, then the token's.

pub(crate) mod issue;
pub(crate) mod redeem;
pub(crate) mod revoke;

use std::time::Duration;

use sqlx::QueryBuilder;
use usher_domain::broker::facts::GenerationState;
use usher_domain::broker::snapshot::TokenState;
use usher_domain::object::enrolment::KeyId;
use usher_domain::object::id::{PeerId, ProjectId, ResourceId, TokenId};
use usher_domain::tokens::{Consumption, Lifetime, ResourceView, Token, Verifier};
use usher_kernel::Timestamp;
use uuid::Uuid;

use super::port::Port;
use super::record::{corrupt, generation, word};
use super::{Conn, Db};
use crate::column::Time;
use crate::error::{Context as _, Error};
use crate::resources::TokenSummary;

reads! {
    fn token(id: TokenId) -> Option<Token> = |conn| one(conn, id, false);
    fn tokens(resource: ResourceId) -> Vec<Token> = |conn| of_resource(conn, resource);
    fn list_tokens(project: Option<ProjectId>, after: Option<TokenId>, count: u32)
        -> Vec<(Token, ResourceView)>
        = |conn| list(conn, project, after, count);
}

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

/// Reads a token, and locks it if requested.
async fn one(conn: &mut Conn, id: TokenId, locked: bool) -> Result<Option<Token>, Error> {
    let sql = concat!("SELECT ", token_columns!(), " FROM tokens WHERE id = $1");
    let locking = concat!("SELECT ", token_columns!(), " FROM tokens WHERE id = $1", lock!());
    let row = sqlx::query_as::<Db, TokenRow>(if locked { locking } else { sql })
        .bind(id.as_uuid())
        .fetch_optional(&mut *conn)
        .await
        .context("read a token")?;
    row.map(TokenRow::token).transpose()
}

async fn of_resource(conn: &mut Conn, resource: ResourceId) -> Result<Vec<Token>, Error> {
    rows_of_resource(conn, resource).await?.into_iter().map(TokenRow::token).collect()
}

/// The tokens of a resource, oldest generation first.
async fn rows_of_resource(conn: &mut Conn, resource: ResourceId) -> Result<Vec<TokenRow>, Error> {
    let sql = concat!(
        "SELECT ",
        token_columns!(),
        " FROM tokens WHERE resource = $1 ORDER BY generation"
    );
    sqlx::query_as::<Db, TokenRow>(sql)
        .bind(resource.as_uuid())
        .fetch_all(&mut *conn)
        .await
        .context("read tokens")
}

/// Readable tokens after an id, in the order of their ids, with what redeeming needs of their
/// resources. Fewer than requested means that there are no more.
async fn list(
    conn: &mut Conn,
    project: Option<ProjectId>,
    mut after: Option<TokenId>,
    count: u32,
) -> Result<Vec<(Token, ResourceView)>, Error> {
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    let mut listed = Vec::new();
    while listed.len() < count {
        let rows = rows_after(conn, project, after, count).await?;
        let Some(last) = rows.last() else { break };
        after = Some(TokenId::from_uuid(last.token.id));
        for row in rows {
            match row.listed() {
                Ok(it) if listed.len() < count => listed.push(it),
                // It is on the next page.
                Ok(_) => break,
                // Nor is it redeemed. It hides no other.
                Err(error) => tracing::warn!(%error, "failed to list a token"),
            }
        }
    }
    Ok(listed)
}

async fn rows_after(
    conn: &mut Conn,
    project: Option<ProjectId>,
    after: Option<TokenId>,
    count: usize,
) -> Result<Vec<ListedTokenRow>, Error> {
    let mut sql = QueryBuilder::<Db>::new(
        "SELECT t.id, t.resource, t.project, t.generation, t.key_id, t.verifier, t.issued_at,
            t.first_ready_at, t.lifetime_us, t.consumed_by, t.consumed_nonce, t.consumed_key,
            t.consumed_at, t.revoked_at, r.generation AS resource_generation,
            r.deletion_requested_at, r.generation_state
        FROM tokens AS t JOIN resources AS r ON r.id = t.resource WHERE t.id > ",
    );
    sql.push_bind(after.map_or(Uuid::nil(), |it| *it.as_uuid()));
    if let Some(project) = project {
        sql.push(" AND t.project = ").push_bind(*project.as_uuid());
    }
    sql.push(" ORDER BY t.id LIMIT ").push_bind(i64::try_from(count).unwrap_or(i64::MAX));
    sql.build_query_as::<ListedTokenRow>().fetch_all(conn).await.context("list tokens")
}

#[derive(sqlx::FromRow)]
struct ListedTokenRow {
    #[sqlx(flatten)]
    token: TokenRow,
    resource_generation: i64,
    deletion_requested_at: Option<Time>,
    generation_state: String,
}

impl ListedTokenRow {
    fn listed(self) -> Result<(Token, ResourceView), Error> {
        let row = format!("resource \"{}\"", self.token.resource);
        let resource = ResourceView {
            generation: generation(&row, self.resource_generation)?,
            deletion_requested: self.deletion_requested_at.is_some(),
            replacing: word::<GenerationState>(&row, "generation_state", &self.generation_state)?
                == GenerationState::Leaving,
        };
        Ok((self.token.token()?, resource))
    }
}

impl TokenRow {
    /// What a snapshot needs. Of a token that ended, only its generation has to be readable.
    pub(crate) fn summary(self, now: Timestamp) -> Result<TokenSummary, Error> {
        let (id, issued_at) = (TokenId::from_uuid(self.id), self.issued_at.0);
        let generation = generation(&format!("token \"{id}\""), self.generation)?;
        let state = if self.consumed_at.is_some() {
            TokenState::Consumed
        } else if self.revoked_at.is_some() {
            TokenState::Revoked
        } else if self.token()?.is_expired(now) {
            TokenState::Expired
        } else {
            TokenState::Redeemable
        };
        Ok(TokenSummary { id, generation, issued_at, state })
    }

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
