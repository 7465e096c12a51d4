//! What one seed decides before a run begins.

use usher_domain::fleet::phase::Phase;
use usher_domain::fleet::verdict::EffectKind;

use crate::base::Course;
use crate::clock::{FAULTS_END, Tick};
use crate::fault::Mix;
use crate::fleet::fault::Fault;
use crate::injected_fault::{self, InjectedFault};
use crate::rng::Rng;

/// A pair of the transition table: a verb and the phase it leads to.
pub type Pair = (Phase, EffectKind);

/// Every pair that occurs in the transition table.
pub const PAIRS: [Pair; 5] = [
    (Phase::Creating, EffectKind::Create),
    (Phase::Configuring, EffectKind::Configure),
    (Phase::Draining, EffectKind::Drain),
    (Phase::Deleting, EffectKind::Delete),
    (Phase::Failed, EffectKind::Salvage),
];

/// What a machine is and how its provider treats it.
#[derive(Clone, Copy, Debug)]
pub struct Slot {
    /// Which offer it is: 0 on demand, 1 spot, 2 reserved.
    pub kind: u8,
    /// Whether its provider works on it after the answer.
    pub staged: bool,
    /// The shard that knows it from the beginning.
    pub owner: usize,
    /// Whether its host exists from the beginning.
    pub idle: bool,
    /// Whether its provider cannot release it once it has failed.
    pub never_salvages: bool,
}

/// One need of a cluster: its priority, the machines it needs, and the offer it insists on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Asks {
    /// Its priority.
    pub priority: i32,
    /// How many machines it needs.
    pub machines: u32,
    /// The offer it insists on.
    pub kind: Option<u8>,
}

/// A change of a cluster's demand.
#[derive(Clone, Debug)]
pub struct Demand {
    /// When.
    pub at: Tick,
    /// Whose.
    pub cluster: usize,
    /// What it needs from then on.
    pub needs: Vec<Asks>,
}

/// A resource that holds a machine for a while.
#[derive(Clone, Copy, Debug)]
pub struct Hold {
    /// When it takes one.
    pub at: Tick,
    /// When it releases it.
    pub until: Option<Tick>,
}

/// What a seed puts into the world.
#[derive(Clone, Debug, Default)]
pub struct Population {
    /// How many shards there are.
    pub shards: usize,
    /// How many clusters there are.
    pub clusters: usize,
    /// The machines.
    pub slots: Vec<Slot>,
    /// How demand goes up and down.
    pub demands: Vec<Demand>,
    /// Who holds machines.
    pub holds: Vec<Hold>,
}

/// What one seed decides.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What is put into the world.
    pub population: Population,
    /// What every world draws.
    pub course: Course,
}

impl Plan {
    /// The plan of a seed.
    pub fn draw(seed: u64, rng: &mut Rng) -> Self {
        let target = injected_fault::target(seed, PAIRS.len());
        let mut mix = Mix::draw::<Fault>(rng);
        if PAIRS[target.0].0 == Phase::Failed {
            mix = mix.and(Fault::Terminal).and(Fault::HostLost);
        }
        let population = Population::draw(rng);
        // A verb that comes late is done only if it was not done meanwhile.
        let alone = target.1 == InjectedFault::LateDriver && rng.percent(50);
        let drivers = if alone { 1 } else { 2 + usize::from(rng.percent(40)) };
        let faults_end = rng.between(100, FAULTS_END);
        Self { population, course: Course { drivers, mix, target, faults_end } }
    }
}

impl Population {
    fn draw(rng: &mut Rng) -> Self {
        let shards = 1 + usize::from(rng.percent(30));
        let clusters = shards + usize::from(rng.percent(60));
        // Now and then a fleet is large enough for shares of it to matter.
        let count = if rng.percent(10) { 24 + rng.below(20) } else { 3 + rng.below(6) };
        let staged = rng.below(101);
        let slots: Vec<Slot> = (0..count)
            .map(|_| Slot {
                kind: rng.pick(&[0, 0, 1, 2]),
                staged: rng.percent(staged),
                owner: rng.index(shards),
                idle: rng.percent(40),
                never_salvages: rng.percent(20),
            })
            .collect();
        let mut demands: Vec<Demand> = (0..clusters)
            .flat_map(|cluster| {
                let changes = 1 + rng.below(4);
                let first = (0..changes).map(|_| Demand::draw(rng, cluster, count));
                first.collect::<Vec<_>>()
            })
            .collect();
        demands.sort_by_key(|it| it.at);
        let holds = (0..rng.below(3)).map(|_| Hold::draw(rng)).collect();
        Self { shards, clusters, slots, demands, holds }
    }
}

impl Demand {
    fn draw(rng: &mut Rng, cluster: usize, machines: u64) -> Self {
        // Many small needs make a roll-up of which the better part can vanish.
        let many = rng.percent(20);
        let rows = if many { 10 + rng.below(4) } else { rng.below(4) };
        let most = if many { 1 } else { machines / 2 };
        let needs = (0..rows)
            .map(|row| Asks {
                priority: rng.pick(&[1, 100, 1_000, 1_000_000]) + i32::try_from(row).unwrap_or(0),
                machines: 1 + u32::try_from(rng.below(most.max(1))).unwrap_or(0),
                kind: rng.percent(25).then(|| u8::try_from(rng.below(3)).unwrap_or(0)),
            })
            .collect();
        Self { at: rng.between(0, 380), cluster, needs }
    }
}

impl Hold {
    fn draw(rng: &mut Rng) -> Self {
        let at = rng.between(0, 200);
        let until = rng.percent(60).then(|| at + rng.between(20, 200));
        Self { at, until }
    }
}
