//! Server keys, and the receipts that are sealed with them.

use async_trait::async_trait;
use serde_json::{Map, Value};
use usher_api::ports::{Answer, Failure, Keys};
use usher_api::refusal::Refusal;
use usher_api::views::{Caller, KeyView};
use usher_domain::audit::Action;
use usher_domain::object::enrolment::KeyId;
use usher_store::KeyUse;

use super::agents::lacking;
use super::{Services, entry, failure};
use crate::key_file::FileError;
use crate::keyring::Error;

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
        self.plane.keys.rotate(from, audit).await.map_err(refused)?;
        self.list().await
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

fn refused(error: Error) -> Failure {
    match error {
        Error::Changed { current } => Refusal::KeyChanged { current: current.to_string() }.into(),
        Error::InUse { previous } => Refusal::KeyInUse { previous: previous.to_string() }.into(),
        Error::Lacking { missing, .. } => lacking(&missing),
        Error::File { expected, .. } => lacking(&expected.key()),
        Error::ReadOnly { why: FileError::Locked, .. } => {
            Failure::Unavailable { what: "the key file".to_owned() }
        }
        Error::ReadOnly { .. } => Refusal::KeyFileReadOnly { why: error.to_string() }.into(),
        Error::Store(error) => failure(error),
    }
}
