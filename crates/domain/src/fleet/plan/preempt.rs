//! Inversions: a need of higher priority takes machines from needs of lower priority, and first
//! those that no need claims.
//!
//! A victim is aimed at the need it was taken for, at once. From then on it is credited to that
//! need, so that no second victim is chosen while the first is still being drained.

use std::time::Duration;

use super::cycle::{Cycle, Lack, stage};
use super::lot::{Place, Stage};
use super::reclaim::gate;
use super::report::Outcome;
use super::{Cause, Goal};
use crate::fleet::binding::Assignment;

/// The grace of a victim by how much higher the priority of the other need is.
const GRACES: [(i64, Duration); 3] = [
    (900_000, Duration::from_secs(10)),
    (500_000, Duration::from_secs(30)),
    (100_000, Duration::from_mins(2)),
];
/// The grace of a victim of a need of little higher priority.
const GRACE: Duration = Duration::from_mins(10);
/// What the ease of an interruption, or of a reclamation, counts beside the priority.
const EASE: f64 = 0.1;
/// The smallest penalty that makes a difference, in dollars.
const PENALTY_MIN: f64 = 0.01;

/// A lot of nodes that may be taken.
struct Victim {
    burden: f64,
    priority: i32,
    lot: u32,
    /// Whether its cluster has reported all that it needs, so that what no need claims is surplus.
    believed: bool,
}

/// Which machines of a lot may be taken.
#[derive(Clone, Copy)]
enum Use {
    /// Those that no need claims.
    Unclaimed,
    /// Those that needs of lower priority claim, too.
    Any,
}

impl Cycle<'_> {
    /// Takes from needs of lower priority what those of higher priority lack.
    pub(super) fn preempt(&mut self, lacks: Vec<Lack>) {
        if lacks.is_empty() {
            return;
        }
        let mut victims = self.victims();
        for mut lack in lacks {
            for use_of in [Use::Unclaimed, Use::Any] {
                self.take(&victims, &mut lack, use_of);
            }
            victims.retain(|it| self.takeable(it.lot) > 0);
            if lack.open.is_empty() {
                self.needs[lack.report].outcome = Outcome::Preempting;
            }
        }
    }

    /// Takes what a need lacks from victims in this use.
    fn take(&mut self, victims: &[Victim], lack: &mut Lack, use_of: Use) {
        let need = &self.fleet.by_cluster[lack.cluster as usize].needs[lack.need as usize];
        for Victim { burden, priority, lot, believed } in victims {
            if lack.open.is_empty() || *burden >= f64::from(lack.priority) {
                break;
            }
            let most = match use_of {
                Use::Unclaimed if *believed => self.left(*lot),
                Use::Unclaimed => 0,
                Use::Any => self.takeable(*lot),
            };
            if *priority >= lack.priority || most == 0 || !self.fits(need, *lot) {
                continue;
            }
            let count = self.cover(*lot, most, &mut lack.open);
            let gap = i64::from(lack.priority) - i64::from(*priority);
            let aim = (Goal::Bind(need.tie), grace(gap));
            self.aim_back(*lot, count, aim, Cause::Preempt);
        }
    }

    /// Every lot of nodes, the one that is taken first in front. The sequence is the same for every
    /// need, because its own priority adds the same to each score.
    fn victims(&self) -> Vec<Victim> {
        let fleet = self.fleet;
        let mut victims = Vec::new();
        for (number, lot) in (0_u32..).zip(&fleet.lots) {
            let Place::Serving { tie, .. } = lot.place else { continue };
            let nodes = stage(lot.place) == Some(Stage::Configured)
                && !lot.machines.is_empty()
                && fleet.shapes[lot.shape as usize].is_read;
            let Some(binding) = fleet.binding(tie).filter(|_| nodes) else { continue };
            let cluster = &fleet.by_cluster[fleet.ties[tie as usize].cluster as usize];
            victims.push(Victim {
                burden: burden(&binding.assignment),
                priority: binding.assignment.priority,
                lot: number,
                believed: gate(cluster, true).is_none(),
            });
        }
        victims.sort_by(|one, other| {
            one.burden.total_cmp(&other.burden).then_with(|| fleet.compare(one.lot, other.lot))
        });
        victims
    }
}

/// The cost of taking a machine from this need: its priority, less an ease that shrinks with its
/// penalties. Never more than its priority.
fn burden(assignment: &Assignment) -> f64 {
    let ease = |penalty: f64| EASE / penalty.max(PENALTY_MIN);
    f64::from(assignment.priority)
        - ease(assignment.interruption_penalty.get())
        - ease(assignment.reclamation_penalty.get())
}

fn grace(gap: i64) -> Duration {
    GRACES.iter().find(|(least, _)| gap > *least).map_or(GRACE, |(_, grace)| *grace)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::money::Penalty;

    // Requirement: F-27
    #[test]
    fn the_wider_the_gap_the_shorter_the_grace() {
        let cases = [
            (1, 600),
            (100_000, 600),
            (100_001, 120),
            (500_001, 30),
            (900_001, 10),
            (i64::from(i32::MAX) - i64::from(i32::MIN), 10),
        ];
        for (gap, seconds) in cases {
            assert_eq!(grace(gap).as_secs(), seconds, "{gap}");
        }
    }

    // Requirement: F-27
    #[test]
    fn of_equal_priority_the_cheaper_to_lose_is_taken_first() {
        let of = |priority, bucket| Assignment {
            priority,
            interruption_penalty: Penalty::of_bucket(bucket).unwrap(),
            ..Assignment::default()
        };
        assert!(burden(&of(5, 0)) < burden(&of(5, 9)));
        assert!(burden(&of(5, 27)) <= 5.0, "the score of a pinned need is its priority");
        assert!(burden(&of(i32::MIN, 0)) < burden(&of(i32::MAX, 0)));
    }
}
