//! Inversions: a need that weighs more takes machines from needs that weigh less.
//!
//! A victim is aimed at the need it was taken for, at once. From then on it is credited to that
//! need, so that no second victim is looked for while the first is still leaving.

use std::time::Duration;

use super::cycle::{Cycle, Lack, stage};
use super::lot::{Place, Stage};
use super::report::Outcome;
use super::{Cause, Goal};
use crate::fleet::binding::Assignment;

/// The grace of a victim by how much the other need weighs more.
const GRACES: [(i64, Duration); 3] = [
    (900_000, Duration::from_secs(10)),
    (500_000, Duration::from_secs(30)),
    (100_000, Duration::from_mins(2)),
];
/// The grace of a victim of a need that weighs little more.
const GRACE: Duration = Duration::from_mins(10);
/// What the ease of an interruption, or of a reclamation, counts beside the weight.
const EASE: f64 = 0.1;
/// The smallest penalty that makes a difference, in dollars.
const PENALTY_MIN: f64 = 0.01;

impl Cycle<'_> {
    /// Takes from the lightest what the weightiest lack.
    pub(super) fn preempt(&mut self, lacks: Vec<Lack>) {
        let fleet = self.fleet;
        if lacks.is_empty() {
            return;
        }
        let mut victims = self.victims();
        for mut lack in lacks {
            let need = &fleet.by_cluster[lack.cluster as usize].needs[lack.need as usize];
            for (burden, priority, lot) in &victims {
                if lack.open.is_empty() || *burden >= f64::from(lack.priority) {
                    break;
                }
                let most = self.robbable(*lot);
                if *priority >= lack.priority || most == 0 || !self.fits(need, *lot) {
                    continue;
                }
                let count = self.cover(*lot, most, &mut lack.open);
                let gap = i64::from(lack.priority) - i64::from(*priority);
                let aim = (Goal::Bind(need.tie), grace(gap));
                self.aim_back(*lot, count, aim, Cause::Preempt);
            }
            victims.retain(|it| self.robbable(it.2) > 0);
            if lack.open.is_empty() {
                self.needs[lack.report].outcome = Outcome::Preempting;
            }
        }
    }

    /// Every lot of nodes, the one that is taken first in front. The order is the same for every
    /// need, because what a need weighs itself adds the same to each score.
    fn victims(&self) -> Vec<(f64, i32, u32)> {
        let fleet = self.fleet;
        let mut victims = Vec::new();
        for (number, lot) in (0_u32..).zip(&fleet.lots) {
            let Place::Serving { tie, .. } = lot.place else { continue };
            let nodes = stage(lot.place) == Some(Stage::Configured) && !lot.machines.is_empty();
            let Some(binding) = fleet.binding(tie).filter(|_| nodes) else { continue };
            victims.push((burden(&binding.assignment), binding.assignment.priority, number));
        }
        victims.sort_by(|one, other| {
            one.0.total_cmp(&other.0).then_with(|| fleet.compare(one.2, other.2))
        });
        victims
    }
}

/// How much there is to be said against taking a machine from this need: its weight, less what its
/// penalties leave of an ease. Never more than its weight.
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

    #[test]
    fn of_equal_weight_the_cheaper_to_lose_goes_first() {
        let of = |priority, bucket| Assignment {
            priority,
            interruption_penalty: Penalty::of_bucket(bucket).unwrap(),
            ..Assignment::default()
        };
        assert!(burden(&of(5, 0)) < burden(&of(5, 9)));
        assert!(burden(&of(5, 27)) <= 5.0, "what is pinned is not worth more than its weight");
        assert!(burden(&of(i32::MIN, 0)) < burden(&of(i32::MAX, 0)));
    }
}
