//! What is left of a deleted resource: it deletes what a late request creates.
//!
//! A second, tiny reconciler beside the sticky phase `Deleted`. It is requeued without a timer and
//! is woken by a change of anything that carries the resource's label.

mod reason;

use std::convert::Infallible;
use std::time::Duration;

use usher_kernel::{
    NameLedger, Reconciled, Reconciler, Record, Requeue, Timers, Timestamp, Visibility,
};

use super::aggregate::Resource;
use super::effect::Effect;
use super::event::Outcome;
use super::facts::{Anchor, Composed, Facts, Protection, Xr};
use super::observe::Observed;
use super::phase::Phase;
use super::reconciler::address;
use super::verdict::EffectKind;

pub use reason::Reason;

/// The reconciler of a tombstone, with its configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tombstone {
    /// The requeue delay after something reappeared.
    pub interval: Duration,
    /// How long a tombstone is kept; then it hinders no command any more.
    pub keep: Duration,
}

impl Default for Tombstone {
    fn default() -> Self {
        Self { interval: Duration::from_secs(30), keep: Duration::from_hours(24) }
    }
}

/// What the rules answer: everything but the names. There are no events of a tombstone.
pub type Verdict = usher_kernel::Verdict<EffectKind, (), Infallible, Infallible, Reason>;

impl Reconciler for Tombstone {
    type State = Resource;
    type Observed = Observed;
    type Effect = Effect;
    type Event = Infallible;
    type Reason = Reason;
    type Phase = ();
    type Change = Infallible;
    type EffectKind = EffectKind;
    type EventKind = Infallible;

    fn reconcile(
        &self,
        record: &Record<Resource>,
        _: &NameLedger,
        seen: &Observed,
        _: Timestamp,
    ) -> Reconciled<Self> {
        // What was abandoned is left alone until an operator adopts it.
        let given_up = record.state.fields().outcome == Some(Outcome::Abandoned);
        let verdict = if given_up { at_rest() } else { rules(seen.facts) };
        Reconciled { verdict, next: record.state.clone(), rows: vec![] }
    }

    fn address(
        &self,
        kind: EffectKind,
        record: &Record<Resource>,
        (_, name_ledger): (&Resource, &NameLedger),
        _: &Observed,
    ) -> Option<Effect> {
        address(kind, &record.state, name_ledger)
    }

    fn event(
        &self,
        never: Infallible,
        _: &Resource,
        _: &Resource,
        _: &Observed,
    ) -> Option<Infallible> {
        match never {}
    }

    fn timers(&self, _: &Resource, _: &Observed) -> Timers {
        Timers { interval: self.interval, ..Timers::default() }
    }
}

impl Tombstone {
    /// Whether the tombstone may expire: it was kept long enough and no reappeared object is still
    /// recorded as existing. What was abandoned is ignored.
    pub fn is_over(&self, record: &Record<Resource>, now: Timestamp) -> bool {
        let kept = now.since(record.state.fields().phase_since) >= self.keep;
        record.state.phase() == Phase::Deleted && kept && record.name_ledger.is_settled()
    }
}

/// The verdict for one cell: substrate before anchor, nothing on what is unknown.
pub fn rules(seen: Facts) -> Verdict {
    if seen.visibility == Visibility::ClusterReplaced {
        return wait(Reason::ClusterReplaced);
    }
    let unknown = wait(seen.visibility.unknown_reason());
    match seen.xr {
        Xr::Unknown => return unknown,
        Xr::Converging | Xr::Ready | Xr::Drifted | Xr::Failed | Xr::Replaced => {
            return remove_substrate(seen, unknown);
        }
        Xr::Deleting => return wait(Reason::WaitingForDeletion),
        Xr::Absent | Xr::Foreign => {}
    }
    match seen.anchor {
        Anchor::Unknown => return unknown,
        // One that is being deleted is held by our finalizer: the same verb releases it.
        Anchor::Ours | Anchor::Unrecorded | Anchor::Leaving => {
            return Verdict::act(EffectKind::DeleteAnchor, (), Reason::RemovingAnchor);
        }
        Anchor::Absent | Anchor::Foreign => {}
    }
    match seen.composed {
        Composed::None => at_rest(),
        Composed::Unknown => unknown,
        Composed::Unrecorded | Composed::Present | Composed::KindRemoved => {
            wait(Reason::WaitingForDeletion)
        }
    }
}

fn remove_substrate(seen: Facts, unknown: Verdict) -> Verdict {
    match seen.protection {
        Protection::Unknown => return unknown,
        Protection::Ours => {
            let reason = Reason::ReleasingProtection;
            return Verdict::act(EffectKind::ReleaseProtection, (), reason);
        }
        Protection::Another => return wait(Reason::InUse),
        Protection::None => {}
    }
    match seen.composed {
        Composed::Unknown => unknown,
        Composed::Unrecorded => wait(Reason::RecordingComposedResources).requeue(Requeue::Now),
        Composed::None | Composed::Present | Composed::KindRemoved => {
            Verdict::act(EffectKind::DeleteSubstrate, (), Reason::RemovingSubstrate)
        }
    }
}

fn wait(reason: Reason) -> Verdict {
    Verdict::wait((), Requeue::Poll, reason)
}

fn at_rest() -> Verdict {
    Verdict::wait((), Requeue::OnChange, Reason::NothingReturned)
}

#[cfg(test)]
mod tests;
