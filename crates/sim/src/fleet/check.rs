//! What must never happen, by name.

use std::collections::BTreeMap;

use usher_domain::fleet::aggregate::{Machine, State as NameState, Target};
use usher_domain::fleet::binding::Binding;
use usher_domain::fleet::event::EventType;
use usher_domain::fleet::facts::CommandState;
use usher_domain::fleet::phase::Phase;
use usher_domain::fleet::plan::{Cause, Plan, Switch};

use crate::fleet::execute::Request;
use crate::fleet::state::State;
use crate::sim_world::SimWorld as _;
use crate::words::words;

words! {
    /// A rule that the world is held to.
    Checker {
        /// A row becomes unbound only when its provider shows the machine unbound.
        // Requirement: F-4
        IdleMeansLeft = "idle-means-left",
        /// Nothing of a binding stays with a machine that has left its cluster.
        // Requirement: F-5
        NothingLeft = "nothing-left-at-idle",
        /// A row follows only what its provider showed after the last verb.
        // Requirement: F-8, F-10
        NoStaleCrossing = "no-stale-crossing",
        /// A row becomes a node only of the cluster that its provider names.
        // Requirement: F-16
        BindingChecked = "binding-checked",
        /// A row fails only if its provider says so.
        // Requirement: F-12
        NotBricked = "not-bricked",
        /// A row is gone only if its machine is.
        // Requirement: F-18, F-19
        GoneMeansGone = "gone-means-gone",
        /// No more machines are taken from others than are lacking.
        // Requirement: F-25
        NoOverPreemption = "no-over-preemption",
        /// No more machines are acquired than are lacking.
        // Requirement: F-24
        NoOverAcquisition = "no-over-acquisition",
        /// A machine that a resource holds is no candidate.
        // Requirement: F-22
        HeldUntouched = "held-untouched",
        /// No more is taken back at once than the cap allows.
        // Requirement: F-30
        CapHonoured = "cap-honoured",
        /// Nothing is taken from a need that was not received, or is not believed.
        // Requirement: F-19, F-31, F-33
        NothingBlindly = "nothing-taken-blindly",
        /// A token is on record before it is used, and tokens only grow.
        // Requirement: F-7, F-11
        TokenBeforeUse = "token-before-use",
        /// Every crossing emits one event.
        // Requirement: F-35
        OneEventPerCrossing = "one-event-per-crossing",
        /// A machine has one owner.
        // Requirement: F-21
        OneOwner = "one-owner",
        /// When idle, rows and provider agree, and no machine lacks its row.
        // Requirement: F-15, F-20
        NoOrphans = "no-orphans",
        /// When idle, nothing is sent and nothing is written.
        // Requirement: F-36
        QuietAtRest = "quiet-at-rest",
    }
}

impl State {
    /// What every verb must respect.
    pub(crate) fn check_verb(&mut self, request: &Request) {
        let row = &self.store.rows[request.row];
        let token = request.effect.token;
        if !row.tokens.contains(&token) {
            let what = format!("row {} used {token:?} before it was recorded", request.row);
            self.wrong(Checker::TokenBeforeUse, what);
        }
        self.check_owner(self.store.rows[request.row].machine);
    }

    fn check_owner(&mut self, machine: usize) {
        let live = |it: &&crate::fleet::store::MachineRow| {
            it.machine == machine && it.record.state.phase() != Phase::Gone
        };
        if self.store.rows.iter().filter(live).count() > 1 {
            self.wrong(Checker::OneOwner, format!("machine {machine} has two rows"));
        }
    }

    /// What every commit of a driver must respect.
    pub(crate) fn check_commit(&mut self, index: usize, before: &Machine, floor: usize) {
        let next = self.store.rows[index].record.state.clone();
        self.check_transition_event(index, before, &next);
        if next.fields().token < before.fields().token {
            let what = format!("row {index} went back to an older token");
            self.wrong(Checker::TokenBeforeUse, what);
        }
        if next.phase() == before.phase() {
            return;
        }
        if !next.phase().is_bound() {
            self.taken_for.remove(&index);
        }
        let kept = matches!(before.phase(), Phase::Configuring | Phase::Idle | Phase::Deleting);
        if let (NameState::Idle { asked: Some(_), .. }, false) = (next.state(), kept) {
            let what = format!("row {index} is idle and keeps its assignment");
            self.wrong(Checker::NothingLeft, what);
        }
        let begins = next.fields().command == CommandState::Recorded;
        if begins && next.phase().origin() == Some(before.phase()) {
            return;
        }
        let floor = floor.max(self.store.rows[index].reached);
        let actual = &self.outside.machines[self.store.rows[index].machine];
        let shown = actual.history.iter().skip(floor).position(|it| it.0 == next.phase());
        self.store.rows[index].reached = floor + shown.unwrap_or(0);
        if let Some((checker, what)) = self.untrue(index, before, &next, floor) {
            let what = format!("row {index}: {} to {}: {what}", before.phase(), next.phase());
            self.wrong(checker, what);
        }
    }

    /// What a crossing claims that the provider never showed since the last verb.
    fn untrue(
        &self,
        index: usize,
        before: &Machine,
        next: &Machine,
        floor: usize,
    ) -> Option<(Checker, &'static str)> {
        let actual = &self.outside.machines[self.store.rows[index].machine];
        let phase = next.phase();
        if phase == Phase::Gone {
            return (!actual.removed).then_some((Checker::GoneMeansGone, "it still exists"));
        }
        let since = actual.history.get(floor..).unwrap_or_default();
        let unbound = since.iter().any(|it| !it.0.is_bound());
        if before.phase().is_bound() && !phase.is_bound() && phase != Phase::Failed && !unbound {
            return Some((Checker::IdleMeansLeft, "it is still bound"));
        }
        let shown = actual.was(floor, phase, None);
        if phase == Phase::Failed && !shown {
            return Some((Checker::NotBricked, "it did not fail"));
        }
        let cluster = next.state().binding().map(|it| it.cluster.as_str());
        if phase.is_bound() && shown && !actual.was(floor, phase, cluster) {
            return Some((Checker::BindingChecked, "it belongs to another cluster"));
        }
        (!shown).then_some((Checker::NoStaleCrossing, "it was not seen there"))
    }

    /// What every write of a driver must emit: its crossing at its version, and nothing else.
    fn check_transition_event(&mut self, index: usize, before: &Machine, next: &Machine) {
        let version = self.store.rows[index].record.version;
        let emitted = self.store.events.iter().rev().take(4);
        let emitted: Vec<_> =
            emitted.filter(|it| it.row == index && it.version == version).collect();
        let moved = before.phase() != next.phase();
        let disputed = before.fields().disputed.is_some() != next.fields().disputed.is_some();
        let fits = |kind: EventType| match kind {
            EventType::Moved | EventType::Gone => moved,
            EventType::Disputed | EventType::Settled => disputed && !moved,
        };
        let well = match emitted.as_slice() {
            [] => !moved && !disputed,
            [one] => {
                let ends = (one.event.from, one.event.to);
                fits(one.event.kind) && ends == (before.phase(), next.phase())
            }
            _ => false,
        };
        if !well {
            let count = emitted.len();
            let what = format!(
                "row {index} emitted {count} events from {} to {}",
                before.phase(),
                next.phase()
            );
            self.wrong(Checker::OneEventPerCrossing, what);
        }
    }

    /// What every plan must respect.
    pub(crate) fn check_plan(&mut self, shard: usize, plan: &Plan, switch: Switch) {
        let stopped = switch != Switch::Run || self.base.tick < self.store.down_until;
        if stopped && !plan.aims.is_empty() {
            let what = format!("shard {shard} acts although it is stopped");
            self.wrong(Checker::NothingBlindly, what);
        }
        let mut reclaimed: BTreeMap<String, u32> = BTreeMap::new();
        let mut given: BTreeMap<Binding, Vec<(Cause, usize)>> = BTreeMap::new();
        for aim in &plan.aims {
            let row = aim.slot.0 as usize;
            let machine = self.store.rows[row].record.state.clone();
            self.check_aim(shard, row, aim.cause);
            let target = self.store.shards[shard].fleet.wanted(aim, &machine);
            let to = target.as_ref().and_then(|it| it.cluster()).cloned();
            let from = machine.state().binding().map(|it| it.cluster.clone());
            let leaves = matches!(machine.phase(), Phase::Configured | Phase::Configuring)
                && from != to
                && from.as_ref() == machine.wanted().cluster();
            if let (true, true, Some(from)) = (leaves, aim.cause != Cause::Preempt, from) {
                *reclaimed.entry(from.to_string()).or_default() += 1;
            }
            let given_to = target.filter(|_| aim.cause != Cause::Return);
            if let Some(Target::Bind(binding)) = given_to.map(|it| it.target) {
                given.entry(binding).or_default().push((aim.cause, row));
            }
        }
        self.check_reclaimed(shard, &reclaimed);
        for (binding, aims) in given {
            self.check_given(shard, &binding, &aims);
        }
    }

    fn check_aim(&mut self, shard: usize, row: usize, cause: Cause) {
        let fields = self.store.rows[row].record.state.fields();
        let held = fields.holder.is_some();
        let takes = matches!(cause, Cause::Preempt | Cause::Reclaim | Cause::Release);
        if held {
            self.wrong(Checker::HeldUntouched, format!("row {row} is held and aimed at"));
        }
        if self.store.owner(row) != shard {
            self.wrong(Checker::OneOwner, format!("shard {shard} aims at row {row} of another"));
        }
        if takes && !self.store.shards[shard].list_believed {
            let what = format!("shard {shard} takes row {row} on a list that it does not believe");
            self.wrong(Checker::NothingBlindly, what);
        }
    }

    fn check_reclaimed(&mut self, shard: usize, reclaimed: &BTreeMap<String, u32>) {
        for (name, count) in reclaimed {
            let of_cluster = |row: &&crate::fleet::store::MachineRow| {
                let it = &row.record.state;
                it.phase() == Phase::Configured
                    && it.fields().holder.is_none()
                    && it.wanted().cluster().is_some_and(|it| it.as_str() == name)
                    && it.fields().owner == self.store.shards[shard].id
            };
            let leaves = |row: &&crate::fleet::store::MachineRow| {
                let it = &row.record.state;
                it.phase().is_bound()
                    && it.fields().holder.is_none()
                    && it.fields().disputed.is_none()
                    && it.wanted().cluster().is_none()
                    && it.state().binding().is_some_and(|it| it.cluster.as_str() == name)
                    && it.fields().owner == self.store.shards[shard].id
            };
            let leaving = self.store.rows.iter().filter(leaves).count();
            let nodes = self.store.rows.iter().filter(of_cluster).count() + leaving;
            let out = *count as usize + leaving;
            if out > (nodes * 5 / 100).max(1) {
                let what = format!("{out} of {nodes} nodes are taken from {name} at once");
                self.wrong(Checker::CapHonoured, what);
            }
            if !self.is_believed(name) {
                let what = format!("{count} nodes are taken from {name}, which is not believed");
                self.wrong(Checker::NothingBlindly, what);
            }
        }
    }

    /// Whether a roll-up of a cluster was received since its shard started, and was plausible.
    /// Machines that were found bound to an unknown cluster are no surplus.
    fn is_believed(&self, name: &str) -> bool {
        let number = name.strip_prefix('c').and_then(|it| it.parse::<usize>().ok());
        number.is_some_and(|it| self.roll_ups.get(&it).is_some_and(|it| it.believed))
    }

    /// A need that a plan serves gets what it lacks and not more, from needs of lower priority.
    fn check_given(&mut self, shard: usize, binding: &Binding, aims: &[(Cause, usize)]) {
        let needed = self.needed(binding);
        let serves = |it: &&crate::fleet::store::MachineRow| {
            let fields = it.record.state.fields();
            fields.owner == self.store.shards[shard].id
                && fields.holder.is_none()
                && fields.disputed.is_none()
                && fields.wanted.target == Target::Bind(binding.clone())
                && !matches!(fields.state.phase(), Phase::Failed | Phase::Gone)
        };
        let serving = self.store.rows.iter().filter(serves).count();
        let leaving = self.taken_for.iter().filter(|(row, taker)| {
            let fields = self.store.rows[**row].record.state.fields();
            *taker == binding && fields.wanted.target == Target::Unbound
        });
        let leaving = leaving.count();
        let serving = serving + leaving;
        let preempts = aims.iter().any(|it| it.0 == Cause::Preempt);
        if serving + aims.len() > needed {
            let checker = if preempts || leaving > 0 {
                Checker::NoOverPreemption
            } else {
                Checker::NoOverAcquisition
            };
            let what = format!(
                "{} has {serving} of {needed} machines and gets {}",
                binding.cluster,
                aims.len()
            );
            self.wrong(checker, what);
        }
        for (_, row) in aims.iter().filter(|it| it.0 == Cause::Preempt) {
            let victim = self.store.rows[*row].record.state.state().binding().cloned();
            let priority = victim.map_or(i32::MIN, |it| it.assignment.priority);
            if priority >= binding.assignment.priority {
                let what = format!("row {row} is taken from a need of priority {priority}");
                self.wrong(Checker::NoOverPreemption, what);
            }
        }
    }
}
