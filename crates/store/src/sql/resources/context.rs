//! What is known of a resource beside its record, in one statement: every snapshot needs it.

use usher_domain::broker::aggregate::Resource;
use usher_domain::object::authority::Pin;
use usher_domain::object::id::ResourceId;
use usher_domain::{labels, object::label::Labels};
use usher_kernel::Uid;
use uuid::Uuid;

use super::super::peers::PeerRow;
use super::super::port::Port;
use super::super::record::{corrupt, word};
use super::super::tenancy::labels as layers;
use super::super::tokens::TokenRow;
use super::super::{Conn, Db};
use crate::column::Time;
use crate::error::{Context as _, Error};
use crate::port::Layer;
use crate::resources::{ConfigState, ResourceContext};
use crate::worlds::WorldState;

reads! {
    fn resource_context(resource: &Resource) -> ResourceContext = |conn| read(conn, resource);
}

/// What there is once, beside one token of many with its peer.
#[derive(sqlx::FromRow)]
struct ContextRow {
    now: Time,
    identity: Option<String>,
    revision: Option<i64>,
    tripped_at: Option<Time>,
    opened_at: Option<Time>,
    provider: Option<String>,
    config_phase: Option<String>,
    labels: String,
    #[sqlx(flatten)]
    token: TokenCells,
    #[sqlx(flatten)]
    peer: PeerCells,
}

/// A token, if there is one.
#[derive(sqlx::FromRow)]
struct TokenCells {
    token_id: Option<Uuid>,
    token_generation: Option<i64>,
    key_id: Option<String>,
    verifier: Option<Vec<u8>>,
    issued_at: Option<Time>,
    first_ready_at: Option<Time>,
    lifetime_us: Option<i64>,
    consumed_by: Option<Uuid>,
    consumed_nonce: Option<String>,
    consumed_key: Option<String>,
    consumed_at: Option<Time>,
    revoked_at: Option<Time>,
}

/// Its peer, if there is one.
#[derive(sqlx::FromRow)]
struct PeerCells {
    peer_id: Option<Uuid>,
    peer_generation: Option<i64>,
    nonce: Option<String>,
    public_key: Option<String>,
    registered_at: Option<Time>,
    stage: Option<String>,
    cordoned_at: Option<Time>,
    key_revoked_at: Option<Time>,
    deregistered_at: Option<Time>,
    cause: Option<String>,
    forced_by: Option<String>,
    forced_at: Option<Time>,
    lost_since: Option<Time>,
    asked_at: Option<Time>,
    acknowledged: Option<i64>,
    claimed_by: Option<i64>,
    peer_key_id: Option<String>,
}

/// Reads it. A peer has a token, and a token has at most one peer.
async fn read(conn: &mut Conn, resource: &Resource) -> Result<ResourceContext, Error> {
    let sql = concat!(
        "SELECT ",
        now!(),
        " AS now, w.identity, w.revision, w.tripped_at, w.opened_at,
        c.provider, c.phase AS config_phase, ",
        labels!("$4", "$5"),
        " AS labels, t.id AS token_id, t.generation AS token_generation, t.key_id, t.verifier,
        t.issued_at, t.first_ready_at, t.lifetime_us, t.consumed_by, t.consumed_nonce,
        t.consumed_key, t.consumed_at, t.revoked_at,
        p.id AS peer_id, p.generation AS peer_generation, p.nonce, p.public_key, p.registered_at,
        p.stage, p.cordoned_at, p.key_revoked_at, p.deregistered_at, p.cause, p.forced_by,
        p.forced_at, p.lost_since, p.asked_at, p.acknowledged, p.claimed_by,
        p.key_id AS peer_key_id
        FROM (SELECT 1 AS it) AS one
        LEFT JOIN worlds AS w ON w.name = $1
        LEFT JOIN provider_configs AS c ON c.id = $2
        LEFT JOIN tokens AS t ON t.resource = $3
        LEFT JOIN peers AS p ON p.token = t.id
        ORDER BY t.generation"
    );
    let (id, project) = (resource.id(), resource.fields().project);
    let rows = sqlx::query_as::<Db, ContextRow>(sql)
        .bind(&resource.pinned().world)
        .bind(resource.pinned().provider_config.as_uuid())
        .bind(id.as_uuid())
        .bind(Layer::Installation.owner())
        .bind(project.as_uuid())
        .fetch_all(&mut *conn)
        .await
        .context("read what is beside a resource")?;
    let mut beside = context(rows, resource)?;
    if !beside.labels.is_empty() {
        beside.definitions = layers::definitions(conn).await?;
    }
    Ok(beside)
}

fn context(rows: Vec<ContextRow>, resource: &Resource) -> Result<ResourceContext, Error> {
    let config = resource.pinned().provider_config;
    let mut rows = rows.into_iter().peekable();
    let missing = || Error::NotFound { what: format!("provider_config \"{config}\"") };
    let first = rows.peek_mut().ok_or_else(missing)?;
    let (provider, phase) =
        first.provider.take().zip(first.config_phase.take()).ok_or_else(missing)?;
    let row = format!("provider_config \"{config}\"");
    let config = ConfigState {
        provider: word(&row, "provider", &provider)?,
        phase: word(&row, "phase", &phase)?,
    };
    let mut beside = ResourceContext {
        now: first.now.0,
        config,
        world: first.world(),
        tokens: vec![],
        peers: vec![],
        labels: in_force(&first.labels, resource.id())?,
        definitions: vec![],
    };
    let (id, project) = (*resource.id().as_uuid(), *resource.fields().project.as_uuid());
    for ContextRow { token, peer, .. } in rows {
        let Some(token) = token.row((id, project)) else { continue };
        if let Some(peer) = peer.row(&token) {
            beside.peers.push(peer.status()?);
        }
        beside.tokens.push(token.summary(beside.now)?);
    }
    Ok(beside)
}

/// The labels of the three layers, the nearest counting.
fn in_force(text: &str, id: ResourceId) -> Result<Labels, Error> {
    let row = format!("the labels of resource \"{id}\"");
    let cells: Vec<(String, String, String)> =
        serde_json::from_str(text).map_err(|_| corrupt(&row, "labels"))?;
    let mut all = Layer::WORDS.map(|_| Labels::new());
    for (layer, key, value) in cells {
        let (key, value) = (word(&row, "key", &key)?, word(&row, "value", &value)?);
        let place = Layer::WORDS.iter().position(|it| *it == layer);
        if let Some(labels) = place.and_then(|it| all.get_mut(it)) {
            labels.insert(key, value);
        }
    }
    Ok(labels::effective(all.each_ref()))
}

impl ContextRow {
    fn world(&mut self) -> Option<WorldState> {
        let (identity, revision) = self.identity.take().zip(self.revision)?;
        Some(WorldState {
            pin: Pin { identity: Uid::new(identity), revision: revision.unsigned_abs() },
            tripped_at: self.tripped_at.map(|it| it.0),
            opened_at: self.opened_at.map(|it| it.0),
        })
    }
}

impl TokenCells {
    fn row(self, (resource, project): (Uuid, Uuid)) -> Option<TokenRow> {
        Some(TokenRow {
            id: self.token_id?,
            resource,
            project,
            generation: self.token_generation?,
            key_id: self.key_id?,
            verifier: self.verifier?,
            issued_at: self.issued_at?,
            first_ready_at: self.first_ready_at,
            lifetime_us: self.lifetime_us?,
            consumed_by: self.consumed_by,
            consumed_nonce: self.consumed_nonce,
            consumed_key: self.consumed_key,
            consumed_at: self.consumed_at,
            revoked_at: self.revoked_at,
        })
    }
}

impl PeerCells {
    fn row(self, token: &TokenRow) -> Option<PeerRow> {
        Some(PeerRow {
            id: self.peer_id?,
            token: token.id,
            resource: token.resource,
            generation: self.peer_generation?,
            project: token.project,
            nonce: self.nonce?,
            public_key: self.public_key?,
            registered_at: self.registered_at?,
            stage: self.stage?,
            cordoned_at: self.cordoned_at,
            key_revoked_at: self.key_revoked_at,
            deregistered_at: self.deregistered_at,
            cause: self.cause,
            forced_by: self.forced_by,
            forced_at: self.forced_at,
            lost_since: self.lost_since,
            asked_at: self.asked_at,
            acknowledged: self.acknowledged,
            claimed_by: self.claimed_by,
            key_id: self.peer_key_id?,
        })
    }
}
