//! Resources: declarations, views and commands.

use async_trait::async_trait;
use serde_json::{Map, Value};
use usher_api::ports::{Answer, Failure, Resources};
use usher_api::views::{
    Caller, KeyUse, Page, Paging, Plan, Provisioned, Receipt, ResourceQuery, ResourceView, Why,
};
use usher_domain::audit::Action;
use usher_domain::broker::accept::{self, Minted, Provision};
use usher_domain::broker::refusal::Refusal;
use usher_domain::object::id::{
    BlueprintVersionId, CredentialId, ProviderConfigId, ResourceId, TenancyId,
};
use usher_domain::object::idempotency::{self, Scope, Verdict};
use usher_domain::object::slug::Slug;
use usher_store::{Acceptance, Command, Error, RememberedKey, ResourceFilter, Snapshot};
use uuid::Uuid;

use super::names::shown;
use super::{Services, after, entry, failure, missing, page};
use crate::tally::Count;
use usher_failpoint::Failpoint;

/// How often a declaration is retried because its references changed during the decision.
const TRIES: u32 = 16;

#[async_trait]
impl Resources for Services {
    async fn references(
        &self,
        blueprint: (&Slug, Option<&str>),
        credential: &Slug,
    ) -> Answer<(BlueprintVersionId, CredentialId)> {
        self.named(blueprint, credential).await
    }

    async fn provision(
        &self,
        caller: &Caller,
        command: Provision,
        key: Option<KeyUse>,
    ) -> Answer<Provisioned> {
        for _ in 0..TRIES {
            if let Some(provisioned) = self.accept(caller, &command, key.as_ref()).await? {
                return Ok(provisioned);
            }
        }
        Err(Failure::Unavailable { what: "a stable view of the references".to_owned() })
    }

    async fn deprovision(&self, caller: &Caller, id: ResourceId) -> Answer<ResourceView> {
        self.execute(caller, id, (Command::Deprovision, Action::ResourceDeprovision)).await
    }

    async fn get(&self, id: ResourceId) -> Answer<ResourceView> {
        self.view(&self.record(id).await?).await
    }

    async fn list(&self, query: ResourceQuery, paging: Paging) -> Answer<Page<ResourceView>> {
        let filter =
            ResourceFilter { project: query.project, name: query.name, deleted: query.deleted };
        let count = paging.limit.saturating_add(1);
        let listed = self.store.list_resources(&filter, after(&paging)?, count).await;
        let listed = listed.map_err(failure)?.into_iter();
        let items = listed.map(|it| shown(&it.record.state, it.record.version, it.names));
        let items: Vec<_> = items.collect::<Answer<_>>()?;
        let items = self.with_nodes(items).await?;
        Ok(page(items, &paging, |it| it.resource.id().to_string()))
    }

    async fn why(&self, id: ResourceId) -> Answer<Why> {
        self.explain(id).await
    }

    async fn plan_deprovision(&self, id: ResourceId) -> Answer<Plan> {
        self.plan(id).await
    }

    async fn receipt(&self, id: ResourceId) -> Answer<Receipt> {
        let record = self.record(id).await?;
        let config = record.state.pinned().provider_config;
        let shared = match self.store.provider_config(config).await {
            Ok(shared) => Some((config, shared.name_ledger.rows().to_vec())),
            Err(Error::NotFound { .. }) => None,
            Err(error) => return Err(failure(error)),
        };
        let rows = record.name_ledger.rows().to_vec();
        Ok(Receipt { resource: self.view(&record).await?, rows, provider_config: shared })
    }

    async fn retry(&self, caller: &Caller, id: ResourceId) -> Answer<ResourceView> {
        self.execute(caller, id, (Command::Retry, Action::ResourceRetry)).await
    }

    async fn replace(&self, caller: &Caller, id: ResourceId) -> Answer<ResourceView> {
        self.execute(caller, id, (Command::Replace, Action::ResourceReplace)).await
    }

    async fn abandon(&self, caller: &Caller, id: ResourceId, why: &str) -> Answer<ResourceView> {
        let command = Command::Abandon { by: caller.name.to_string(), reason: why.to_owned() };
        self.execute(caller, id, (command, Action::ResourceAbandon)).await
    }
}

impl Services {
    /// Accepts a declaration on one snapshot; `None` if the snapshot was stale at the commit.
    async fn accept(
        &self,
        caller: &Caller,
        command: &Provision,
        key: Option<&KeyUse>,
    ) -> Answer<Option<Provisioned>> {
        let scope = Scope { caller: caller.token.to_string(), project: command.project };
        let asked = key.map(|it| (scope.clone(), it.key.clone()));
        let snapshot = self.store.snapshot(command, asked).await.map_err(failure)?;
        if let Some(replayed) = self.replay(key, &snapshot).await? {
            return Ok(Some(replayed));
        }
        let accepted = accept::provision(command, &snapshot.views, &self.mint(), snapshot.now)?;
        let resource = accepted.resource.clone();
        let subject = (Some(command.project), resource.id().to_string());
        let mut detail = Map::new();
        detail.insert("name".to_owned(), Value::from(command.name.as_str()));
        let acceptance = Acceptance {
            accepted,
            audit: Some(entry(caller, Action::ResourceProvision, subject, detail)),
            key: key.map(|it| RememberedKey {
                scope,
                key: it.key.clone(),
                digest: it.digest,
                keep: self.pins.key_keep,
            }),
        };
        Failpoint::BeforeAccept.pass();
        let written = self.store.accept(acceptance).await;
        Failpoint::AfterAccept.pass();
        match written {
            Ok(()) => {
                self.tally.count(Count::Accepted);
                let resource = self.view_of(&resource, Acceptance::VERSION).await?;
                Ok(Some(Provisioned { resource, replayed: false }))
            }
            Err(Error::ViewsMoved { .. } | Error::Conflict) => Ok(None),
            Err(error) => Err(failure(error)),
        }
    }

    /// The recorded answer to a repeated request.
    async fn replay(
        &self,
        key: Option<&KeyUse>,
        snapshot: &Snapshot,
    ) -> Answer<Option<Provisioned>> {
        let Some(KeyUse { key, digest }) = key else { return Ok(None) };
        let used = snapshot.used.as_ref();
        match idempotency::judge(key, *digest, used, snapshot.now)? {
            Verdict::Fresh => Ok(None),
            Verdict::Replay(answer) => {
                let broken = |_| Failure::Broken { what: format!("the answer to key \"{key}\"") };
                let id = answer.parse::<ResourceId>().map_err(broken)?;
                let resource = self.view(&self.record(id).await?).await?;
                Ok(Some(Provisioned { resource, replayed: true }))
            }
        }
    }

    fn mint(&self) -> Minted {
        Minted {
            resource: ResourceId::from_uuid(Uuid::now_v7()),
            tenancy: TenancyId::from_uuid(Uuid::now_v7()),
            provider_config: ProviderConfigId::from_uuid(Uuid::now_v7()),
            installation: self.store.installation().id,
            api_url: self.pins.api_url.clone(),
            agent_image: self.pins.agent_image.clone(),
        }
    }

    /// Executes a command and audits it in the same transaction.
    pub(super) async fn execute(
        &self,
        caller: &Caller,
        id: ResourceId,
        (command, action): (Command, Action),
    ) -> Answer<ResourceView> {
        let mut detail = Map::new();
        if let Command::Abandon { reason, .. } = &command {
            detail.insert("reason".to_owned(), Value::from(reason.as_str()));
        }
        let note = entry(caller, action, (None, id.to_string()), detail);
        let refusal = Refusal::ProvisionedResourceNotFound { what: id.to_string() };
        Failpoint::BeforeOrder.pass();
        let ordered = self.store.command(id, command, Some(note)).await;
        Failpoint::AfterOrder.pass();
        let (resource, version) = ordered.map_err(missing(refusal))?;
        self.view_of(&resource, version).await
    }
}
