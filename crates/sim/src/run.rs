//! Runs of many lives: progress, coverage, and the command that replays what went wrong.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use crate::breakage::Breakage;
use crate::check::Wrong;
use crate::coverage::Coverage;
use crate::life::live;

/// Below this many lives coverage is told but does not fail a run.
pub const COVERAGE_COUNTS_FROM: u64 = 5_000;
/// How many lives a breakage may survive before it counts as survived.
pub const BREAKAGE_LIVES: u64 = 20_000;
/// How many wrong lives are told one by one.
const TOLD_MAX: usize = 20;
/// How many lives a thread takes at a time.
const SHARE: u64 = 250;

/// What many lives met.
#[derive(Default)]
struct Sum {
    coverage: Coverage,
    wrong: Vec<(u64, Wrong)>,
}

/// Lives many lives; `false` if one went wrong or too little was met.
pub fn many(world: &str, from: u64, lives: u64, out: &mut impl io::Write) -> io::Result<bool> {
    let mut sum = gather(from, lives);
    sum.wrong.sort_by_key(|it| it.0);
    write!(out, "{}", sum.coverage.table(lives))?;
    writeln!(out, "{} steps, {} verbs", sum.coverage.steps, sum.coverage.verbs)?;
    for (seed, wrong) in sum.wrong.iter().take(TOLD_MAX) {
        writeln!(out, "seed {seed}: {}: {}", wrong.checker.as_str(), wrong.what)?;
        writeln!(out, "  cargo xtask sim --world {world} --seed {seed} --trace")?;
    }
    let gaps = sum.coverage.gaps(lives);
    let counts = lives >= COVERAGE_COUNTS_FROM;
    if gaps.is_empty() {
        writeln!(out, "coverage: every pair met every strike, every fault occurred")?;
    } else {
        let weight = if counts { "" } else { " (too few lives to count)" };
        writeln!(out, "coverage: met too rarely{weight}:")?;
        for gap in &gaps {
            writeln!(out, "  {gap}")?;
        }
    }
    writeln!(out, "{lives} lives, {} wrong", sum.wrong.len())?;
    Ok(sum.wrong.is_empty() && (gaps.is_empty() || !counts))
}

/// Lives one life; tells its story if asked.
pub fn one(seed: u64, trace: bool, out: &mut impl io::Write) -> io::Result<bool> {
    let verdict = live(seed, None, trace);
    for line in &verdict.story {
        writeln!(out, "{line}")?;
    }
    match &verdict.wrong {
        Some(wrong) => writeln!(out, "seed {seed}: {}: {}", wrong.checker.as_str(), wrong.what)?,
        None => writeln!(out, "seed {seed} ended as wished")?,
    }
    Ok(verdict.wrong.is_none())
}

/// Breaks every rule in turn; `false` if one breakage survives.
pub fn breakages(out: &mut impl io::Write) -> io::Result<bool> {
    let mut survived = 0;
    for breakage in Breakage::ALL {
        match catch(*breakage) {
            Some((seed, wrong)) => {
                let (name, by) = (breakage.as_str(), wrong.checker.as_str());
                writeln!(out, "{name:<32} caught by {by:<24} seed {seed}: {}", wrong.what)?;
            }
            None => {
                survived += 1;
                writeln!(out, "{:<32} SURVIVED {BREAKAGE_LIVES} lives", breakage.as_str())?;
            }
        }
    }
    let caught = Breakage::ALL.len() - survived;
    writeln!(out, "{caught} caught, {survived} survived")?;
    Ok(survived == 0)
}

/// The first life in which somebody notices the breakage.
pub fn catch(breakage: Breakage) -> Option<(u64, Wrong)> {
    (0..BREAKAGE_LIVES)
        .find_map(|seed| live(seed, Some(breakage), false).wrong.map(|wrong| (seed, wrong)))
}

fn gather(from: u64, lives: u64) -> Sum {
    let next = AtomicU64::new(from);
    let end = from + lives;
    let sum = Mutex::new(Sum::default());
    let threads = thread::available_parallelism().map_or(1, std::num::NonZero::get);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let mut mine = Sum::default();
                loop {
                    let first = next.fetch_add(SHARE, Ordering::Relaxed);
                    if first >= end {
                        break;
                    }
                    for seed in first..end.min(first + SHARE) {
                        let verdict = live(seed, None, false);
                        mine.coverage.add(&verdict.coverage);
                        mine.wrong.extend(verdict.wrong.map(|wrong| (seed, wrong)));
                    }
                }
                let mut sum = sum.lock().unwrap_or_else(PoisonError::into_inner);
                sum.coverage.merge(&mine.coverage);
                sum.wrong.extend(mine.wrong);
            });
        }
    });
    sum.into_inner().unwrap_or_else(PoisonError::into_inner)
}
