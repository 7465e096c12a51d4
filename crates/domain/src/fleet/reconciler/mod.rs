//! The machine as a lifecycle of the kernel: facts in, names out.

use std::time::Duration;

use usher_kernel::{NameLedger, Reconciled, Reconciler, Record, Timers, Timestamp};

use super::aggregate::{Deadlines, Machine};
use super::effect::{Effect, Verb};
use super::event::{Event, EventType};
use super::merge::{Merged, merge};
use super::observe::Observed;
use super::phase::Phase;
use super::reason::Reason;
use super::verdict::{EffectKind, EventKind, RecordChange};

/// The reconciler of a machine, with its configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MachineReconciler {
    /// The longest requeue delay in a passing phase.
    pub interval: Duration,
    /// How long each passing phase may last before its command is repeated.
    pub deadlines: Deadlines,
}

impl Default for MachineReconciler {
    fn default() -> Self {
        Self { interval: Duration::from_secs(30), deadlines: Deadlines::default() }
    }
}

impl Reconciler for MachineReconciler {
    type State = Machine;
    type Observed = Observed;
    type Effect = Effect;
    type Event = Event;
    type Reason = Reason;
    type Phase = Phase;
    type Change = RecordChange;
    type EffectKind = EffectKind;
    type EventKind = EventKind;

    fn reconcile(
        &self,
        record: &Record<Machine>,
        _: &NameLedger,
        seen: &Observed,
        now: Timestamp,
    ) -> Reconciled<Self> {
        let Merged { next, verdict } = merge(&record.state, seen, &self.deadlines, now);
        Reconciled { verdict, next, rows: vec![] }
    }

    fn address(
        &self,
        kind: EffectKind,
        record: &Record<Machine>,
        _: (&Machine, &NameLedger),
        _: &Observed,
    ) -> Option<Effect> {
        let machine = &record.state;
        let verb = match kind {
            EffectKind::Create => Verb::Create,
            EffectKind::Configure => {
                let binding = machine.state().binding()?;
                let metadata = binding.assignment.encode();
                Verb::Configure { cluster: binding.cluster.clone(), metadata }
            }
            EffectKind::Drain => Verb::Drain { grace: machine.wanted().grace },
            EffectKind::Delete => Verb::Delete,
            EffectKind::Salvage => Verb::Salvage,
        };
        // The token is the one that an earlier step recorded.
        Some(Effect { machine: machine.id().clone(), token: machine.fields().token, verb })
    }

    fn event(
        &self,
        kind: EventKind,
        before: &Machine,
        next: &Machine,
        _: &Observed,
    ) -> Option<Event> {
        let bound = next.state().binding().or_else(|| before.state().binding());
        Some(Event {
            kind: match kind {
                EventKind::Moved => EventType::Moved,
                EventKind::Disputed => EventType::Disputed,
                EventKind::Settled => EventType::Settled,
                EventKind::Gone => EventType::Gone,
            },
            from: before.phase(),
            to: next.phase(),
            cluster: bound.map(|it| it.cluster.clone()),
            error: next.state().error().map(str::to_owned),
        })
    }

    /// A phase is overdue after its deadline, not at it.
    fn timers(&self, next: &Machine, _: &Observed) -> Timers {
        let overdue = next.deadline(&self.deadlines).after(Duration::from_millis(1));
        Timers { interval: self.interval, deadline: Some(overdue), ..Timers::default() }
    }
}

#[cfg(test)]
mod tests;
