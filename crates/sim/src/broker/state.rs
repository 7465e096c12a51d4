//! Everything of one simulated run that changes.

use serde_json::{Map, Value};
use usher_domain::blueprint::{CompositeType, InjectionStrategy, MeshRole, ParameterSchema};
use usher_domain::broker::accept::{self, Minted, Provision};
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
use usher_kernel::schedule::{Claim, Entry};
use usher_kernel::{
    Generation, NameLedger, Record, Stopped, Timestamp, Trouble, Uid, Version, Wake,
};
use uuid::Uuid;

use crate::base::Base;
use crate::broker::behind::Behind;
use crate::broker::breakage::Breakage;
use crate::broker::driver_step::Notes;
use crate::broker::execute::Request;
use crate::broker::fault::Fault;
use crate::broker::outside::{Kind, Object, Outside};
use crate::broker::plan::{PAIRS, Plan, Wishes};
use crate::broker::reader::Reader;
use crate::broker::store::{ConfigRow, Item, Store};
use crate::clock::{Tick, timestamp};
use crate::contract::port::{No, Port, TestIds};
use crate::driver_step::DriverStep;
use crate::rng::Rng;
use crate::sim_world::{EveryWorld, SimWorld};

/// Everything that changes.
pub struct State {
    /// What every world has.
    pub base: Base<Self>,
    /// What people ask for.
    pub wishes: Vec<Wishes>,
    /// The cluster.
    pub outside: Outside,
    /// The store.
    pub store: Store,
    /// Children that a composer with a stale cache will create.
    pub late_parts: Vec<(Tick, Object, u8, String)>,
    /// Until when the watch is down.
    pub watch_down_until: Tick,
    /// A reader of the event log.
    pub reader: Reader,
    /// The unasked disappearances that the mass-deletion guard counts.
    pub vanished: Vec<Tick>,
}

impl SimWorld for State {
    type Item = Item;
    type Request = Request;
    type Notes = Notes;
    type Fault = Fault;
    type Breakage = Breakage;

    const NAME: &'static str = "broker";

    fn pairs() -> Vec<String> {
        PAIRS.iter().map(|(phase, effect)| format!("({phase}, {effect})")).collect()
    }

    fn new(seed: u64, breakage: Option<Breakage>, listen: bool) -> Self {
        let mut rng = Rng::new(seed);
        let Plan { wishes, course } = Plan::draw(seed, &mut rng);
        Self {
            base: Base::new(rng, course, breakage, listen),
            wishes,
            outside: Outside::default(),
            store: empty_store(),
            late_parts: vec![],
            watch_down_until: -1,
            reader: Reader::default(),
            vanished: vec![],
        }
    }

    fn base(&self) -> &Base<Self> {
        &self.base
    }

    fn base_mut(&mut self) -> &mut Base<Self> {
        &mut self.base
    }

    fn items(&self) -> Vec<Item> {
        self.store.items()
    }

    fn entry(&mut self, work_item: Item) -> Option<&mut Entry> {
        self.store.entry(work_item)
    }

    fn notes(&self) -> Notes {
        let (next_number, observed_at) = (self.store.next_number(), self.base.tick.into());
        Notes { next_number, observed_at, behind_guard: false.into() }
    }

    async fn step(driver: &DriverStep<'_, Self>) -> Result<Wake, Stopped> {
        driver.one_step().await
    }

    fn execute(&mut self, request: &Request) -> Result<(), Trouble> {
        self.serve_checked(request)
    }

    fn swallows(&self, request: &Request) -> bool {
        self.outside.is_rebuilt(self.base.tick) && request.is_for_cluster()
    }

    fn now(&self) -> Timestamp {
        let simulated = timestamp(self.base.tick + self.base.skew);
        self.store.behind.as_ref().map_or(simulated, Behind::now)
    }

    fn claim_behind(&mut self) -> Option<Option<(Item, Claim)>> {
        self.store.behind.is_some().then(|| self.store.claim_behind())
    }

    fn finish_behind(
        &mut self,
        work_item: Item,
        claim: &Claim,
        outcome: &Result<Wake, Stopped>,
    ) -> bool {
        let behind = self.store.behind.is_some();
        if behind {
            self.store.finish_behind(work_item, claim, outcome);
        }
        behind
    }

    fn evolve(&mut self) {
        if let Some(what) = self.store.tick_behind() {
            self.wrong(EveryWorld::EndsAsWished, what);
        }
        self.go_on();
    }

    fn heal(&mut self) {
        self.calm_down();
    }

    fn restless(&self) -> Vec<&'static str> {
        self.on_its_way()
    }

    fn check_quiet(&mut self) {
        self.check_at_rest();
    }
}

impl State {
    /// The world of a seed on another store than the one in memory. That one has a clock of its
    /// own, which never jumps.
    pub fn on(seed: u64, port: Box<dyn Port>, listen: bool) -> Self {
        let mut state = Self::new(seed, None, listen);
        let mix = &mut state.base.course.mix;
        *mix = mix.without(Fault::ClockJump).without(Fault::DayJump);
        state.store.behind = Some(Behind::new(port));
        state
    }

    /// Whether objects of this kind are hidden because the kind was removed.
    pub fn hidden(&self, kind: Kind) -> bool {
        match kind {
            Kind::Part(n) => {
                self.outside.removed_until.get(&n).is_some_and(|until| self.base.tick < *until)
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
        let accepted = accepted.ok_or(No::Refused("refused"));
        if let Err(no) = accepted.and_then(|it| self.store.accept(it, now)) {
            self.wrong(EveryWorld::EndsAsWished, format!("a declaration was refused: {no:?}"));
            return;
        }
        self.say(|_| format!("resource {index} is declared"));
    }

    fn declaration(&self, wish: usize, index: usize) -> Option<(Provision, Views, Minted)> {
        let number = u8::try_from(index).ok()?;
        let config = &self.store.config.record.state;
        let ids = ids();
        let command = Provision {
            name: format!("node-{number}"),
            project: ids.project,
            blueprint_version: ids.blueprint_version,
            credential: ids.credential,
            parameters: Map::new(),
        };
        let views = self.store.views(&command, self.wishes[wish].role)?;
        let minted = Minted {
            resource: ResourceId::from_uuid(id(1, number)),
            tenancy: TenancyId::from_uuid(id(4, number)),
            provider_config: config.id,
            installation: installation(),
            api_url: "https://usher.example".parse().ok()?,
            agent_image: "registry.example/usher:1".parse().ok()?,
        };
        Some((command, views, minted))
    }
}

impl Store {
    /// What a declaration is resolved against.
    pub fn views(&self, command: &Provision, role: MeshRole) -> Option<Views> {
        let (config, cloud) = (&self.config.record.state, CloudId::from_uuid(id(7, 0)));
        let provider = config.provider;
        Some(Views {
            blueprint: Some(BlueprintView {
                version: command.blueprint_version,
                composite: CompositeType::from_xrd(&xrd()).ok()?,
                schema: ParameterSchema::new(vec![]).ok()?,
                strategy: InjectionStrategy::CloudInitUserData,
                role,
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
            provider_config: self.has_config().then_some(config.id),
            name_in_use: self.is_named(&command.name),
        })
    }
}

/// A store in which nothing was declared yet.
pub fn empty_store() -> Store {
    let now = timestamp(0);
    let config = ProviderConfig {
        id: ProviderConfigId::from_uuid(id(2, 0)),
        installation: installation(),
        world: "local".to_owned(),
        namespace: "ns".to_owned(),
        provider: Provider::Local,
        credential: ids().credential,
        coordinates: coordinates(),
        users: 0,
        phase: provider_config::Phase::Gone,
        generation: Generation::FIRST,
        grace_until: None,
    };
    let mut entry = Entry::new(now);
    entry.due = None;
    let record = Record { version: Version(0), name_ledger: NameLedger::default(), state: config };
    Store {
        behind: None,
        resources: vec![],
        config: ConfigRow { record, entry },
        tokens: std::collections::BTreeMap::new(),
        peers: vec![],
        snapshot: 0,
        events: vec![],
        pin: Pin { identity: Uid::new("cluster"), revision: 0 },
        guard_tripped: false,
    }
}

/// What every simulated declaration refers to.
pub fn ids() -> TestIds {
    TestIds {
        installation: installation(),
        project: ProjectId::from_uuid(id(5, 0)),
        blueprint_version: BlueprintVersionId::from_uuid(id(6, 0)),
        credential: CredentialId::from_uuid(id(3, 0)),
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
