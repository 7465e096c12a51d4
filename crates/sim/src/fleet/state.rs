//! Everything of one simulated run that changes.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use usher_domain::fleet::accept::{Raw, Report, adopt};
use usher_domain::fleet::aggregate::Deadlines;
use usher_domain::fleet::binding::Binding;
use usher_domain::fleet::ident::{ClusterId, ShardId};
use usher_domain::fleet::issue::Issuer;
use usher_domain::fleet::phase::Phase;
use usher_domain::fleet::plan::{Fleet, Slot, Switch, Windows};
use usher_domain::fleet::reconciler::MachineReconciler;
use usher_kernel::schedule::Entry;
use usher_kernel::{NameLedger, Record, Stopped, Trouble, Version, Wake};

use crate::base::{Base, Course};
use crate::clock::{INTERVAL, Tick, millis};
use crate::driver_step::DriverStep;
use crate::fleet::at_rest::binding_of;
use crate::fleet::breakage::Breakage;
use crate::fleet::driver_step::Notes;
use crate::fleet::execute::Request;
use crate::fleet::fault::Fault;
use crate::fleet::outside::{Actual, Outside, Treatment};
use crate::fleet::people::Holder;
use crate::fleet::plan::{Asks, PAIRS, Plan, Population};
use crate::fleet::store::{MachineRow, Shard, Store};
use crate::rng::Rng;
use crate::sim_world::SimWorld;

/// Everything that changes.
pub struct State {
    /// What every world has.
    pub base: Base<Self>,
    /// What is still to come into the world.
    pub population: Population,
    /// The provider.
    pub outside: Outside,
    /// The store, and the shards' memories.
    pub store: Store,
    /// What each cluster needs at the moment.
    pub demand: Vec<Vec<Asks>>,
    /// What a machine that serves a need is configured with, for every need there will be.
    pub bindings: BTreeMap<(usize, Asks), Binding>,
    /// Until when each cluster is silent.
    pub silent_until: BTreeMap<usize, Tick>,
    /// Until when each cluster has a need that cannot be read.
    pub unreadable_until: BTreeMap<usize, Tick>,
    /// The clusters whose next roll-up is empty by mistake.
    pub collapsing: BTreeSet<usize>,
    /// What each cluster said since its shard started.
    pub roll_ups: BTreeMap<usize, RollUp>,
    /// Whether plans are acted upon, and until when not.
    pub switch: (Switch, Tick),
    /// The rows that were taken from a need, and for which need.
    pub taken_for: BTreeMap<usize, Binding>,
    /// The resources that hold machines.
    pub holders: Vec<Holder>,
    /// When a driver last observed a machine.
    pub last_deed: Tick,
}

/// What a cluster said since its shard started.
#[derive(Clone, Debug, Default)]
pub struct RollUp {
    /// What its shard goes by.
    pub accepted: Vec<Asks>,
    /// Whether its last words were true and readable.
    pub believed: bool,
    /// How many of its last words in a row were held.
    pub held: u8,
}

impl SimWorld for State {
    type Item = usize;
    type Request = Request;
    type Notes = Notes;
    type Fault = Fault;
    type Breakage = Breakage;

    const NAME: &'static str = "fleet";

    fn pairs() -> Vec<String> {
        PAIRS.iter().map(|(phase, effect)| format!("({phase}, {effect})")).collect()
    }

    fn new(seed: u64, breakage: Option<Breakage>, listen: bool) -> Self {
        let mut rng = Rng::new(seed);
        let Plan { population, course } = Plan::draw(seed, &mut rng);
        let mut state = Self::empty(rng, course, (breakage, listen));
        state.settle_in(population);
        state
    }

    fn base(&self) -> &Base<Self> {
        &self.base
    }

    fn base_mut(&mut self) -> &mut Base<Self> {
        &mut self.base
    }

    fn items(&self) -> Vec<usize> {
        (0..self.store.rows.len()).collect()
    }

    fn entry(&mut self, reconciler: usize) -> Option<&mut Entry> {
        self.store.rows.get_mut(reconciler).map(|it| &mut it.entry)
    }

    fn notes(&self) -> Notes {
        let epochs = self.store.shards.iter().map(|it| it.epoch).collect();
        Notes { epochs, floor: 0.into() }
    }

    async fn step(driver: &DriverStep<'_, Self>) -> Result<Wake, Stopped> {
        driver.one_step().await
    }

    fn execute(&mut self, request: &Request) -> Result<(), Trouble> {
        self.serve(request)
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

impl State {
    /// A world without machines, shards and demand.
    pub fn empty(rng: Rng, course: Course, (breakage, listen): (Option<Breakage>, bool)) -> Self {
        Self {
            base: Base::new(rng, course, breakage, listen),
            population: Population::default(),
            outside: Outside::default(),
            store: Store::default(),
            demand: vec![],
            bindings: BTreeMap::new(),
            silent_until: BTreeMap::new(),
            unreadable_until: BTreeMap::new(),
            collapsing: BTreeSet::new(),
            roll_ups: BTreeMap::new(),
            switch: (Switch::Run, 0),
            taken_for: BTreeMap::new(),
            holders: vec![],
            last_deed: 0,
        }
    }

    /// Puts a population into the world.
    pub fn settle_in(&mut self, population: Population) {
        for _ in 0..population.shards {
            self.add_shard();
        }
        self.demand = vec![vec![]; population.clusters];
        for demand in &population.demands {
            for asks in &demand.needs {
                let binding = binding_of(demand.cluster, *asks);
                self.bindings.extend(binding.map(|it| ((demand.cluster, *asks), it)));
            }
        }
        for slot in &population.slots {
            let treatment = Treatment { staged: slot.staged, never_salvages: slot.never_salvages };
            let machine = self.add_machine(slot.kind, treatment);
            if slot.idle {
                let host = self.outside.host();
                let it = &mut self.outside.machines[machine];
                it.host = Some(host);
                it.put(Phase::Idle);
            }
            self.take_over(machine, slot.owner);
        }
        self.population = population;
    }

    /// One more shard; its number.
    pub fn add_shard(&mut self) -> usize {
        let number = self.store.shards.len();
        let Ok(id) = format!("shard-{number}").parse::<ShardId>() else { return 0 };
        self.store.shards.push(Shard {
            fleet: Fleet::new(id.clone(), WINDOWS),
            id,
            epoch: 1,
            issuer: Issuer::new(1),
            reserved: BTreeMap::new(),
            list_believed: false,
            listed: BTreeSet::new(),
            list: None,
            aims: vec![],
        });
        number
    }

    /// One more machine of the provider, of which nothing exists and which is not known yet.
    pub fn add_machine(&mut self, kind: u8, treatment: Treatment) -> usize {
        let number = self.outside.machines.len();
        self.outside.machines.push(Actual::new(format!("m{number}"), kind, treatment));
        number
    }

    /// A shard takes over a machine as it is; the number of its row.
    pub fn take_over(&mut self, machine: usize, shard: usize) -> Option<usize> {
        let raw = self.outside.machines[machine].show();
        self.adopt_record(machine, &raw, shard)
    }

    /// A shard takes over a machine as it was shown; the number of its row.
    pub(crate) fn adopt_record(
        &mut self,
        machine: usize,
        raw: &Raw,
        shard: usize,
    ) -> Option<usize> {
        let now = self.now();
        let report = Report::read(raw).ok()?;
        let owner = self.store.shards[shard].id.clone();
        let adopted = adopt(&report, "p", &owner, now).ok()?;
        let record = Record {
            version: Version(1),
            state: adopted.machine,
            name_ledger: NameLedger::new([adopted.row]),
        };
        let index = self.store.rows.len();
        let entry = Entry::new(now);
        let (tokens, messages) = (BTreeSet::new(), vec![]);
        let reached = 0;
        self.store.rows.push(MachineRow { record, entry, machine, reached, tokens, messages });
        self.reindex(index);
        self.say(|it| {
            format!("row {index} is machine {} of shard {shard}", it.outside.machines[machine].id)
        });
        Some(index)
    }

    /// Updates a row in the index of its shard.
    pub(crate) fn reindex(&mut self, index: usize) {
        let machine = self.store.rows[index].record.state.clone();
        let seen = match self.base.breakage {
            Some(breakage) => breakage.bend_index(&machine),
            None => Some(machine),
        };
        let slot = Slot(u32::try_from(index).unwrap_or(u32::MAX));
        let owner = self.store.owner(index);
        self.store.shards[owner].fleet.apply(slot, seen.as_ref());
    }

    /// The settings of a machine's reconciler in simulated time.
    pub(crate) fn reconciler(&self) -> MachineReconciler {
        let deadline = if self.is_broken(Breakage::NoRedrive) { 1 << 30 } else { 100 };
        let deadlines = Deadlines {
            create: millis(deadline),
            configure: millis(deadline),
            drain: millis(deadline),
            delete: millis(deadline),
            failed: millis(40),
            released: millis(10),
        };
        MachineReconciler { interval: millis(INTERVAL), deadlines }
    }
}

/// How long idle machines are kept in simulated time.
pub const WINDOWS: Windows =
    Windows { on_demand: Duration::from_secs(1), spot: Duration::from_secs(1) };

/// The name of a cluster.
pub fn cluster(number: usize) -> ClusterId {
    format!("c{number}").parse().unwrap_or_else(|_| unreachable!("a fixed and valid name"))
}
