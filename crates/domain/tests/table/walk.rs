//! The walk over every cell: which rows match it, and whether the rules answer as they say.
//!
//! The list of rows that can still match is narrowed fact by fact, the most selective fact first,
//! so that the innermost loops visit one or two rows.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::SHOWN;
use crate::parse::{Answer, Table};
use crate::shape::{Machine, Outcome};

/// What is wrong with a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// No row matches it.
    Unmatched,
    /// Several rows match it.
    Ambiguous,
    /// The rules answer otherwise than its row.
    Different,
    /// The rules' answer breaks a law.
    Unlawful,
}

impl Kind {
    /// Every kind, in order.
    pub(crate) const ALL: [Self; 4] =
        [Self::Unmatched, Self::Ambiguous, Self::Different, Self::Unlawful];
}

/// A cell with which something is wrong.
#[derive(Clone, Debug)]
pub(crate) struct Finding {
    /// What is wrong.
    pub(crate) kind: Kind,
    /// The value of each fact.
    pub(crate) cell: Vec<usize>,
    /// The rows that match.
    pub(crate) rows: Vec<usize>,
    /// What the rules answer.
    pub(crate) outcome: Outcome,
    /// The law that is broken.
    pub(crate) law: Option<&'static str>,
}

/// What a walk found.
#[derive(Default)]
pub(crate) struct Findings {
    /// How many cells were walked.
    pub(crate) cells: u64,
    /// How many cells are wrong, by kind.
    pub(crate) counts: [u64; Kind::ALL.len()],
    /// The first of each kind, without those that say the same.
    pub(crate) shown: Vec<Finding>,
}

impl Findings {
    /// How much is wrong.
    pub(crate) fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Those shown of one kind.
    pub(crate) fn of(&self, kind: Kind) -> impl Iterator<Item = &Finding> {
        self.shown.iter().filter(move |finding| finding.kind == kind)
    }

    fn add(&mut self, finding: Finding) {
        self.counts[finding.kind as usize] += 1;
        self.show(finding);
    }

    /// Keeps it, unless there are enough or one that says the same is already there.
    fn show(&mut self, finding: Finding) {
        let reported = |other: &Finding| {
            (&other.rows, other.outcome, other.law) == (&finding.rows, finding.outcome, finding.law)
        };
        if self.of(finding.kind).count() < SHOWN && !self.of(finding.kind).any(reported) {
            self.shown.push(finding);
        }
    }

    fn merge(&mut self, other: Self) {
        self.cells += other.cells;
        for (count, more) in self.counts.iter_mut().zip(other.counts) {
            *count += more;
        }
        for finding in other.shown {
            self.show(finding);
        }
    }
}

/// Walks every cell, on all cores.
pub(crate) fn all<C: Copy + Send + Sync>(machine: &Machine<C>, table: &Table) -> Findings {
    let walk = Walk::new(machine, table, machine.shape.everything(), false);
    let parts = walk.parts();
    let next = AtomicUsize::new(0);
    let threads = std::thread::available_parallelism().map_or(2, NonZeroUsize::get).max(2);
    let mut found: Vec<(usize, Findings)> = std::thread::scope(|scope| {
        let work = || {
            let take = || parts.get(next.fetch_add(1, Ordering::Relaxed)).cloned();
            std::iter::from_fn(take).map(|scope| (scope.0, walk.within(scope.1))).collect()
        };
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let joined = running.into_iter().map(std::thread::ScopedJoinHandle::join);
        joined.flat_map(|part: std::thread::Result<Vec<_>>| part.unwrap_or_default()).collect()
    });
    found.sort_by_key(|(part, _)| *part);
    found.into_iter().fold(Findings::default(), |mut sum, (_, part)| {
        sum.merge(part);
        sum
    })
}

/// The first wrong cell within a box of cells.
pub(crate) fn first<C: Copy>(
    machine: &Machine<C>,
    table: &Table,
    scope: Vec<u32>,
) -> Option<Finding> {
    let walk = Walk::new(machine, table, scope, true);
    walk.within(walk.scope.clone()).shown.into_iter().next()
}

/// A box of a row, as the walk needs it.
struct Candidate<'a> {
    row: usize,
    answer: &'a Answer,
}

struct Walk<'a, C> {
    machine: &'a Machine<C>,
    scope: Vec<u32>,
    first_only: bool,
    /// The facts in the order in which they are walked.
    order: Vec<usize>,
    candidates: Vec<Candidate<'a>>,
    /// The sets of values: for each fact those of each candidate.
    masks: Vec<Vec<u32>>,
}

/// The position of a walk.
struct Position<C> {
    scope: Vec<u32>,
    values: Vec<usize>,
    cell: C,
    found: Findings,
}

impl<'a, C: Copy> Walk<'a, C> {
    fn new(machine: &'a Machine<C>, table: &'a Table, scope: Vec<u32>, first_only: bool) -> Self {
        let facts = &machine.shape.facts;
        let mut candidates = Vec::new();
        let mut masks = vec![Vec::new(); facts.len()];
        for (row, content) in table.rows.iter().enumerate() {
            for sets in &content.boxes {
                candidates.push(Candidate { row, answer: &content.answer });
                for (column, set) in masks.iter_mut().zip(sets) {
                    column.push(*set);
                }
            }
        }
        let specificity = |fact: &usize| {
            masks[*fact].iter().filter(|set| **set != facts[*fact].everything()).count()
        };
        let mut order: Vec<usize> = (0..facts.len()).collect();
        order.sort_by_key(|fact| std::cmp::Reverse(specificity(fact)));
        Self { machine, scope, first_only, order, candidates, masks }
    }

    /// The whole scope in parts, one for each pair of values of the first two facts walked.
    fn parts(&self) -> Vec<(usize, Vec<u32>)> {
        let mut parts = vec![self.scope.clone()];
        for &fact in self.order.iter().take(2) {
            let split = |part: Vec<u32>| {
                let values = (0..u32::BITS).filter(|value| part[fact] >> value & 1 == 1);
                let one = |value| {
                    let mut one = part.clone();
                    one[fact] = 1_u32 << value;
                    one
                };
                values.map(one).collect::<Vec<_>>()
            };
            parts = parts.into_iter().flat_map(split).collect();
        }
        parts.into_iter().enumerate().collect()
    }

    /// Walks one box of cells.
    fn within(&self, scope: Vec<u32>) -> Findings {
        let mut at = Position {
            scope,
            values: vec![0; self.order.len()],
            cell: self.machine.start,
            found: Findings::default(),
        };
        let every: Vec<usize> = (0..self.candidates.len()).collect();
        let mut lists = vec![Vec::new(); self.order.len()];
        self.descend(&self.order, &every, &mut lists, &mut at);
        at.found
    }

    /// Puts each value of the next fact, with the candidates that allow it.
    fn descend(
        &self,
        order: &[usize],
        candidates: &[usize],
        lists: &mut [Vec<usize>],
        at: &mut Position<C>,
    ) {
        let (Some((&fact, order)), Some((list, lists))) =
            (order.split_first(), lists.split_first_mut())
        else {
            return self.snapshot(candidates, at);
        };
        let masks = &self.masks[fact];
        let put = self.machine.puts[fact];
        let everything = self.machine.shape.facts[fact].everything();
        let narrows = candidates.iter().any(|at| masks[*at] != everything);
        for value in 0..self.machine.shape.facts[fact].words.len() {
            if at.scope[fact] & (1 << value) == 0 {
                continue;
            }
            if self.first_only && !at.found.shown.is_empty() {
                return;
            }
            at.values[fact] = value;
            put(&mut at.cell, value);
            if narrows {
                list.clear();
                list.extend(candidates.iter().filter(|at| masks[**at] & (1 << value) != 0));
                self.descend(order, list, lists, at);
            } else {
                self.descend(order, candidates, lists, at);
            }
        }
    }

    /// Compares one cell.
    fn snapshot(&self, candidates: &[usize], at: &mut Position<C>) {
        at.found.cells += 1;
        let evaluated = (self.machine.evaluate)(&at.cell);
        let wrong = match candidates {
            [only] if self.candidates[*only].answer.at(&at.values) == evaluated.outcome => None,
            [_] => Some(Kind::Different),
            [] => Some(Kind::Unmatched),
            [_, _, ..] => Some(Kind::Ambiguous),
        };
        let unlawful = evaluated.broken.map(|_| Kind::Unlawful);
        for kind in [wrong, unlawful].into_iter().flatten() {
            at.found.add(Finding {
                kind,
                cell: at.values.clone(),
                rows: candidates.iter().map(|at| self.candidates[*at].row).collect(),
                outcome: evaluated.outcome,
                law: evaluated.broken,
            });
        }
    }
}
