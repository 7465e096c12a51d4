//! Runs of many seeds: progress, coverage, and the command that replays what went wrong.

use std::io;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use crate::base::Wrong;
use crate::combined;
use crate::combined::breakage::Breakage as Combined;
use crate::coverage::{Coverage, Names};
use crate::scenario::{Verdict, run_seed};
use crate::sim_world::SimWorld;
use crate::words::Words as _;

/// Below this many seeds coverage is printed but does not fail a run.
pub const COVERAGE_COUNTS_FROM: u64 = 5_000;
/// How many seeds a breakage may survive before it counts as survived.
pub const BREAKAGE_SEEDS: u64 = 20_000;
/// How many failed seeds are printed one by one.
const PRINTED_MAX: usize = 20;
/// How many seeds a thread takes at a time.
pub const SHARE: u64 = 250;

/// What many seeds met.
#[derive(Default)]
struct Sum {
    coverage: Coverage,
    wrong: Vec<(u64, Wrong)>,
}

/// A simulated world: its name, and how a seed of it is run.
#[derive(Clone, Copy, Debug)]
pub struct World {
    /// Its name.
    pub name: &'static str,
    run_seed: fn(u64, Option<usize>, bool) -> Verdict,
    names: fn() -> Names,
    breakages: fn() -> Vec<&'static str>,
}

impl World {
    /// The entry of a [`SimWorld`].
    pub const fn of<R: SimWorld>() -> Self {
        Self {
            name: R::NAME,
            run_seed: |seed, breakage, listen| {
                let breakage = breakage.and_then(|place| R::Breakage::ALL.get(place).copied());
                run_seed::<R>(seed, breakage, listen)
            },
            names: Names::of::<R>,
            breakages: || R::Breakage::ALL.iter().map(|it| it.as_str()).collect(),
        }
    }

    /// All worlds at once.
    const fn combined() -> Self {
        Self {
            name: combined::scenario::NAME,
            run_seed: |seed, breakage, listen| {
                let breakage = breakage.and_then(|place| Combined::ALL.get(place).copied());
                combined::scenario::run_seed(seed, breakage, listen)
            },
            names: combined::scenario::names,
            breakages: || Combined::ALL.iter().map(|it| it.as_str()).collect(),
        }
    }

    /// The world with this name.
    pub fn named(name: &str) -> Option<Self> {
        WORLDS.into_iter().find(|it| it.name == name)
    }
}

/// Every world.
pub const WORLDS: [World; 5] = [
    World::of::<crate::broker::state::State>(),
    World::of::<crate::usage::state::State>(),
    World::of::<crate::direct::state::State>(),
    World::of::<crate::fleet::state::State>(),
    World::combined(),
];

/// Which seeds to run.
#[derive(Clone, Copy, Debug)]
pub struct Range {
    /// The world they run in.
    pub world: World,
    /// The first seed.
    pub from: u64,
    /// How many.
    pub runs: u64,
}

/// Runs many seeds; `false` if one went wrong or too little was met. `progress` is called now and
/// then with how many have run.
pub fn many(
    range: Range,
    progress: &(impl Fn(u64) + Sync),
    out: &mut impl io::Write,
) -> io::Result<bool> {
    let Range { world, runs, .. } = range;
    let names = (world.names)();
    let mut sum = gather(range, progress);
    sum.wrong.sort_by_key(|it| it.0);
    write!(out, "{}", sum.coverage.table(&names, runs))?;
    writeln!(out, "{} steps, {} verbs", sum.coverage.steps, sum.coverage.verbs)?;
    for (seed, wrong) in sum.wrong.iter().take(PRINTED_MAX) {
        writeln!(out, "seed {seed}: {}: {}", wrong.checker, wrong.what)?;
        writeln!(out, "  cargo xtask sim --world {} --seed {seed} --trace", world.name)?;
    }
    let gaps = sum.coverage.gaps(&names, runs);
    let counts = runs >= COVERAGE_COUNTS_FROM;
    if gaps.is_empty() {
        writeln!(out, "coverage: every pair met every injected fault, every fault occurred")?;
    } else {
        let weight = if counts { "" } else { " (too few seeds to count)" };
        writeln!(out, "coverage: met too rarely{weight}:")?;
        for gap in &gaps {
            writeln!(out, "  {gap}")?;
        }
    }
    writeln!(out, "{}: {runs} seeds, {} wrong", world.name, sum.wrong.len())?;
    Ok(sum.wrong.is_empty() && (gaps.is_empty() || !counts))
}

/// Runs one seed; prints its trace if requested.
pub fn one(world: World, seed: u64, trace: bool, out: &mut impl io::Write) -> io::Result<bool> {
    let verdict = (world.run_seed)(seed, None, trace);
    for line in &verdict.story {
        writeln!(out, "{line}")?;
    }
    match &verdict.wrong {
        Some(wrong) => writeln!(out, "seed {seed}: {}: {}", wrong.checker, wrong.what)?,
        None => writeln!(out, "seed {seed} ended as wished")?,
    }
    Ok(verdict.wrong.is_none())
}

/// Breaks every rule of a world in turn; `false` if one breakage survives.
pub fn breakages(world: World, out: &mut impl io::Write) -> io::Result<bool> {
    let names = (world.breakages)();
    let mut survived = 0;
    for (name, caught) in names.iter().zip(all_caught(world, names.len())) {
        if let Some((seed, wrong)) = caught {
            let Wrong { checker, what } = wrong;
            writeln!(out, "{name:<32} caught by {checker:<24} seed {seed}: {what}")?;
        } else {
            survived += 1;
            writeln!(out, "{name:<32} SURVIVED {BREAKAGE_SEEDS} seeds")?;
        }
    }
    let caught = names.len() - survived;
    writeln!(out, "{}: {caught} caught, {survived} survived", world.name)?;
    Ok(survived == 0)
}

/// The first seed in which a checker notices the breakage.
pub fn catch<R: SimWorld>(breakage: R::Breakage) -> Option<(u64, Wrong)> {
    first_caught(World::of::<R>(), breakage.index())
}

/// What notices each breakage, in their order.
fn all_caught(world: World, breakages: usize) -> Vec<Option<(u64, Wrong)>> {
    let next = AtomicUsize::new(0);
    let caught = Mutex::new(vec![None; breakages]);
    thread::scope(|scope| {
        for _ in 0..threads() {
            scope.spawn(|| {
                loop {
                    let place = next.fetch_add(1, Ordering::Relaxed);
                    if place >= breakages {
                        break;
                    }
                    let found = first_caught(world, place);
                    caught.lock().unwrap_or_else(PoisonError::into_inner)[place] = found;
                }
            });
        }
    });
    caught.into_inner().unwrap_or_else(PoisonError::into_inner)
}

fn threads() -> usize {
    thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

fn first_caught(world: World, breakage: usize) -> Option<(u64, Wrong)> {
    let wrong = |seed| (world.run_seed)(seed, Some(breakage), false).wrong;
    (0..BREAKAGE_SEEDS).find_map(|seed| wrong(seed).map(|wrong| (seed, wrong)))
}

fn gather(range: Range, progress: &(impl Fn(u64) + Sync)) -> Sum {
    let Range { world, from, runs } = range;
    let next = AtomicU64::new(from);
    let end = from + runs;
    let sum = Mutex::new(Sum::default());
    let done = AtomicU64::new(0);
    thread::scope(|scope| {
        for _ in 0..threads() {
            scope.spawn(|| {
                let mut mine = Sum::default();
                loop {
                    let first = next.fetch_add(SHARE, Ordering::Relaxed);
                    if first >= end {
                        break;
                    }
                    for seed in first..end.min(first + SHARE) {
                        let verdict = (world.run_seed)(seed, None, false);
                        mine.coverage.add(&verdict.coverage);
                        mine.wrong.extend(verdict.wrong.map(|wrong| (seed, wrong)));
                    }
                    progress(done.fetch_add(SHARE, Ordering::Relaxed) + SHARE);
                }
                let mut sum = sum.lock().unwrap_or_else(PoisonError::into_inner);
                sum.coverage.merge(&mine.coverage);
                sum.wrong.extend(mine.wrong);
            });
        }
    });
    sum.into_inner().unwrap_or_else(PoisonError::into_inner)
}
