//! Resources, orphans, events, nodes and agents.

use std::time::Duration;

use async_trait::async_trait;
use usher_api::ports::{
    AgentFeed, Agents, Answer, Events, Failure, Feed, Keys, Nodes, Orphans, Readiness, Resources,
};
use usher_api::refusal::{Refusal, Thing};
use usher_api::views::{
    AgentMessage, Beat, BeatAnswer, Caller, Check, Cursor, Enrolled, GuardView, KeyUse, KeyView,
    LogEntry, NodeQuery, NodeView, Orphan, Page, Paging, Plan, PlanStep, Provisioned, Receipt,
    Registration, ResourceQuery, ResourceView, TokenView, Why,
};
use usher_domain::broker::accept::Provision;
use usher_domain::broker::phase::Phase;
use usher_domain::broker::reason::Reason;
use usher_domain::broker::refusal::Refusal as Broker;
use usher_domain::object::enrolment::KeyId;
use usher_domain::object::id::{BlueprintVersionId, CredentialId, PeerId, ProjectId, ResourceId};
use usher_domain::object::idempotency;
use usher_domain::object::key::{KeyRecord, KeyState, ServerKey};
use usher_domain::object::manifest::SecretText;
use usher_domain::object::slug::Slug;
use usher_domain::peers::{Liveness, Peer, Registration as Registered, Stage};
use usher_domain::tokens;
use usher_kernel::Generation;
use usher_wire::http::{AgentEvent, Drain};
use uuid::Uuid;

use super::{Fake, NODE_SECRET, START, demo, first, node, paged};

fn found(fake: &Fake, id: ResourceId) -> Answer<ResourceView> {
    fake.check()?;
    let state = fake.state();
    let view = state.resources.iter().find(|it| it.resource.id() == id);
    let missing = || Broker::ProvisionedResourceNotFound { what: id.to_string() };
    view.cloned().ok_or_else(|| missing().into())
}

#[async_trait]
impl Resources for Fake {
    async fn references(
        &self,
        (blueprint, _): (&Slug, Option<&str>),
        _: &Slug,
    ) -> Answer<(BlueprintVersionId, CredentialId)> {
        self.check()?;
        if blueprint.as_str() != "local-node" {
            return Err(Broker::BlueprintNotFound { what: blueprint.to_string() }.into());
        }
        let nil = Uuid::nil();
        Ok((BlueprintVersionId::from_uuid(nil), CredentialId::from_uuid(nil)))
    }

    async fn provision(
        &self,
        caller: &Caller,
        command: Provision,
        key: Option<KeyUse>,
    ) -> Answer<Provisioned> {
        self.check()?;
        let place = key
            .as_ref()
            .map(|it| (caller.token.to_string(), command.project, it.key.as_str().to_owned()));
        let used = place.as_ref().and_then(|it| self.state().keys.get(it).copied());
        if let (Some(key), Some((digest, id))) = (&key, used) {
            if digest != key.digest {
                let key = key.key.as_str().to_owned();
                return Err(idempotency::Refusal::Reused(key).into());
            }
            return Ok(Provisioned { resource: found(self, id)?, replayed: true });
        }
        let taken = |it: &ResourceView| {
            let fields = it.resource.fields();
            fields.project == command.project && fields.name == command.name
        };
        if self.state().resources.iter().any(taken) {
            return Err(Broker::NameInUse { what: command.name }.into());
        }
        if command.name.is_empty() || command.name.len() > 63 {
            return Err(Broker::InvalidInput { what: "name".to_owned() }.into());
        }
        let resource = self.declare(command.project, &command.name);
        if let (Some(place), Some(key)) = (place, key) {
            self.state().keys.insert(place, (key.digest, resource.resource.id()));
        }
        Ok(Provisioned { resource, replayed: false })
    }

    async fn deprovision(&self, _: &Caller, id: ResourceId) -> Answer<ResourceView> {
        found(self, id)
    }

    async fn get(&self, id: ResourceId) -> Answer<ResourceView> {
        found(self, id)
    }

    async fn list(&self, query: ResourceQuery, paging: Paging) -> Answer<Page<ResourceView>> {
        self.check()?;
        let wanted = |it: &&ResourceView| {
            let fields = it.resource.fields();
            query.project.is_none_or(|project| project == fields.project)
                && query.name.as_ref().is_none_or(|name| *name == fields.name)
        };
        let items: Vec<_> = self.state().resources.iter().filter(wanted).cloned().collect();
        paged(&items, &paging)
    }

    async fn why(&self, id: ResourceId) -> Answer<Why> {
        Ok(Why {
            resource: found(self, id)?,
            summary: "it waits".to_owned(),
            blockers: vec![],
            advice: vec![],
            attempts: 1,
            next_reconcile_at: Some(START),
            parked: false,
            trouble: None,
        })
    }

    async fn plan_deprovision(&self, id: ResourceId) -> Answer<Plan> {
        let (phase, reason) = (Phase::Deregistering, Reason::DrainingNode);
        let steps = vec![PlanStep { phase, reason, effect: None, name: None }];
        Ok(Plan { resource: found(self, id)?, steps, blockers: vec![] })
    }

    async fn receipt(&self, id: ResourceId) -> Answer<Receipt> {
        let resource = found(self, id)?;
        let rows = resource.resource.intended("usher", START);
        Ok(Receipt { resource, rows, provider_config: None })
    }

    async fn retry(&self, _: &Caller, id: ResourceId) -> Answer<ResourceView> {
        found(self, id)
    }

    async fn replace(&self, _: &Caller, id: ResourceId) -> Answer<ResourceView> {
        found(self, id)
    }

    async fn abandon(&self, _: &Caller, id: ResourceId, why: &str) -> Answer<ResourceView> {
        let view = found(self, id)?;
        if why.trim().is_empty() {
            return Err(Broker::ReasonRequired { what: id.to_string() }.into());
        }
        Ok(view)
    }
}

#[async_trait]
impl Orphans for Fake {
    async fn orphans(&self, paging: Paging) -> Answer<Page<Orphan>> {
        self.check()?;
        paged(&[], &paging)
    }

    async fn reap(&self, _: &Caller) -> Answer<Vec<Orphan>> {
        self.check().map(|()| vec![])
    }

    async fn guards(&self) -> Answer<Vec<GuardView>> {
        self.check()?;
        Ok(vec![guard()])
    }

    async fn reset_guard(&self, _: &Caller, world: &str) -> Answer<GuardView> {
        self.check()?;
        if world == "local" {
            return Ok(guard());
        }
        Err(Refusal::NotFound { thing: Thing::World, what: world.to_owned() }.into())
    }
}

fn guard() -> GuardView {
    GuardView { world: "local".to_owned(), tripped_at: None, vanished: 0, present: 1 }
}

fn position(fake: &Fake, after: Option<&Cursor>) -> Answer<usize> {
    let Some(Cursor(text)) = after else { return Ok(0) };
    let invalid = || Failure::from(Refusal::CursorInvalid { text: text.clone() });
    let seq = text.strip_prefix("1.0.").and_then(|it| it.parse::<usize>().ok());
    let seq = seq.ok_or_else(invalid)?;
    if seq == 0 {
        return Err(Refusal::CursorForgotten { text: text.clone() }.into());
    }
    Ok(seq.min(fake.state().events.len()))
}

#[async_trait]
impl Events for Fake {
    async fn page(&self, after: Option<Cursor>, limit: u32) -> Answer<Vec<LogEntry>> {
        self.check()?;
        let begin = position(self, after.as_ref())?;
        let state = self.state();
        Ok(state.events.iter().skip(begin).take(limit as usize).cloned().collect())
    }

    async fn follow(&self, after: Option<Cursor>) -> Answer<Box<dyn Feed>> {
        self.check()?;
        let at = match &after {
            Some(_) => position(self, after.as_ref())?,
            None => self.state().events.len(),
        };
        Ok(Box::new(Reader { fake: self.clone(), at }))
    }
}

struct Reader {
    fake: Fake,
    at: usize,
}

#[async_trait]
impl Feed for Reader {
    async fn next(&mut self) -> Answer<Vec<LogEntry>> {
        loop {
            let appended = self.fake.appended.clone();
            let waiting = appended.notified();
            {
                let state = self.fake.state();
                if state.is_closed {
                    return Err(Failure::Unavailable { what: "this process".to_owned() });
                }
                // One by one, so that a reader that skips is noticed.
                if let Some(next) = state.events.get(self.at) {
                    self.at += 1;
                    return Ok(vec![next.clone()]);
                }
            }
            waiting.await;
        }
    }
}

fn node_view() -> NodeView {
    NodeView {
        peer: Peer {
            id: node(),
            registration: Registered {
                token: usher_domain::object::name::token(first(), Generation::FIRST),
                resource: first(),
                generation: Generation::FIRST,
                project: demo(),
                nonce: "0123456789abcdef".parse().unwrap(),
                public_key: "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=".parse().unwrap(),
            },
            registered_at: START,
            stage: Stage::Registered,
            forced: None,
        },
        resource: "web-1".to_owned(),
        liveness: Liveness::Live,
        unknown: None,
        last_heartbeat_at: Some(START),
        agent_version: Some("0.1.0".to_owned()),
    }
}

/// The node that existed before.
fn gone_view() -> NodeView {
    let mut view = node_view();
    view.peer.id = PeerId::from_uuid(uuid::Uuid::from_u128(1));
    let cause = usher_domain::peers::Cause::Acknowledged;
    view.peer.stage = Stage::Deregistered { key_revoked_at: START, at: START, cause };
    view
}

#[async_trait]
impl Nodes for Fake {
    async fn tokens(&self, project: Option<ProjectId>, paging: Paging) -> Answer<Page<TokenView>> {
        self.check()?;
        let key = ServerKey::new([7; 32]).unwrap();
        let issue = tokens::Issue {
            resource: first(),
            project: demo(),
            generation: Generation::FIRST,
            lifetime: tokens::Lifetime::default(),
        };
        let token = tokens::Token::issue(&key, issue, START);
        let items = [TokenView { token, redeemable: true }];
        let wanted = project.is_none_or(|it| it == demo());
        paged(if wanted { &items } else { &[] }, &paging)
    }

    async fn list(&self, query: NodeQuery, paging: Paging) -> Answer<Page<NodeView>> {
        self.check()?;
        let wanted = query.project.is_none_or(|it| it == demo());
        let mut items = vec![node_view()];
        if query.all {
            items.push(gone_view());
        }
        paged(if wanted { &items } else { &[] }, &paging)
    }

    async fn get(&self, id: PeerId) -> Answer<NodeView> {
        self.check()?;
        if id == node() {
            return Ok(node_view());
        }
        Err(Refusal::NotFound { thing: Thing::Node, what: id.to_string() }.into())
    }

    async fn force(&self, _: &Caller, id: PeerId) -> Answer<NodeView> {
        Nodes::get(self, id).await
    }
}

#[async_trait]
impl Keys for Fake {
    async fn list(&self) -> Answer<Vec<KeyView>> {
        self.check()?;
        let key = KeyRecord {
            id: KeyId::from_stored("key-1"),
            state: KeyState::Current,
            current_since: START,
            superseded_at: None,
            retired_at: None,
        };
        Ok(vec![KeyView { key, tokens: 1, nodes: 2, held: true }])
    }

    async fn rotate(&self, _: &Caller, _: &KeyId) -> Answer<Vec<KeyView>> {
        Keys::list(self).await
    }

    async fn seal(&self, receipt: &[u8]) -> Answer<(KeyId, String)> {
        self.check()?;
        Ok((KeyId::from_stored("key-1"), receipt.len().to_string()))
    }

    async fn is_sealed(&self, receipt: &[u8], _: &KeyId, code: &str) -> Answer<bool> {
        self.check()?;
        Ok(receipt.len().to_string() == code)
    }
}

#[async_trait]
impl Agents for Fake {
    async fn register(&self, registration: Registration) -> Answer<Enrolled> {
        self.check()?;
        if registration.project != demo() {
            return Err(tokens::Refusal::ProjectMismatch.into());
        }
        if registration.text.id() != usher_domain::object::name::token(first(), Generation::FIRST) {
            return Err(tokens::Refusal::WrongVerifier.into());
        }
        Ok(Enrolled {
            node: node(),
            secret: SecretText::new(NODE_SECRET),
            heartbeat: Duration::from_secs(10),
        })
    }

    async fn admit(&self, id: PeerId, secret: &SecretText) -> Answer<()> {
        if id != node() {
            return Err(Refusal::KeyRevoked.into());
        }
        if secret.expose() == NODE_SECRET { Ok(()) } else { Err(Refusal::Unauthenticated.into()) }
    }

    async fn heartbeat(&self, _: PeerId, beat: Beat) -> Answer<BeatAnswer> {
        self.check()?;
        let drain = beat.draining.then_some(Duration::from_secs(30));
        Ok(BeatAnswer { snapshot: beat.acknowledged, drain, secret: None })
    }

    async fn stream(&self, _: PeerId, last: Option<String>) -> Answer<Box<dyn AgentFeed>> {
        self.check()?;
        let seen = last.and_then(|it| it.parse().ok()).unwrap_or(0);
        Ok(Box::new(Teller { at: seen }))
    }

    async fn leave(&self, _: PeerId, _: u64) -> Answer<()> {
        self.check()
    }
}

struct Teller {
    at: u64,
}

#[async_trait]
impl AgentFeed for Teller {
    async fn next(&mut self) -> Option<AgentMessage> {
        self.at += 1;
        let event = match self.at {
            1 => AgentEvent::Mesh { snapshot: 1 },
            2 => AgentEvent::Drain(Drain { grace_ms: 30_000 }),
            _ => return None,
        };
        Some(AgentMessage { id: Some(self.at.to_string()), event })
    }
}

#[async_trait]
impl Readiness for Fake {
    async fn checks(&self) -> Vec<Check> {
        self.state().checks.clone()
    }
}
