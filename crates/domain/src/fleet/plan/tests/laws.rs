//! What holds of every plan.

use std::collections::BTreeSet;

use proptest::prelude::*;
use proptest::sample::select;

use super::*;

fn any_machine() -> impl Strategy<Value = Machine> {
    let phases = vec![Phase::Speculative, Phase::Idle, Phase::Creating, Phase::Failed];
    let free = (select(vec!["small", "large", "spot"]), select(phases))
        .prop_map(|(kind, phase)| machine(kind, phase));
    let kinds = select(vec!["small", "large", "spot"]);
    let bound = (kinds, select(vec!["a", "b", "c"]), 0..4_i32)
        .prop_map(|(kind, name, priority)| node(kind, name, &need(priority, 4)));
    let odd = (bound.clone(), 0..3_u8).prop_map(|(it, odd)| match odd {
        0 => it.changed(|it| it.holder = Some(resource(1))),
        1 => it.changed(|it| it.disputed = Some(dispute("x"))),
        _ => it.aimed(Wanted::of(Target::Unbound)),
    });
    prop_oneof![4 => free, 4 => bound, 1 => odd]
}

fn any_needs() -> impl Strategy<Value = Vec<Need>> {
    let kinds = select(vec![vec![], vec!["small"], vec!["large", "spot"]]);
    let one = (0..4_i32, 1..30_u32, kinds, 0..8_i32);
    prop::collection::vec(one, 0..4).prop_map(|needs| {
        needs
            .into_iter()
            .map(|(priority, cpu, kinds, bucket)| need_of(priority, cpu, &kinds, bucket))
            .collect()
    })
}

fn any_rows() -> impl Strategy<Value = Rows> {
    let needs = prop::collection::btree_map(select(vec!["a", "b", "c"]), any_needs(), 0..=3);
    (prop::collection::vec(any_machine(), 0..40), needs).prop_map(|(machines, needs)| {
        let mut rows = Rows::new(machines);
        for (name, needs) in needs {
            rows.hear(name, needs);
        }
        rows
    })
}

/// How often each cause occurs, and the state of each need.
fn summary(plan: &Plan) -> (BTreeMap<Cause, usize>, Vec<Outcome>) {
    let mut causes = BTreeMap::new();
    for aim in &plan.aims {
        *causes.entry(aim.cause).or_insert(0) += 1;
    }
    (causes, outcomes(plan))
}

proptest! {
    // Requirement: F-22
    #[test]
    fn no_machine_is_aimed_at_twice_or_out_of_reach(rows in any_rows()) {
        let plan = rows.plan();
        let slots: BTreeSet<u32> = plan.aims.iter().map(|it| it.slot.0).collect();
        prop_assert_eq!(slots.len(), plan.aims.len());
        for aim in &plan.aims {
            let fields = rows.rows[aim.slot.0 as usize].fields();
            prop_assert!(fields.holder.is_none() && fields.disputed.is_none());
            prop_assert!(fields.state.phase() != Phase::Failed);
            let reclaims = matches!(aim.cause, Cause::Preempt | Cause::Reclaim);
            let bound = fields.state.phase().is_bound();
            prop_assert_eq!(reclaims, bound && aim.cause != Cause::Reassign);
        }
    }

    // Requirement: F-24
    #[test]
    fn a_plan_that_was_written_takes_no_other_machine(rows in any_rows()) {
        let mut rows = rows;
        let first = rows.plan();
        rows.write(&first);
        let again = rows.plan();
        // A need that lost a machine may in turn need another; a need that took one does not. What
        // changes its need within a cluster can be taken only by the next plan.
        let assigned = first.report.needs.iter().zip(&again.report.needs).filter(|(one, _)| {
            matches!(one.outcome, Outcome::Assigned | Outcome::Preempting | Outcome::InFlight)
        });
        let moved = |it: &&Aim| matches!(it.cause, Cause::Preempt | Cause::Reassign);
        let taken = first.aims.iter().filter(moved).count();
        for (_, other) in assigned {
            let lacks = !matches!(other.outcome, Outcome::InFlight | Outcome::Satisfied);
            prop_assert!(!lacks || taken > 0, "{other:?}");
        }
        if taken == 0 {
            prop_assert_eq!(slots(&again, Cause::Assign), [0_u32; 0]);
            prop_assert_eq!(slots(&again, Cause::Preempt), [0_u32; 0]);
            prop_assert_eq!(slots(&again, Cause::Reassign), [0_u32; 0]);
        }
    }

    // Requirement: F-25
    #[test]
    fn victims_never_exceed_what_was_lacking(rows in any_rows()) {
        let plan = rows.plan();
        // Every machine has four processors, so that a need never lacks a fraction of one.
        let mut victims: BTreeMap<u32, u32> = BTreeMap::new();
        for aim in plan.aims.iter().filter(|it| it.cause == Cause::Preempt) {
            let Goal::Bind(tie) = aim.goal else { panic!("a victim is taken for a need") };
            *victims.entry(tie).or_default() += 1;
        }
        for (tie, count) in victims {
            let needs = rows.fleet.by_cluster.iter().flat_map(|it| &it.needs);
            let needed: u64 = needs.filter(|it| it.tie == tie)
                .map(|it| Quantity::units(4).pieces(it.amounts[0].1).unwrap())
                .sum();
            let serving: usize = rows.fleet.ties[tie as usize].lots.iter()
                .map(|it| rows.fleet.lots[*it as usize].machines.len()).sum();
            prop_assert!(u64::from(count) + u64::try_from(serving).unwrap() <= needed);
        }
    }

    // Requirement: F-27
    #[test]
    fn no_machine_in_use_is_taken_while_an_unclaimed_one_fits(rows in any_rows()) {
        let fleet = &rows.fleet;
        let mut cycle = Cycle::new(fleet);
        let lacks = cycle.credit();
        let lacks = cycle.acquire(lacks);
        let lots = u32::try_from(fleet.lots.len()).unwrap();
        let mut unclaimed: Vec<u32> = (0..lots).map(|it| cycle.left(it)).collect();
        let first = cycle.aims.len();
        cycle.preempt(lacks);
        let lot_of = |slot: u32| {
            let found = (0..lots).find(|it| fleet.lots[*it as usize].machines.contains(&slot));
            found.unwrap()
        };
        let priority = |lot: u32| match fleet.lots[lot as usize].place {
            Place::Serving { tie, stage: Stage::Configured } => {
                let cluster = &fleet.by_cluster[fleet.ties[tie as usize].cluster as usize];
                let binding = fleet.binding(tie).filter(|_| cluster.trust.is_answered());
                binding.map(|it| it.assignment.priority)
            }
            Place::Serving { .. } | Place::Idle | Place::Speculative => None,
        };
        for aim in &cycle.aims[first..] {
            let lot = lot_of(aim.slot.0);
            let in_use = priority(lot).is_none() || unclaimed[lot as usize] == 0;
            unclaimed[lot as usize] = unclaimed[lot as usize].saturating_sub(1);
            let Goal::Bind(tie) = aim.goal else { panic!("a victim is taken for a need") };
            let mut needs = fleet.by_cluster.iter().flat_map(|it| &it.needs);
            let taker = needs.find(|it| it.tie == tie).unwrap();
            let better = (0..lots).find(|it| {
                priority(*it).is_some_and(|it| it < taker.priority)
                    && cycle.left(*it) > 0
                    && cycle.fits(taker, *it)
            });
            let better = better.map(|it| &fleet.lots[it as usize]);
            prop_assert!(!in_use || better.is_none(), "{better:?} stays");
        }
    }

    // Requirement: F-34
    #[test]
    fn an_index_that_followed_every_change_plans_like_a_new_one(
        rows in any_rows(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any_machine()), 0..40),
        needs in any_needs(),
    ) {
        let mut rows = rows;
        for (index, machine) in changes {
            if !rows.rows.is_empty() {
                let slot = index.index(rows.rows.len());
                rows.change(u32::try_from(slot).unwrap(), machine);
            }
        }
        let mut fresh = Rows::new(rows.rows.clone());
        for name in ["a", "b", "c"] {
            rows.hear(name, needs.clone());
            fresh.hear(name, needs.clone());
        }
        let (one, other) = (rows.plan(), fresh.plan());
        let sorted = |plan: &Plan| {
            let (causes, mut outcomes) = summary(plan);
            outcomes.sort_unstable();
            (causes, outcomes)
        };
        prop_assert_eq!(rows.fleet.machines(), fresh.fleet.machines());
        prop_assert_eq!(sorted(&one), sorted(&other));
    }

    // Requirement: F-30
    #[test]
    fn no_more_is_reclaimed_than_the_cap_allows(rows in any_rows()) {
        let plan = rows.plan();
        for report in &plan.report.clusters {
            let of = |it: &&Machine| {
                it.phase() == Phase::Configured && it.wanted().cluster() == Some(&report.cluster)
            };
            let leaves = |it: &&Machine| {
                let fields = it.fields();
                fields.holder.is_none()
                    && fields.disputed.is_none()
                    && it.wanted().cluster().is_none()
                    && it.state().binding().is_some_and(|it| it.cluster == report.cluster)
                    && it.phase() == Phase::Configured
            };
            let nodes = rows.rows.iter().filter(of).count();
            let leaving = rows.rows.iter().filter(leaves).count();
            let cap = RUN.config.reclaim_cap(u32::try_from(nodes + leaving).unwrap());
            let out = report.reclaimed + u32::try_from(leaving).unwrap();
            prop_assert!(report.reclaimed == 0 || out <= cap);
        }
    }
}
