//! What is still in progress, and what must hold when nothing is.

use usher_domain::fleet::aggregate::Target;
use usher_domain::fleet::binding::Binding;
use usher_domain::fleet::phase::Phase;
use usher_domain::fleet::plan::Need;

use crate::clock::{LEASE, Tick};
use crate::fleet::check::Checker;
use crate::fleet::cycle::need;
use crate::fleet::outside::ELSEWHERE;
use crate::fleet::plan::Asks;
use crate::fleet::state::{State, cluster};
use crate::fleet::store::List;
use crate::sim_world::{EveryWorld, SimWorld as _};

/// How long a wish takes until every shard has received it and planned.
const HEARING: Tick = 60;

impl State {
    /// What is still in progress: the first that is found.
    pub(crate) fn on_its_way(&self) -> Vec<&'static str> {
        let tick = self.base.tick;
        let wished = || {
            let holds = self.population.holds.iter().any(|it| tick <= it.at);
            let held = self.holders.iter().any(|it| it.until.is_some_and(|until| tick <= until));
            holds || held || self.population.demands.iter().any(|it| tick <= it.at + HEARING)
        };
        let work = || self.outside.machines.iter().any(|it| it.ends_at.is_some() && !it.removed);
        let in_fault_phase = |it: &List| it.begun <= self.base.course.faults_end;
        let first = if wished() {
            Some("a wish")
        } else if !self.base.echoes.is_empty() {
            Some("a request")
        } else if work() {
            Some("work of the provider")
        } else if self.store.rows.iter().any(|it| !it.messages.is_empty()) {
            Some("a message")
        } else if self.store.shards.iter().filter_map(|it| it.list.as_ref()).any(in_fault_phase) {
            Some("a list")
        } else if self.store.shards.iter().any(|it| !it.aims.is_empty()) {
            Some("an aim")
        } else if self.unfinished().is_some() {
            Some("a row")
        } else if self.disagreement().is_some() {
            Some("a machine")
        } else {
            self.unmet().map(|_| "a need")
        };
        first.into_iter().collect()
    }

    /// What must hold once the world is idle.
    pub(crate) fn check_at_rest(&mut self) {
        if let Some(what) = self.disagreement() {
            self.wrong(Checker::NoOrphans, what);
        }
        if let Some(what) = self.unfinished().or_else(|| self.unmet()) {
            self.wrong(EveryWorld::EndsAsWished, what);
        }
        if self.base.tick - self.last_deed < LEASE {
            let what = "something is sent or written although all is done".to_owned();
            self.wrong(Checker::QuietAtRest, what);
        }
        self.check_events();
    }

    /// The events of a row are one chain from its first phase to its last.
    fn check_events(&mut self) {
        for row in 0..self.store.rows.len() {
            let emitted = self.store.events.iter().filter(|it| it.row == row);
            let emitted: Vec<_> = emitted.map(|it| (it.event.from, it.event.to)).collect();
            let chained = emitted.windows(2).all(|pair| pair[0].1 == pair[1].0);
            let last = emitted.last().map(|it| it.1);
            let phase = self.store.rows[row].record.state.phase();
            if !chained || last.is_some_and(|it| it != phase) {
                let what = format!("the events of row {row} lead elsewhere than to {phase}");
                self.wrong(Checker::OneEventPerCrossing, what);
            }
        }
    }

    /// A machine and its row that say different things, or a machine without a row.
    fn disagreement(&self) -> Option<String> {
        for (number, actual) in self.outside.machines.iter().enumerate() {
            let rows = self.store.rows.iter().filter(|it| it.machine == number);
            let live = rows.filter(|it| it.record.state.phase() != Phase::Gone);
            let live: Vec<_> = live.map(|it| &it.record.state).collect();
            match live.as_slice() {
                [] if !actual.removed => return Some(format!("{} has no row", actual.id)),
                [one] if !actual.removed => {
                    let offer = &one.fields().offer;
                    let known = offer.known().map(|it| it.price.get());
                    let same = known.is_some_and(|it| (it - actual.price).abs() < 1e-9);
                    if offer.is_read() != actual.price.is_finite() || offer.is_read() && !same {
                        return Some(format!("{} has another price", actual.id));
                    }
                    let bound = one.state().binding().map_or("", |it| it.cluster.as_str());
                    if (one.phase(), bound) != (actual.phase, actual.cluster.as_str()) {
                        return Some(format!(
                            "{} is {} and not {}",
                            actual.id,
                            actual.phase,
                            one.phase()
                        ));
                    }
                }
                [] => {}
                [_, ..] => return Some(format!("{} is removed, or has two rows", actual.id)),
            }
        }
        None
    }

    /// A row that has not reached its target.
    fn unfinished(&self) -> Option<String> {
        for (index, row) in self.store.rows.iter().enumerate() {
            let it = &row.record.state;
            let fields = it.fields();
            let kept = self.outside.machines[row.machine].kind == 2 || fields.holder.is_some();
            let done = match (it.phase(), &fields.wanted.target) {
                (Phase::Gone, _) | (Phase::Speculative, Target::Unbound | Target::Release) => true,
                (Phase::Idle, Target::Unbound) => kept,
                (Phase::Configured, Target::Bind(binding)) => {
                    it.state().binding().is_some_and(|it| it.cluster == binding.cluster)
                }
                (
                    Phase::Speculative
                    | Phase::Creating
                    | Phase::Idle
                    | Phase::Configuring
                    | Phase::Configured
                    | Phase::Draining
                    | Phase::Deleting
                    | Phase::Failed,
                    _,
                ) => false,
            };
            if !done || fields.disputed.is_some() {
                return Some(format!("row {index} is {} for good", it.phase()));
            }
        }
        None
    }

    /// A need that lacks what could be had, or a node that no need asks for.
    fn unmet(&self) -> Option<String> {
        for (number, needs) in self.demand.iter().enumerate() {
            let shard = number % self.store.shards.len().max(1);
            let owner = &self.store.shards[shard].id;
            for asks in needs {
                let binding = self.bindings.get(&(number, *asks))?;
                let serving = self.serving(binding);
                let lacking = self.needed(binding) > serving;
                let could = self.store.rows.iter().any(|row| {
                    let it = &row.record.state;
                    let fields = it.fields();
                    let kind = self.outside.machines[row.machine].kind;
                    let free = matches!(it.phase(), Phase::Speculative | Phase::Idle)
                        && !matches!(fields.wanted.target, Target::Bind(_));
                    let lower = it.phase() == Phase::Configured
                        && it
                            .state()
                            .binding()
                            .is_some_and(|it| it.assignment.priority < asks.priority);
                    fields.owner == *owner
                        && fields.holder.is_none()
                        && fields.offer.is_read()
                        && asks.kind.is_none_or(|it| it == kind)
                        && (free || lower)
                });
                if lacking && could {
                    return Some(format!("cluster {number} lacks what could be had for {asks:?}"));
                }
            }
        }
        let surplus = self.store.rows.iter().enumerate().find(|(_, row)| {
            let it = &row.record.state;
            // A cluster that another client binds machines to is not known.
            let known = |it: &&Binding| it.cluster.as_str() != ELSEWHERE;
            let bound = it.state().binding().filter(known);
            let bound = bound.filter(|_| it.fields().holder.is_none());
            bound.is_some_and(|it| self.serving(it) > self.needed(it))
        });
        surplus.map(|(row, _)| format!("row {row} serves a need that no cluster has"))
    }

    fn serving(&self, binding: &Binding) -> usize {
        let serves = |it: &&crate::fleet::store::MachineRow| {
            let fields = it.record.state.fields();
            fields.holder.is_none()
                && fields.state.phase() != Phase::Gone
                && fields.wanted.target == Target::Bind(binding.clone())
        };
        self.store.rows.iter().filter(serves).count()
    }

    /// How many machines the needs with this binding ask for, as far as their shard knows.
    pub(crate) fn needed(&self, binding: &Binding) -> usize {
        let reading = self
            .roll_ups
            .iter()
            .flat_map(|(number, it)| it.accepted.iter().map(move |asks| (*number, *asks)));
        let asked =
            reading.filter(|(number, asks)| self.bindings.get(&(*number, *asks)) == Some(binding));
        asked.map(|(_, asks)| asks.machines as usize).sum()
    }
}

/// What a machine that serves such a need is configured with.
pub(crate) fn binding_of(number: usize, asks: Asks) -> Option<Binding> {
    let assignment = Need::read(&need(asks)).ok()?.assignment;
    Some(Binding { cluster: cluster(number), assignment })
}
