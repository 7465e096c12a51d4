//! Server keys, and the receipts that are sealed with them.

use async_trait::async_trait;
use serde_json::{Map, Value};
use usher_api::ports::{Answer, Failure, Keys};
use usher_api::refusal::Refusal;
use usher_api::views::{Caller, KeyView};
use usher_domain::audit::Action;
use usher_domain::object::enrolment::KeyId;
use usher_domain::peers::Liveness;
use usher_store::{KeyUse, PeerFilter};

use super::agents::lacking;
use super::{Services, entry, failure};
use crate::key_file::FileError;
use crate::keyring::Error;

/// How many nodes are searched for lost ones, and how many of these are named.
const NODES_MAX: u32 = 1_000;
const NAMED_MAX: usize = 5;

#[async_trait]
impl Keys for Services {
    async fn list(&self) -> Answer<Vec<KeyView>> {
        self.store.retire_keys().await.map_err(failure)?;
        self.plane.refresh_keys().await.map_err(failure)?;
        let view = |KeyUse { key, tokens, nodes }| KeyView {
            held: self.plane.keys.get(&key.id).is_some(),
            key,
            tokens,
            nodes,
        };
        let uses = self.store.key_uses().await.map_err(failure)?;
        Ok(uses.into_iter().map(view).collect())
    }

    async fn rotate(&self, caller: &Caller, from: &KeyId) -> Answer<Vec<KeyView>> {
        let audit = |to: &KeyId| {
            let detail = Map::from_iter([("from".to_owned(), Value::from(from.as_str()))]);
            entry(caller, Action::KeyRotate, (None, to.to_string()), detail)
        };
        match self.plane.keys.rotate(from, audit).await {
            Ok(()) => self.list().await,
            Err(error) => Err(self.refused(error).await?),
        }
    }

    async fn seal(&self, receipt: &[u8]) -> Answer<(KeyId, String)> {
        let key = self.issuing_key().await?;
        Ok((key.id().clone(), key.seal(receipt)))
    }

    async fn is_sealed(&self, receipt: &[u8], key: &KeyId, code: &str) -> Answer<bool> {
        match (self.plane.keys.get(key), self.plane.keys.state(key)) {
            (Some(key), _) => Ok(key.is_seal(receipt, code)),
            (None, Some(_)) => Err(lacking(key)),
            (None, None) => Ok(false),
        }
    }
}

impl Services {
    async fn refused(&self, error: Error) -> Answer<Failure> {
        Ok(match error {
            Error::Changed { current } => {
                Refusal::KeyChanged { current: current.to_string() }.into()
            }
            Error::InUse { previous } => self.in_use(previous).await?,
            Error::Lacking { missing, .. } => lacking(&missing),
            Error::File { expected, .. } => lacking(&expected.key()),
            Error::ReadOnly { why: FileError::Locked, .. } => {
                Failure::Unavailable { what: "the key file".to_owned() }
            }
            Error::ReadOnly { .. } => Refusal::KeyFileReadOnly { why: error.to_string() }.into(),
            Error::Store(error) => failure(error),
        })
    }

    /// The refusal to rotate while a previous key is in use: by what, and how that ends.
    async fn in_use(&self, previous: KeyId) -> Answer<Failure> {
        let uses = self.store.key_uses().await.map_err(failure)?;
        let own = uses.iter().find(|it| it.key.id == previous);
        let (tokens, all) = own.map_or((0, 0), |it| (it.tokens, it.nodes));
        let filter = PeerFilter { key: Some(previous.clone()), ..PeerFilter::default() };
        let nodes = self.store.list_peers(filter, None, NODES_MAX).await.map_err(failure)?;
        let lost = nodes.iter().filter(|(it, _)| self.mesh().liveness(it) == Liveness::Lost);
        let lost: Vec<_> = lost.map(|(_, name)| name.as_str()).collect();
        let by = users(&lost, all.saturating_sub(lost.len() as u64), tokens);
        Ok(Refusal::KeyInUse { previous: previous.to_string(), by }.into())
    }
}

/// What names a previous key, and what to do.
fn users(lost: &[&str], nodes: u64, tokens: u64) -> String {
    let mut by = Vec::new();
    if let [first, ..] = lost {
        let named = lost.iter().take(NAMED_MAX).map(|it| format!("\"{it}\""));
        let named = named.collect::<Vec<_>>().join(", ");
        let more = lost.len().saturating_sub(NAMED_MAX);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        by.push(format!(
            "lost nodes ({named}{more}: bring each back, or replace it with `usher retry {first} \
             --replace`, or deprovision it)"
        ));
    }
    if nodes > 0 {
        by.push(format!("{nodes} other nodes (each takes the new key with its next heartbeat)"));
    }
    if tokens > 0 {
        by.push(format!("{tokens} open tokens (each ends within a day)"));
    }
    if by.is_empty() {
        "nothing any more: repeat the call".to_owned()
    } else {
        by.join(", and by ")
    }
}
