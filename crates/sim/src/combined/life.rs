//! One seed, one life in all worlds.

use std::cell::RefCell;

use crate::base::Wrong;
use crate::clock::{GIVE_UP, Tick};
use crate::combined::breakage::Breakage;
use crate::combined::couple::{Ties, Worlds};
use crate::coverage::{Coverage, Names};
use crate::fleet::plan::{Asks, Demand, Population, Slot};
use crate::life::{Stage, Verdict};
use crate::realm::Realm;
use crate::rng::Rng;
use crate::{broker, direct, fleet, usage};

/// The world's name.
pub const NAME: &str = "combined";

/// What does not happen to a part of an XR: the namespace of a project is protected while it has
/// resources, and nobody but the composer writes declarations.
const NOT_IN_USAGE: [usage::fault::Fault; 7] = [
    usage::fault::Fault::UsageDeleted,
    usage::fault::Fault::NamespaceDeleted,
    usage::fault::Fault::Edited,
    usage::fault::Fault::Recreated,
    usage::fault::Fault::Restored,
    usage::fault::Fault::OwnersChanged,
    usage::fault::Fault::Circle,
];
/// The same for the direct resources, and what only a person can put right: a name that somebody
/// else has, and a record that is lost.
const NOT_IN_DIRECT: [direct::fault::Fault; 11] = [
    direct::fault::Fault::Copied,
    direct::fault::Fault::Replaced,
    direct::fault::Fault::NameTaken,
    direct::fault::Fault::OtherInstallation,
    direct::fault::Fault::LedgerLost,
    direct::fault::Fault::RecordLost,
    direct::fault::Fault::StampMalformed,
    direct::fault::Fault::NamespaceDeleted,
    direct::fault::Fault::SameIdentity,
    direct::fault::Fault::IdentityEdited,
    direct::fault::Fault::ConfigMissing,
];

/// What the worlds can meet.
pub fn names() -> Names {
    let mut names = Names::default();
    names.beside::<broker::state::State>();
    names.beside::<usage::state::State>();
    names.beside::<direct::state::State>();
    names.beside::<fleet::state::State>();
    names
}

/// Lives the life of a seed in all worlds.
pub fn live(seed: u64, breakage: Option<Breakage>, listen: bool) -> Verdict {
    let worlds = Worlds {
        broker: RefCell::new(brokers(seed, breakage, listen)),
        usage: RefCell::new(usages(seed, breakage, listen)),
        direct: RefCell::new(directs(seed, breakage, listen)),
        fleet: RefCell::new(fleets(seed, breakage, listen)),
        breakage,
    };
    run(&worlds, &mut Ties::new(Rng::new(seed ^ 0xC0)));
    verdict(&worlds)
}

fn run(worlds: &Worlds, ties: &mut Ties) {
    let mut broker = Stage::new(&worlds.broker);
    let mut usage = Stage::new(&worlds.usage);
    let mut direct = Stage::new(&worlds.direct);
    let mut fleet = Stage::new(&worlds.fleet);
    for tick in 0..GIVE_UP {
        broker.turn(tick);
        usage.turn(tick);
        direct.turn(tick);
        fleet.turn(tick);
        ties.couple(worlds, tick);
        let resting = broker.is_at_rest()
            && usage.is_at_rest()
            && direct.is_at_rest()
            && fleet.is_at_rest()
            && !ties.is_restless(worlds);
        if resting || first_wrong(worlds).is_some() {
            break;
        }
    }
    if first_wrong(worlds).is_none() {
        usage.close();
        direct.close();
        fleet.close();
        broker.close();
    }
}

/// The broker's world, whose parts have lives behind them.
fn brokers(seed: u64, breakage: Option<Breakage>, listen: bool) -> broker::state::State {
    let breakage = breakage.and_then(Breakage::of_broker);
    let mut state = broker::state::State::new(seed, breakage, listen);
    state.outside.managed = true;
    for wishes in &mut state.wishes {
        wishes.parts = 3;
    }
    state
}

/// A world of Usages in which nothing is of its own.
fn usages(seed: u64, breakage: Option<Breakage>, listen: bool) -> usage::state::State {
    let mut rng = Rng::new(seed ^ 0xA1);
    let mut plan = usage::plan::Plan::draw(seed, &mut rng);
    plan.wanted.clear();
    plan.declared.clear();
    plan.teardown = false;
    for fault in NOT_IN_USAGE {
        plan.course.mix = plan.course.mix.without(fault);
    }
    usage::state::State::peopled(rng, plan, breakage.and_then(Breakage::of_usage), listen)
}

/// A cloud in which nothing is of its own but a neighbour.
fn directs(seed: u64, breakage: Option<Breakage>, listen: bool) -> direct::state::State {
    let mut rng = Rng::new(seed ^ 0xB2);
    let mut course = direct::plan::Plan::draw(seed, &mut rng).course;
    for fault in NOT_IN_DIRECT {
        course.mix = course.mix.without(fault);
    }
    let mut state = direct::state::State::empty(rng, course, listen);
    state.breakage = breakage.and_then(Breakage::of_direct);
    state.populate();
    state
}

/// A fleet with machines for every resource and for a cluster that has needs of its own.
fn fleets(seed: u64, breakage: Option<Breakage>, listen: bool) -> fleet::state::State {
    let mut rng = Rng::new(seed ^ 0xC3);
    let course = fleet::plan::Plan::draw(seed, &mut rng).course;
    let slots = (0..10)
        .map(|_| Slot {
            kind: 0,
            staged: rng.percent(70),
            owner: 0,
            idle: rng.percent(40),
            stubborn: false,
        })
        .collect();
    let mut demand = |at: Tick, machines| {
        let priority = [100, 1_000_000][usize::from(rng.percent(50))];
        Demand { at, cluster: 0, needs: vec![Asks { priority, machines, kind: None }] }
    };
    let demands = vec![demand(5, 2), demand(120, 3), demand(300, 1)];
    let population = Population { shards: 1, clusters: 1, slots, demands, holds: vec![] };
    let breakage = breakage.and_then(Breakage::of_fleet);
    let mut state = fleet::state::State::empty(rng, course, (breakage, listen));
    state.settle_in(population);
    state
}

fn first_wrong(worlds: &Worlds) -> Option<Wrong> {
    let Worlds { broker, usage, direct, fleet, .. } = worlds;
    let broker = broker.borrow().base.wrong.clone();
    broker
        .or_else(|| usage.borrow().base.wrong.clone())
        .or_else(|| direct.borrow().base.wrong.clone())
        .or_else(|| fleet.borrow().base.wrong.clone())
}

fn verdict(worlds: &Worlds) -> Verdict {
    let mut told = Told::default();
    told.add(&*worlds.broker.borrow());
    told.add(&*worlds.usage.borrow());
    told.add(&*worlds.direct.borrow());
    told.add(&*worlds.fleet.borrow());
    told.story.sort_by_key(|it| it.0);
    Verdict {
        wrong: first_wrong(worlds),
        coverage: told.coverage,
        story: told.story.into_iter().map(|it| it.1).collect(),
    }
}

/// What the worlds tell of one life.
#[derive(Default)]
struct Told {
    names: Names,
    coverage: Coverage,
    story: Vec<(Tick, String)>,
}

impl Told {
    fn add<R: Realm>(&mut self, state: &R) {
        self.coverage.beside(&self.names, &state.base().coverage);
        self.names.beside::<R>();
        for line in state.base().story.iter().flatten() {
            let (tick, rest) = line.split_at(5);
            let at = tick.trim().parse().unwrap_or(Tick::MAX);
            self.story.push((at, format!("{tick}  {:<7}{rest}", R::NAME)));
        }
    }
}
