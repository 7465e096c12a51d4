//! One cycle: credit what each need has, give it what is free, and note what it still lacks.
//!
//! Machines of a lot are alike, so they are claimed by number: from the front of the lot by the
//! needs they serve, from its back by the step that preempts them.

use std::cmp::{Ordering, Reverse};
use std::time::Duration;

use super::index::{Fleet, Slot};
use super::lot::{Place, Stage, Wanting};
use super::report::{NeedReport, Outcome};
use super::{Aim, Cause, Goal};
use crate::fleet::quantity::Quantity;

/// What is claimed so far, and what is aimed at.
pub(super) struct Cycle<'a> {
    pub(super) fleet: &'a Fleet,
    /// For each lot how many machines are claimed from its front.
    pub(super) claimed: Vec<u32>,
    /// For each lot how many are taken from its back.
    pub(super) taken: Vec<u32>,
    /// For each lot whether some that are claimed from its front are aimed at another need.
    moved: Vec<bool>,
    pub(super) aims: Vec<Aim>,
    pub(super) needs: Vec<NeedReport>,
}

/// A need that is not covered yet.
pub(super) struct Lack {
    /// Its place in the report.
    pub(super) report: usize,
    pub(super) cluster: u32,
    pub(super) need: u32,
    pub(super) priority: i32,
    pub(super) open: Vec<(u32, Quantity)>,
}

impl<'a> Cycle<'a> {
    pub(super) fn new(fleet: &'a Fleet) -> Self {
        let lots = fleet.lots.len();
        let (claimed, taken) = (vec![0; lots], vec![0; lots]);
        Self { fleet, claimed, taken, moved: vec![false; lots], aims: vec![], needs: vec![] }
    }

    /// Credits every need with what already serves it, and then with what serves no other need of
    /// its cluster. What is left over lacks something.
    pub(super) fn credit(&mut self) -> Vec<Lack> {
        let mut lacks = Vec::new();
        let mut open = Vec::new();
        for (number, cluster) in (0_u32..).zip(&self.fleet.by_cluster) {
            let first = lacks.len();
            for (index, need) in (0_u32..).zip(&cluster.needs) {
                open.clear();
                open.extend_from_slice(&need.amounts);
                let coming = self.credit_own(need, &mut open);
                let met = open.is_empty();
                let outcome = if coming || !met { Outcome::InFlight } else { Outcome::Satisfied };
                let report = NeedReport { cluster: number, need: index, outcome };
                if !met {
                    let (report, priority) = (self.needs.len(), need.priority);
                    let open = open.clone();
                    lacks.push(Lack { report, cluster: number, need: index, priority, open });
                }
                self.needs.push(report);
            }
            if lacks.len() > first {
                let mine = lacks.split_off(first);
                lacks.extend(self.credit_others(number, mine));
            }
        }
        lacks
    }

    /// Claims what was bound for this very need; whether some of it is still in transit.
    fn credit_own(&mut self, need: &Wanting, open: &mut Vec<(u32, Quantity)>) -> bool {
        let fleet = self.fleet;
        let Some(tie) = fleet.ties.get(need.tie as usize) else { return false };
        let mut coming = false;
        let mut claim = |cycle: &mut Self, lot: u32, open: &mut Vec<_>| {
            if !fleet.shapes[fleet.lots[lot as usize].shape as usize].is_known {
                // Its value to its need is unknown: it covers nothing and is not surplus.
                cycle.claimed[lot as usize] += cycle.left(lot);
            } else if cycle.fits(need, lot) && cycle.claim(lot, open) > 0 {
                let stage = stage(fleet.lots[lot as usize].place);
                coming |= stage != Some(Stage::Configured);
            }
        };
        if let [only] = tie.lots.as_slice() {
            claim(self, *only, open);
            return coming;
        }
        let mut lots = tie.lots.clone();
        lots.sort_by(|one, other| self.keep_command(*one, *other));
        for lot in lots {
            claim(self, lot, open);
        }
        coming
    }

    /// Claims for each of these needs whatever its cluster has and no other need claimed.
    fn credit_others(&mut self, cluster: u32, lacks: Vec<Lack>) -> Vec<Lack> {
        let fleet = self.fleet;
        let entry = &fleet.by_cluster[cluster as usize];
        let lots = entry.ties.iter().flat_map(|it| &fleet.ties[*it as usize].lots);
        let mut spare: Vec<u32> = lots.filter(|it| self.left(**it) > 0).copied().collect();
        spare.sort_by(|one, other| self.keep_command(*one, *other));
        let mut open = Vec::new();
        for mut lack in lacks {
            let need = &entry.needs[lack.need as usize];
            for lot in &spare {
                let (left, fits) = (self.left(*lot), self.fits(need, *lot));
                if left == 0 || !fits || lack.open.is_empty() {
                    continue;
                }
                let from = self.claimed[*lot as usize];
                let count = self.claim(*lot, &mut lack.open);
                let cause = Cause::Reassign;
                self.aim_front(*lot, from..from + count, need.tie, cause);
            }
            if lack.open.is_empty() {
                self.needs[lack.report].outcome = Outcome::Assigned;
            } else {
                open.push(lack);
            }
        }
        open
    }

    /// Gives what is free, the need of highest priority first: idle machines before those that
    /// would have to be made, the cheapest first.
    pub(super) fn acquire(&mut self, mut lacks: Vec<Lack>) -> Vec<Lack> {
        let fleet = self.fleet;
        lacks.sort_by_key(|it| {
            let cluster = &fleet.by_cluster[it.cluster as usize].id;
            (Reverse(it.priority), cluster, it.need)
        });
        let mut open = Vec::new();
        for mut lack in lacks {
            let need = &fleet.by_cluster[lack.cluster as usize].needs[lack.need as usize];
            let candidates = &fleet.candidates[need.profile as usize].by_cost;
            for idle in [true, false] {
                for (_, shape) in candidates {
                    if lack.open.is_empty() {
                        break;
                    }
                    let shape = &fleet.shapes[*shape as usize];
                    let lot = if idle { shape.idle } else { shape.speculative };
                    if lot as usize >= fleet.lots.len() || self.left(lot) == 0 {
                        continue;
                    }
                    let from = self.claimed[lot as usize];
                    let count = self.claim(lot, &mut lack.open);
                    self.aim_front(lot, from..from + count, need.tie, Cause::Assign);
                }
            }
            self.needs[lack.report].outcome = if lack.open.is_empty() {
                Outcome::Assigned
            } else if candidates.is_empty() {
                Outcome::NoSuchMachine
            } else {
                Outcome::NoCapacity
            };
            if !lack.open.is_empty() && !candidates.is_empty() {
                open.push(lack);
            }
        }
        open
    }

    /// How many machines of a lot are neither claimed nor taken.
    pub(super) fn left(&self, lot: u32) -> u32 {
        let at = lot as usize;
        let all = u32::try_from(self.fleet.lots[at].machines.len()).unwrap_or(u32::MAX);
        all.saturating_sub(self.claimed[at]).saturating_sub(self.taken[at])
    }

    /// Whether machines of this lot are what a need asks for.
    pub(super) fn fits(&self, need: &Wanting, lot: u32) -> bool {
        let shape = self.fleet.lots[lot as usize].shape;
        self.fleet.candidates[need.profile as usize].has(shape)
    }

    /// Claims machines of a lot from its front until nothing is open that they can cover.
    fn claim(&mut self, lot: u32, open: &mut Vec<(u32, Quantity)>) -> u32 {
        let count = self.cover(lot, self.left(lot), open);
        self.claimed[lot as usize] += count;
        count
    }

    /// How many of so many machines of a lot are needed, and what stays open then. A machine that
    /// covers nothing of what is open is not needed.
    pub(super) fn cover(&self, lot: u32, most: u32, open: &mut Vec<(u32, Quantity)>) -> u32 {
        let amounts = &self.fleet.shapes[self.fleet.lots[lot as usize].shape as usize].amounts;
        let has = |name: u32| {
            let found = amounts.iter().find(|it| it.0 == name);
            found.map_or(Quantity::ZERO, |it| it.1)
        };
        let pieces = open.iter().filter_map(|(name, whole)| has(*name).pieces(*whole)).max();
        let count = pieces.map_or(0, |it| u32::try_from(it).unwrap_or(u32::MAX).min(most));
        if count > 0 {
            for (name, whole) in open.iter_mut() {
                *whole = whole.less(has(*name).times(u64::from(count)));
            }
            open.retain(|it| !it.1.is_zero());
        }
        count
    }

    /// Nodes before machines in transit, cheap ones first, those that are dear to reclaim first.
    pub(super) fn keep_command(&self, one: u32, other: u32) -> Ordering {
        let order = |lot: u32| {
            let it = &self.fleet.lots[lot as usize];
            let price = self.fleet.shapes[it.shape as usize].price;
            let penalty = match it.place {
                Place::Serving { tie, .. } => self.fleet.binding(tie),
                Place::Idle | Place::Speculative => None,
            };
            let penalty = penalty.map(|it| Reverse(it.assignment.reclamation_penalty));
            (stage(it.place), price, penalty)
        };
        order(one).cmp(&order(other)).then_with(|| self.fleet.compare(one, other))
    }

    fn aim_front(&mut self, lot: u32, range: std::ops::Range<u32>, tie: u32, cause: Cause) {
        let machines = &self.fleet.lots[lot as usize].machines;
        let range = range.start as usize..range.end as usize;
        let slots = machines.get(range).unwrap_or_default();
        let goal = Goal::Bind(tie);
        let aims = slots.iter().map(|it| Aim { slot: Slot(*it), goal, grace: GRACE, cause });
        self.aims.extend(aims);
        self.moved[lot as usize] = true;
    }

    /// How many machines of a lot may be taken although needs of lower priority claimed them.
    pub(super) fn takeable(&self, lot: u32) -> u32 {
        let at = lot as usize;
        if self.moved[at] {
            return self.left(lot);
        }
        let all = u32::try_from(self.fleet.lots[at].machines.len()).unwrap_or(u32::MAX);
        all.saturating_sub(self.taken[at])
    }

    /// Aims at machines from the back of a lot.
    pub(super) fn aim_back(
        &mut self,
        lot: u32,
        count: u32,
        (goal, grace): (Goal, Duration),
        cause: Cause,
    ) {
        let machines = &self.fleet.lots[lot as usize].machines;
        let end = machines.len().saturating_sub(self.taken[lot as usize] as usize);
        let slots = machines.get(end.saturating_sub(count as usize)..end).unwrap_or_default();
        let aims = slots.iter().map(|it| Aim { slot: Slot(*it), goal, grace, cause });
        self.aims.extend(aims);
        self.taken[lot as usize] += count;
    }
}

/// How long the eviction of a machine's pods may take, where no need is in a hurry.
pub(super) const GRACE: Duration = Duration::from_mins(10);

/// How far a serving lot is; nothing for the others.
pub(super) const fn stage(place: Place) -> Option<Stage> {
    match place {
        Place::Idle | Place::Speculative => None,
        Place::Serving { stage, .. } => Some(stage),
    }
}
