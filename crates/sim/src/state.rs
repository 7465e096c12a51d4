//! Everything of one simulated life that changes.

use std::fmt::Write as _;

use serde_json::{Map, Value};
use usher_domain::blueprint::{CompositeType, InjectionStrategy, ParameterSchema};
use usher_domain::broker::accept::{self, Accepted, Minted, Provision};
use usher_domain::broker::event::Outcome;
use usher_domain::broker::ports::{
    AssignmentView, BlueprintView, CloudView, CredentialView, Views,
};
use usher_domain::broker::provider_config::{self, ProviderConfig};
use usher_domain::object::authority::Pin;
use usher_domain::object::id::{
    BlueprintVersionId, CloudId, CredentialId, InstallationId, ProjectId, ProviderConfigId,
    ResourceId, TenancyId,
};
use usher_domain::object::kv::KvCoordinates;
use usher_domain::object::provider::Provider;
use usher_kernel::schedule::Entry;
use usher_kernel::{Book, Generation, Record, Timestamp, Uid, Version};
use uuid::Uuid;

use crate::check::{Checker, Wrong};
use crate::coverage::Coverage;
use crate::execute::Request;
use crate::fault::Fault;
use crate::mesh::server_key;
use crate::outside::{Kind, Object, Outside};
use crate::plan::{Plan, Tick};
use crate::reader::Reader;
use crate::rng::Rng;
use crate::store::{ConfigRow, EventRow, ResourceRow, Store, timestamp};

/// Everything that changes.
pub struct State {
    /// The moment.
    pub tick: Tick,
    /// How far the database's clock has jumped ahead.
    pub skew: Tick,
    /// The stream of this seed.
    pub rng: Rng,
    /// What the seed decided.
    pub plan: Plan,
    /// The cluster.
    pub outside: Outside,
    /// The store.
    pub store: Store,
    /// Requests that will arrive a second time.
    pub echoes: Vec<(Tick, Request)>,
    /// Children that a composer with a stale cache will create.
    pub late_parts: Vec<(Tick, Object, u8, String)>,
    /// Whether the strike that this life insists on has happened.
    pub struck: bool,
    /// Until when the watch is down.
    pub watch_down_until: Tick,
    /// Somebody who reads the event log.
    pub reader: Reader,
    /// What this life met.
    pub coverage: Coverage,
    /// The first thing that went wrong.
    pub wrong: Option<Wrong>,
    /// The story so far, if somebody listens.
    pub story: Option<Vec<String>>,
    /// The unasked disappearances that the rail counts.
    pub vanished: Vec<Tick>,
}

impl State {
    /// The life of a seed, before anything has happened.
    pub fn new(seed: u64, listen: bool) -> Self {
        let mut rng = Rng::new(seed);
        let plan = Plan::draw(seed, &mut rng);
        let now = timestamp(0);
        let config = ProviderConfig {
            id: ProviderConfigId::from_uuid(id(2, 0)),
            installation: installation(),
            world: "local".to_owned(),
            namespace: "ns".to_owned(),
            provider: Provider::Local,
            credential: CredentialId::from_uuid(id(3, 0)),
            coordinates: coordinates(),
            users: 0,
            phase: provider_config::Phase::Gone,
            generation: Generation::FIRST,
            quiet_until: None,
        };
        let mut entry = Entry::new(now);
        entry.due = None;
        let record = Record { version: Version(1), book: Book::default(), state: config };
        let store = Store {
            resources: vec![],
            config: ConfigRow { record, entry },
            tokens: std::collections::BTreeMap::new(),
            peers: vec![],
            snapshot: 0,
            events: vec![],
            pin: Pin { identity: Uid::new("cluster"), revision: 0 },
            rail_tripped: false,
        };
        Self {
            tick: 0,
            skew: 0,
            rng,
            plan,
            outside: Outside::default(),
            store,
            echoes: vec![],
            late_parts: vec![],
            struck: false,
            watch_down_until: -1,
            reader: Reader::default(),
            coverage: Coverage::default(),
            wrong: None,
            story: listen.then(Vec::new),
            vanished: vec![],
        }
    }

    /// The database's clock.
    pub fn now(&self) -> Timestamp {
        timestamp(self.tick + self.skew)
    }

    /// Whether the world may still misbehave.
    pub fn stormy(&self) -> bool {
        self.tick < self.plan.faults_end
    }

    /// Whether a fault of this kind begins now, with this chance in thousandths. Whoever asks
    /// notes the fault once it has an effect.
    pub fn happens(&mut self, fault: Fault, per_mille: u64) -> bool {
        self.stormy() && self.plan.mix.has(fault) && self.rng.per_mille(per_mille)
    }

    /// Whether a fault of this kind strikes now, with this chance in thousandths.
    pub fn strikes(&mut self, fault: Fault, per_mille: u64) -> bool {
        let happens = self.happens(fault, per_mille);
        if happens {
            self.met(fault);
        }
        happens
    }

    /// Notes a fault for coverage and story.
    pub fn met(&mut self, fault: Fault) {
        self.coverage.fault(fault);
        self.say(|_| format!("fault: {}", fault.as_str()));
    }

    /// Notes what went wrong first.
    pub fn wrong(&mut self, checker: Checker, what: String) {
        self.say(|_| format!("WRONG ({}): {what}", checker.as_str()));
        if self.wrong.is_none() {
            self.wrong = Some(Wrong { checker, what });
        }
    }

    /// Adds a line to the story.
    pub fn say(&mut self, line: impl FnOnce(&Self) -> String) {
        if self.story.is_none() {
            return;
        }
        let mut text = String::new();
        let _ = write!(text, "{:>5}  {}", self.tick, line(self));
        if let Some(story) = &mut self.story {
            story.push(text);
        }
    }

    /// Whether objects of this kind are hidden because the kind was removed.
    pub fn hidden(&self, kind: Kind) -> bool {
        match kind {
            Kind::Part(n) => {
                self.outside.removed_until.get(&n).is_some_and(|until| self.tick < *until)
            }
            Kind::Anchor | Kind::Xr | Kind::Config | Kind::Secret => false,
        }
    }

    /// Whether a resource was given up.
    pub fn was_abandoned(&self, index: usize) -> bool {
        let outcome = self.store.resources[index].record.state.fields().outcome;
        outcome == Some(Outcome::Abandoned)
    }

    /// Accepts a declaration: row, names, event, one more user, all in one transaction.
    pub fn declare(&mut self, wish: usize) {
        let now = self.now();
        let index = self.store.resources.len();
        let accepted = self.declaration(wish, index).and_then(|(command, views, minted)| {
            accept::provision(&command, &views, &minted, now).ok()
        });
        let Some(Accepted { resource, rows, event, new_provider_config }) = accepted else {
            self.wrong(Checker::EndsAsWished, "a declaration was refused".to_owned());
            return;
        };
        let version = Version(1);
        let record = Record { version, state: resource, book: Book::new(rows) };
        self.store.resources.push(ResourceRow { record, entry: Entry::new(now), tombstone: None });
        let generation = Generation::FIRST;
        let number = self.store.next_number();
        self.store.events.push(EventRow { number, resource: index, version, generation, event });
        let config = &mut self.store.config;
        if let Some(new) = new_provider_config {
            config.record.book = Book::new(new.intended("usher", now));
            config.record.state = new;
        } else {
            config.record.state = config.record.state.joined();
        }
        config.record.version = config.record.version.next();
        config.entry.wake(now);
        self.say(|_| format!("resource {index} is declared"));
    }

    fn declaration(&self, wish: usize, index: usize) -> Option<(Provision, Views, Minted)> {
        let number = u8::try_from(index).ok()?;
        let config = &self.store.config.record.state;
        let (cloud, provider) = (CloudId::from_uuid(id(7, 0)), Provider::Local);
        let command = Provision {
            name: format!("node-{number}"),
            project: ProjectId::from_uuid(id(5, 0)),
            blueprint_version: BlueprintVersionId::from_uuid(id(6, 0)),
            credential: config.credential,
            parameters: Map::new(),
        };
        let views = Views {
            blueprint: Some(BlueprintView {
                version: command.blueprint_version,
                composite: CompositeType::from_xrd(&xrd()).ok()?,
                schema: ParameterSchema::new(vec![]).ok()?,
                strategy: InjectionStrategy::CloudInitUserData,
                role: self.plan.wishes[wish].role,
                providers: vec![provider],
            }),
            credential: Some(CredentialView {
                id: config.credential,
                cloud,
                coordinates: config.coordinates.clone(),
                usable: Ok(()),
            }),
            cloud: Some(CloudView { id: cloud, provider, endpoint: Value::Null }),
            assignment: Some(AssignmentView {
                world: config.world.clone(),
                namespace: config.namespace.clone(),
            }),
            provider_config: (index > 0).then_some(config.id),
            name_in_use: false,
        };
        let minted = Minted {
            resource: ResourceId::from_uuid(id(1, number)),
            tenancy: TenancyId::from_uuid(id(4, number)),
            provider_config: config.id,
            installation: installation(),
            api_url: "https://usher.example".parse().ok()?,
            agent_image: "registry.example/usher:1".parse().ok()?,
            key_id: server_key()?.id(),
        };
        Some((command, views, minted))
    }
}

/// The installation every simulated object belongs to.
pub fn installation() -> InstallationId {
    InstallationId::from_uuid(id(9, 0))
}

/// Where the simulated credential lies.
fn coordinates() -> KvCoordinates {
    KvCoordinates::new("secret", "clouds/local")
        .unwrap_or_else(|_| unreachable!("a fixed and valid value"))
}

/// The XRD of the simulated blueprint.
fn xrd() -> serde_json::Value {
    serde_json::json!({
        "apiVersion": "apiextensions.crossplane.io/v2",
        "kind": "CompositeResourceDefinition",
        "metadata": { "name": "nodes.blueprints.example" },
        "spec": {
            "group": "blueprints.example",
            "names": { "kind": "Node", "plural": "nodes" },
            "scope": "Namespaced",
            "versions": [{ "name": "v1", "served": true, "referenceable": true }],
        },
    })
}

fn id(kind: u8, number: u8) -> Uuid {
    let mut bytes = [0x11; 16];
    bytes[0] = kind;
    bytes[15] = number;
    Uuid::from_bytes(bytes)
}
