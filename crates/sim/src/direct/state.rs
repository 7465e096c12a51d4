//! Everything of one simulated run that changes.

use usher_domain::direct::accept::{Accepted, accept};
use usher_domain::direct::aggregate::ObjectKey;
use usher_domain::direct::event::Event;
use usher_domain::direct::phase::Phase;
use usher_domain::direct::reference::Read;
use usher_domain::object::id::InstallationId;
use usher_domain::object::kv::KvCoordinates;
use usher_kernel::schedule::Entry;
use usher_kernel::{NameLedger, Record, Stopped, Trouble, Version, Wake};
use uuid::Uuid;

use crate::base::{Base, Course};
use crate::clock::Tick;
use crate::direct::breakage::Breakage;
use crate::direct::driver_step::Notes;
use crate::direct::execute::Request;
use crate::direct::fault::Fault;
use crate::direct::model::Spec;
use crate::direct::outside::{Object, Outside, context, uid};
use crate::direct::plan::{PAIRS, Plan, Wishes};
use crate::direct::store::{EventRow, ResourceRow, Store};
use crate::driver_step::DriverStep;
use crate::rng::Rng;
use crate::sim_world::{EveryWorld, SimWorld};

/// The namespace of everything here.
pub const NAMESPACE: &str = "ns";

/// Everything that changes.
pub struct State {
    /// What every world has.
    pub base: Base<Self>,
    /// What people ask for.
    pub wishes: Vec<Wishes>,
    /// The cluster and the cloud.
    pub outside: Outside,
    /// The store.
    pub store: Store,
    /// The objects that are copies of others.
    pub copies: Vec<u64>,
    /// The objects whose stamp names the cloud object of another.
    pub forged: Vec<u64>,
    /// Cloud objects that none of our records may touch: uid and container.
    pub neighbours: Vec<(u64, String)>,
    /// The objects of which ledger and stamp were lost at once.
    pub forgotten: Vec<u64>,
    /// The objects whose spec came to declare another identity.
    pub moved: Vec<u64>,
    /// What is answered, whatever is asked, until the fault phase is over.
    pub stubborn: Stubborn,
    /// Until when the watch is down.
    pub watch_down_until: Tick,
    /// Until when every read shows an empty cloud.
    pub empty_until: Tick,
    /// Until when every read of the cluster shows no object.
    pub hidden_until: Tick,
    /// The objects that a restore brought back after their end.
    pub restored: Vec<u64>,
}

/// Answers that do not depend on what is there.
#[derive(Clone, Debug, Default)]
pub struct Stubborn {
    /// The status of every answer of the cloud.
    pub status: Option<u16>,
    /// What every read of a referent brings back.
    pub read: Option<Read>,
}

/// What a spec declares to represent a cloud object.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// The object's name.
    pub name: String,
    /// Its spec.
    pub spec: Spec,
    /// The text of its deletion policy.
    pub policy: Option<String>,
}

impl State {
    /// A world in which nothing is.
    pub fn empty(rng: Rng, course: Course, listen: bool) -> Self {
        Self {
            base: Base::new(rng, course, None, listen),
            wishes: vec![],
            outside: Outside::default(),
            store: Store::default(),
            copies: vec![],
            forged: vec![],
            neighbours: vec![],
            forgotten: vec![],
            moved: vec![],
            stubborn: Stubborn::default(),
            watch_down_until: -1,
            empty_until: -1,
            hidden_until: -1,
            restored: vec![],
        }
    }

    /// Puts an object into the cluster.
    pub fn add(&mut self, wanted: Wanted) -> u64 {
        let uid = self.outside.mint();
        let Wanted { name, spec, policy } = wanted;
        let object = Object {
            uid,
            namespace: NAMESPACE.to_owned(),
            name,
            deleting: false,
            finalizers: vec![],
            policy,
            stamp: None,
            status: None,
            spec,
        };
        self.say(|_| format!("{} is created as {uid}", object.name));
        self.outside.objects.push(object);
        self.accept(uid);
        uid
    }

    /// Asks for the deletion of an object.
    pub fn ask_to_go(&mut self, uid: u64) {
        let tick = self.base.tick;
        if self.outside.object(uid).is_some_and(|it| !it.deleting) {
            self.say(|_| format!("deletion of {uid} is requested"));
        }
        self.outside.change(uid, tick, |it| it.deleting = true);
    }

    /// Whether the object is gone and its record finished.
    pub fn is_gone(&self, uid: u64) -> bool {
        let ended = |it: usize| self.store.resources[it].record.state.phase() == Phase::Deleted;
        self.outside.object(uid).is_none() && self.store.of(uid).is_none_or(ended)
    }

    /// Creates the record of an object that has no row.
    pub(crate) fn accept(&mut self, uid: u64) {
        let now = self.now();
        let Some(object) = self.outside.object(uid).cloned() else {
            return;
        };
        let key = ObjectKey {
            namespace: object.namespace.clone(),
            name: object.name.clone(),
            uid: self::uid(uid),
        };
        let Ok(Accepted { resource, event }) = accept(key, &object.seen(), &context(), now) else {
            self.wrong(EveryWorld::EndsAsWished, format!("{uid} was refused"));
            return;
        };
        let version = Version(1);
        let record = Record { version, state: resource, name_ledger: NameLedger::default() };
        let resource = self.store.resources.len();
        let entry = Some(Entry::new(now));
        self.store.resources.push(ResourceRow { object: uid, record, entry, reason: None });
        debug_assert_eq!(event, Event::Accepted);
        self.store.events.push(EventRow { resource, version, event });
    }
}

impl SimWorld for State {
    type Item = usize;
    type Request = Request;
    type Notes = Notes;
    type Fault = Fault;
    type Breakage = Breakage;

    const NAME: &'static str = "direct";

    fn pairs() -> Vec<String> {
        PAIRS.iter().map(|(phase, effect)| format!("({phase}, {effect})")).collect()
    }

    fn new(seed: u64, breakage: Option<Breakage>, listen: bool) -> Self {
        let mut rng = Rng::new(seed);
        let Plan { wishes, course } = Plan::draw(seed, &mut rng);
        let mut state = Self::empty(rng, course, listen);
        state.base.breakage = breakage;
        state.wishes = wishes;
        state.populate();
        state
    }

    fn base(&self) -> &Base<Self> {
        &self.base
    }

    fn base_mut(&mut self) -> &mut Base<Self> {
        &mut self.base
    }

    fn items(&self) -> Vec<usize> {
        (0..self.store.resources.len()).collect()
    }

    fn entry(&mut self, work_item: usize) -> Option<&mut Entry> {
        self.store.resources.get_mut(work_item)?.entry.as_mut()
    }

    fn notes(&self) -> Notes {
        Notes { observed_at: self.base.tick.into(), seen: None.into() }
    }

    async fn step(driver: &DriverStep<'_, Self>) -> Result<Wake, Stopped> {
        driver.one_step().await
    }

    fn execute(&mut self, request: &Request) -> Result<(), Trouble> {
        self.serve(request)
    }

    fn swallows(&self, request: &Request) -> bool {
        self.outside.is_rebuilt(self.base.tick) && request.is_for_cluster()
    }

    fn evolve(&mut self) {
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

/// The installation every simulated object belongs to.
pub fn installation() -> InstallationId {
    InstallationId::from_uuid(Uuid::from_bytes([0x19; 16]))
}

/// Another installation in the same cloud.
pub fn other_installation() -> InstallationId {
    InstallationId::from_uuid(Uuid::from_bytes([0x29; 16]))
}

/// Where the simulated credential lies.
pub fn credential() -> KvCoordinates {
    KvCoordinates::new("secret", "clouds/sim")
        .unwrap_or_else(|_| unreachable!("a fixed and valid value"))
}
