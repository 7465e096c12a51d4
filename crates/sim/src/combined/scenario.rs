//! One seed, one run in all worlds.

use std::cell::RefCell;

use crate::base::Wrong;
use crate::clock::{GIVE_UP, Tick};
use crate::combined::beyond;
use crate::combined::breakage::{Breakage, Broken};
use crate::combined::couple::{Ties, Worlds};
use crate::coverage::{Coverage, Names};
use crate::fleet::plan::{Asks, Demand, Population, Slot};
use crate::rng::Rng;
use crate::scenario::{Scenario, Verdict};
use crate::sim_world::SimWorld;
use crate::{broker, direct, fleet, usage};

/// The world's name.
pub const NAME: &str = "combined";

/// What the worlds can meet.
pub fn names() -> Names {
    let mut names = Names::of_several();
    names.beside::<broker::state::State>(&[]);
    names.beside::<usage::state::State>(&beyond::usage());
    names.beside::<direct::state::State>(&beyond::direct());
    names.beside::<fleet::state::State>(&beyond::fleet());
    names
}

/// Runs a seed in all worlds.
pub fn run_seed(seed: u64, breakage: Option<Breakage>, listen: bool) -> Verdict {
    let broken = breakage.map(Breakage::in_worlds).unwrap_or_default();
    let worlds = Worlds {
        broker: RefCell::new(brokers(seed, broken, listen)),
        usage: RefCell::new(usages(seed, broken, listen)),
        direct: RefCell::new(directs(seed, broken, listen)),
        fleet: RefCell::new(fleets(seed, broken, listen)),
        breakage,
    };
    run(&worlds, &mut Ties::new(Rng::new(seed ^ 0xC0)));
    verdict(&worlds)
}

fn run(worlds: &Worlds, ties: &mut Ties) {
    let mut broker = Scenario::new(&worlds.broker);
    let mut usage = Scenario::new(&worlds.usage);
    let mut direct = Scenario::new(&worlds.direct);
    let mut fleet = Scenario::new(&worlds.fleet);
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
            && !ties.is_restless(worlds, tick);
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

/// The broker's world, whose parts have records behind them.
fn brokers(seed: u64, broken: Broken, listen: bool) -> broker::state::State {
    let mut state = broker::state::State::new(seed, broken.broker, listen);
    beyond::settle::<broker::state::State>(&mut state.base.course, seed, &[]);
    state.outside.managed = true;
    for wishes in &mut state.wishes {
        wishes.parts = 3;
        if state.base.rng.percent(75) {
            wishes.retire_at = wishes.retire_at.map(|at| at + beyond::LONGER);
            wishes.replace_at = wishes.replace_at.map(|at| at + beyond::LONGER);
        }
    }
    state
}

/// A world of Usages in which nothing is of its own.
fn usages(seed: u64, broken: Broken, listen: bool) -> usage::state::State {
    let mut rng = Rng::new(seed ^ 0xA1);
    let mut plan = usage::plan::Plan::draw(seed, &mut rng);
    plan.wanted.clear();
    plan.declared.clear();
    plan.teardown = false;
    beyond::settle::<usage::state::State>(&mut plan.course, seed, &beyond::usage());
    usage::state::State::peopled(rng, plan, broken.usage, listen)
}

/// A cloud in which nothing is of its own but a neighbour.
fn directs(seed: u64, broken: Broken, listen: bool) -> direct::state::State {
    let mut rng = Rng::new(seed ^ 0xB2);
    let mut course = direct::plan::Plan::draw(seed, &mut rng).course;
    beyond::settle::<direct::state::State>(&mut course, seed, &beyond::direct());
    let mut state = direct::state::State::empty(rng, course, listen);
    state.base.breakage = broken.direct;
    state.populate();
    state
}

/// A fleet with machines for every resource and for a cluster that has needs of its own.
fn fleets(seed: u64, broken: Broken, listen: bool) -> fleet::state::State {
    let mut rng = Rng::new(seed ^ 0xC3);
    let mut course = fleet::plan::Plan::draw(seed, &mut rng).course;
    beyond::settle::<fleet::state::State>(&mut course, seed, &beyond::fleet());
    let slots = (0..10)
        .map(|_| Slot {
            kind: 0,
            staged: rng.percent(70),
            owner: 0,
            idle: rng.percent(40),
            never_salvages: false,
        })
        .collect();
    let mut demand = |at: Tick, machines| {
        let priority = [100, 1_000_000][usize::from(rng.percent(50))];
        Demand { at, cluster: 0, needs: vec![Asks { priority, machines, kind: None }] }
    };
    let demands = vec![demand(5, 2), demand(120, 3), demand(300, 1)];
    let population = Population { shards: 1, clusters: 1, slots, demands, holds: vec![] };
    let mut state = fleet::state::State::empty(rng, course, (broken.fleet, listen));
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
    let (names, coverage) = (Names::of_several(), Coverage::default());
    let mut report = Printed { names, coverage, story: vec![] };
    report.add(&*worlds.broker.borrow());
    report.add(&*worlds.usage.borrow());
    report.add(&*worlds.direct.borrow());
    report.add(&*worlds.fleet.borrow());
    report.story.sort_by_key(|it| it.0);
    Verdict {
        wrong: first_wrong(worlds),
        coverage: report.coverage,
        story: report.story.into_iter().map(|it| it.1).collect(),
    }
}

/// What the worlds report of one run.
struct Printed {
    names: Names,
    coverage: Coverage,
    story: Vec<(Tick, String)>,
}

impl Printed {
    fn add<R: SimWorld>(&mut self, state: &R) {
        self.coverage.beside(&self.names, &state.base().coverage);
        self.names.beside::<R>(&[]);
        for line in state.base().story.iter().flatten() {
            let (tick, rest) = line.split_at(5);
            let at = tick.trim().parse().unwrap_or(Tick::MAX);
            self.story.push((at, format!("{tick}  {:<7}{rest}", R::NAME)));
        }
    }
}
