//! The machine as a lifecycle of the kernel: facts in, names out.

use std::time::Duration;

use usher_kernel::{Decision, Lifecycle, Record, Timestamp, Wake};

use super::aggregate::{Deadlines, Machine, State};
use super::effect::{Effect, Verb};
use super::event::{Event, EventType};
use super::facts::Reported;
use super::merge::{Merged, merge};
use super::observe::Observed;
use super::phase::Phase;
use super::reason::Reason;
use super::verdict::{EffectKind, EventKind, Rest, Verdict};

/// The life of a machine, with its figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Life {
    /// The longest rest in a passing phase.
    pub interval: Duration,
    /// How long each passing phase may last before its order is given again.
    pub deadlines: Deadlines,
}

impl Default for Life {
    fn default() -> Self {
        Self { interval: Duration::from_secs(30), deadlines: Deadlines::default() }
    }
}

impl Lifecycle for Life {
    type State = Machine;
    type Observed = Observed;
    type Effect = Effect;
    type Event = Event;
    type Reason = Reason;

    fn decide(&self, record: &Record<Machine>, seen: &Observed, now: Timestamp) -> Decision<Self> {
        let machine = &record.state;
        let Merged { next, verdict } = merge(machine, seen, &self.deadlines, now);
        // Whoever comes back under the name of a machine that is gone is another machine.
        let ended = machine.phase() == Phase::Gone;
        Decision {
            rows: if ended { vec![] } else { record.book.absorb(&seen.sightings) },
            effect: verdict.effect.and_then(|kind| address(kind, machine)),
            event: verdict.event.map(|kind| told(kind, machine, &next)),
            wake: self.wake(verdict, &next, seen, now),
            next,
            reason: verdict.reason,
        }
    }
}

impl Life {
    /// A look that missed something does not count as rest.
    fn wake(&self, verdict: Verdict, next: &Machine, seen: &Observed, now: Timestamp) -> Wake {
        let poll = Wake::At(now.after(self.interval));
        match verdict.rest {
            Rest::Now => Wake::Now,
            Rest::Poll => poll,
            Rest::Deadline => {
                Wake::At(next.deadline(&self.deadlines).after(Duration::from_millis(1)))
            }
            Rest::OnChange if seen.facts.report == Reported::Unknown => poll,
            Rest::OnChange => Wake::OnChange,
            Rest::Never => Wake::Never,
        }
    }
}

/// Gives a verb its names, with the token that an earlier step recorded.
fn address(kind: EffectKind, machine: &Machine) -> Option<Effect> {
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
    Some(Effect { machine: machine.id().clone(), token: machine.fields().token, verb })
}

fn told(kind: EventKind, before: &Machine, after: &Machine) -> Event {
    let bound = after.state().binding().or_else(|| before.state().binding());
    let error = match after.state() {
        State::Failed { error, .. } => Some(error.clone()),
        State::Speculative
        | State::Creating
        | State::Idle { .. }
        | State::Configuring { .. }
        | State::Configured { .. }
        | State::Draining { .. }
        | State::Deleting { .. }
        | State::Gone => None,
    };
    Event {
        kind: match kind {
            EventKind::Moved => EventType::Moved,
            EventKind::Disputed => EventType::Disputed,
            EventKind::Settled => EventType::Settled,
            EventKind::Gone => EventType::Gone,
        },
        from: before.phase(),
        to: after.phase(),
        cluster: bound.map(|it| it.cluster.clone()),
        error,
    }
}

#[cfg(test)]
mod tests;
