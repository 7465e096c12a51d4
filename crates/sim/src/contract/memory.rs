//! The inside in memory: one resource, its ProviderConfig, tokens, peers and the pin.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::json;
use usher_domain::blueprint::{
    CompositeType, InjectionStrategy, MeshRole, ParameterSchema, ParameterValues,
};
use usher_domain::broker::aggregate::{Declared, Pinned, Resource};
use usher_domain::broker::command::{self, Outstanding};
use usher_domain::broker::event::Event;
use usher_domain::broker::provider_config::{self, ProviderConfig};
use usher_domain::broker::reconciler::Broker;
use usher_domain::broker::side_writes::SideWrites;
use usher_domain::broker::snapshot::{Peer, PeerState, TokenState};
use usher_domain::broker::tombstone::Tombstone;
use usher_domain::object::authority::{Authority, Pin};
use usher_domain::object::enrolment::TokenText;
use usher_domain::object::id::{
    BlueprintVersionId, CredentialId, InstallationId, PeerId, ProjectId, ProviderConfigId,
    ResourceId, TenancyId,
};
use usher_domain::object::kv::KvCoordinates;
use usher_domain::object::name;
use usher_domain::object::provider::Provider;
use usher_kernel::{
    Decision, Generation, Ledger, NameLedger, Record, Row, Timestamp, Trouble, Version,
};
use uuid::Uuid;

/// What a declaration asks for.
#[derive(Clone, Debug)]
pub struct Wish {
    /// Whether a node enrols.
    pub role: MeshRole,
    /// How long the substrate takes.
    pub ready_after: Duration,
    /// How the substrate fails, if it shall.
    pub fail_with: Option<String>,
    /// Where its agent finds the control plane.
    pub api_url: String,
}

/// The control plane of one run.
#[derive(Debug)]
pub struct Memory {
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    resource: Record<Resource>,
    config: Record<ProviderConfig>,
    tokens: BTreeMap<Generation, TokenState>,
    peers: BTreeMap<Generation, Peer>,
    pin: Option<Pin>,
    events: Vec<Event>,
}

/// What is known of the resource in one moment.
#[derive(Clone, Debug)]
pub struct Known {
    /// Whether the world that answered is the pinned one.
    pub authority: Authority,
    /// Whether the ProviderConfig may be referred to.
    pub config_ready: bool,
    /// The tokens.
    pub tokens: BTreeMap<Generation, TokenState>,
    /// The peers.
    pub peers: BTreeMap<Generation, Peer>,
}

impl Default for Wish {
    fn default() -> Self {
        Self {
            role: MeshRole::Node,
            ready_after: Duration::ZERO,
            fail_with: None,
            api_url: "http://127.0.0.1:9".to_owned(),
        }
    }
}

impl Memory {
    /// A declaration that was just accepted; `number` distinguishes it. `None` if the wish is
    /// not a legal one.
    pub fn declare(number: u8, wish: &Wish, now: Timestamp) -> Option<Self> {
        let config = config(number)?;
        let resource = Resource::declare(declared(number, wish, &config)?, now).ok()?;
        let name_ledger = NameLedger::new(resource.intended("usher", now));
        let resource = Record { version: Version(1), state: resource, name_ledger };
        let name_ledger = NameLedger::new(config.intended("usher", now));
        let config = Record { version: Version(1), state: config, name_ledger };
        let (tokens, peers) = (BTreeMap::new(), BTreeMap::new());
        let inner = Inner { resource, config, tokens, peers, pin: None, events: vec![] };
        Some(Self { inner: Mutex::new(inner) })
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The resource.
    pub fn resource(&self) -> Record<Resource> {
        self.inner().resource.clone()
    }

    /// The ProviderConfig.
    pub fn config(&self) -> Record<ProviderConfig> {
        self.inner().config.clone()
    }

    /// The emitted events.
    pub fn events(&self) -> Vec<Event> {
        self.inner().events.clone()
    }

    /// Judges who answered, and pins the highest revision.
    pub fn judge(&self, answered: &Pin) -> Authority {
        let mut inner = self.inner();
        let pinned = inner.pin.get_or_insert_with(|| answered.clone());
        let authority = pinned.judge(answered);
        if authority == Authority::Pinned {
            *pinned = answered.clone();
        }
        authority
    }

    /// What is known of the resource.
    pub fn known(&self, answered: &Pin) -> Known {
        let authority = self.judge(answered);
        let inner = self.inner();
        Known {
            authority,
            config_ready: inner.config.state.is_ready(),
            tokens: inner.tokens.clone(),
            peers: inner.peers.clone(),
        }
    }

    /// The text of a token.
    pub fn token(&self, generation: Generation) -> TokenText {
        let id = name::token(self.inner().resource.state.id(), generation);
        TokenText::compose(id, &[7; 32])
    }

    /// Issues a token, unless the resource is being torn down.
    pub fn issue(&self, generation: Generation) -> Result<(), Trouble> {
        let mut inner = self.inner();
        if !inner.resource.state.admits(generation) {
            return Err(Trouble::Rejected { what: "the resource is being torn down".to_owned() });
        }
        inner.tokens.entry(generation).or_insert(TokenState::Redeemable);
        Ok(())
    }

    /// A node redeems the token of a generation, if it can.
    pub fn enrol(&self, generation: Generation) -> bool {
        let mut inner = self.inner();
        if inner.tokens.get(&generation) != Some(&TokenState::Redeemable) {
            return false;
        }
        inner.tokens.insert(generation, TokenState::Consumed);
        let id = PeerId::from_uuid(id(8, u8::try_from(generation.0).unwrap_or(u8::MAX)));
        inner.peers.insert(generation, Peer { id, state: PeerState::Registered });
        true
    }

    /// Shows every node out.
    pub fn deregister(&self) {
        for peer in self.inner().peers.values_mut() {
            peer.state = PeerState::Deregistered;
        }
    }

    /// Whether a node is registered.
    pub fn is_registered(&self) -> bool {
        self.inner().peers.values().any(|it| it.state != PeerState::Deregistered)
    }

    /// Asks for deletion.
    pub fn retire(&self, now: Timestamp) {
        let outstanding = Outstanding { may_act_until: None, request_bound: Duration::ZERO };
        let change = command::deprovision(&self.resource().state, &outstanding, now);
        self.write(change.next, &change.rows, change.event, now);
    }

    fn write(&self, next: Resource, rows: &[Row], event: Option<Event>, now: Timestamp) {
        let mut inner = self.inner();
        let side_writes = SideWrites::of(&inner.resource.state, &next);
        let record = &mut inner.resource;
        record.version = record.version.next();
        record.name_ledger = record.name_ledger.with(rows);
        record.state = next;
        inner.events.extend(event);
        if side_writes.tokens.teardown_began {
            let live = inner.tokens.values_mut().filter(|it| **it == TokenState::Redeemable);
            live.for_each(|it| *it = TokenState::Revoked);
        }
        if side_writes.release_provider_config {
            let outstanding = Outstanding { may_act_until: None, request_bound: Duration::ZERO };
            inner.config.state = inner.config.state.parted(&outstanding, now);
            inner.config.version = inner.config.version.next();
        }
    }

    fn written(
        &self,
        version: Version,
        (next, rows): (&Resource, &[Row]),
        event: Option<Event>,
    ) -> Result<(), Trouble> {
        if self.inner().resource.version != version {
            return Err(Trouble::Conflict);
        }
        let now = next.fields().updated_at;
        self.write(next.clone(), rows, event, now);
        Ok(())
    }
}

impl Ledger<Broker> for Memory {
    async fn load(&self) -> Result<Option<Record<Resource>>, Trouble> {
        Ok(Some(self.resource()))
    }

    async fn commit(&self, version: Version, it: &Decision<Broker>) -> Result<(), Trouble> {
        self.written(version, (&it.next, &it.rows), it.event.clone())
    }
}

impl Ledger<Tombstone> for Memory {
    async fn load(&self) -> Result<Option<Record<Resource>>, Trouble> {
        Ok(Some(self.resource()))
    }

    async fn commit(&self, version: Version, it: &Decision<Tombstone>) -> Result<(), Trouble> {
        self.written(version, (&it.next, &it.rows), None)
    }
}

impl Ledger<provider_config::ProviderConfigReconciler> for Memory {
    async fn load(&self) -> Result<Option<Record<ProviderConfig>>, Trouble> {
        Ok(Some(self.config()))
    }

    async fn commit(
        &self,
        version: Version,
        decision: &Decision<provider_config::ProviderConfigReconciler>,
    ) -> Result<(), Trouble> {
        let record = &mut self.inner().config;
        if record.version != version {
            return Err(Trouble::Conflict);
        }
        record.version = version.next();
        record.name_ledger = record.name_ledger.with(&decision.rows);
        record.state = decision.next.clone();
        Ok(())
    }
}

fn config(number: u8) -> Option<ProviderConfig> {
    Some(ProviderConfig {
        id: ProviderConfigId::from_uuid(id(2, number)),
        installation: InstallationId::from_uuid(id(9, 0)),
        world: "local".to_owned(),
        namespace: "usher-project-1".to_owned(),
        provider: Provider::Local,
        credential: CredentialId::from_uuid(id(3, 0)),
        coordinates: KvCoordinates::new("secret", "clouds/local").ok()?,
        users: 1,
        phase: provider_config::Phase::Pending,
        generation: Generation::FIRST,
        grace_until: None,
    })
}

fn declared(number: u8, wish: &Wish, config: &ProviderConfig) -> Option<Declared> {
    let id_of = ResourceId::from_uuid(id(1, number));
    Some(Declared {
        id: id_of,
        name: format!("node-{number}"),
        tenancy: TenancyId::from_uuid(id(4, number)),
        project: ProjectId::from_uuid(id(5, 0)),
        blueprint_version: BlueprintVersionId::from_uuid(id(6, 0)),
        credential: config.credential,
        pinned: Pinned {
            installation: config.installation,
            world: config.world.clone(),
            namespace: config.namespace.clone(),
            composite: composite()?,
            xr_name: name::xr(id_of),
            role: wish.role,
            strategy: InjectionStrategy::CloudInitUserData,
            parameters: parameters(wish)?,
            api_url: wish.api_url.parse().ok()?,
            agent_image: "registry.example/usher/agent:0.1.0".parse().ok()?,
            provider_config: config.id,
        },
    })
}

fn parameters(wish: &Wish) -> Option<ParameterValues> {
    let schema: ParameterSchema = serde_json::from_value(json!({ "parameters": [
        { "name": "readyAfterMs", "type": "integer", "default": 0 },
        { "name": "failWith", "type": "string", "default": "" },
    ]}))
    .ok()?;
    let millis = u64::try_from(wish.ready_after.as_millis()).ok()?;
    let wish =
        json!({ "readyAfterMs": millis, "failWith": wish.fail_with.as_deref().unwrap_or("") });
    schema.materialise(wish.as_object()?).ok()
}

fn composite() -> Option<CompositeType> {
    let xrd = json!({
        "apiVersion": "apiextensions.crossplane.io/v2",
        "kind": "CompositeResourceDefinition",
        "metadata": { "name": "nodes.blueprints.example" },
        "spec": {
            "group": "blueprints.example",
            "names": { "kind": "Node", "plural": "nodes" },
            "scope": "Namespaced",
            "versions": [{ "name": "v1", "served": true }],
        },
    });
    CompositeType::from_xrd(&xrd).ok()
}

fn id(kind: u8, number: u8) -> Uuid {
    let mut bytes = [0x22; 16];
    bytes[0] = kind;
    bytes[15] = number;
    Uuid::from_bytes(bytes)
}
