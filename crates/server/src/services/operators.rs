//! Operator tokens and the audit log.

use async_trait::async_trait;
use ring::rand::{SecureRandom as _, SystemRandom};
use usher_api::ports::{Answer, Failure, Operators};
use usher_api::refusal::Thing;
use usher_api::views::{Caller, NewOperatorToken, Page, Paging};
use usher_domain::audit::{self, Action};
use usher_domain::object::id::{AuditId, OperatorTokenId};
use usher_domain::object::manifest::SecretText;
use usher_domain::operators::{self, OperatorToken, TokenHash};
use uuid::Uuid;

use super::names::not_found;
use super::{Services, after, failure, missing, page};
use crate::clock;

#[async_trait]
impl Operators for Services {
    async fn admit(&self, hash: TokenHash) -> Answer<Option<Caller>> {
        let found = self.store.operator_token(hash).await.map_err(failure)?;
        let good = found.filter(|it| it.is_good(clock::now()));
        Ok(good.map(|it| Caller { token: it.id, name: it.name, grant: it.grant }))
    }

    async fn list(&self, paging: Paging) -> Answer<Page<OperatorToken>> {
        let count = paging.limit.saturating_add(1);
        let items = self.store.operator_tokens(after(&paging)?, count).await.map_err(failure)?;
        Ok(page(items, &paging, |it| it.id.to_string()))
    }

    async fn create(
        &self,
        caller: &Caller,
        new: NewOperatorToken,
    ) -> Answer<(OperatorToken, SecretText)> {
        let mut secret = [0; 32];
        let unminted = |_| Failure::Unavailable { what: "a source of randomness".to_owned() };
        SystemRandom::new().fill(&mut secret).map_err(unminted)?;
        let text = operators::text(&secret);
        let token = OperatorToken {
            id: OperatorTokenId::from_uuid(Uuid::now_v7()),
            name: new.name,
            grant: new.grant,
            hash: TokenHash::of(&text),
            expires_at: new.expires_at,
            revoked_at: None,
        };
        let audited =
            self.with_audit(caller, Action::OperatorTokenCreate, (None, token.name.to_string()));
        audited.create_operator_token(token.clone()).await.map_err(failure)?;
        Ok((token, text))
    }

    async fn revoke(&self, caller: &Caller, id: OperatorTokenId) -> Answer<()> {
        let unknown = not_found(Thing::OperatorToken, &id.to_string());
        let audited = self.with_audit(caller, Action::OperatorTokenRevoke, (None, id.to_string()));
        let revoked = audited.revoke_operator_token(id, clock::now()).await;
        revoked.map_err(missing(unknown))
    }

    async fn audit(&self, paging: Paging) -> Answer<Page<audit::Entry>> {
        let count = paging.limit.saturating_add(1);
        let place: Option<AuditId> = after(&paging)?;
        let items = self.store.audit(place, count).await.map_err(failure)?;
        Ok(page(items, &paging, |it| it.id.to_string()))
    }
}
