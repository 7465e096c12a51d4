//! The skeleton of every decision: absorb sightings, evaluate the rules, address the effect, set
//! the time of the next step. A context supplies the parts.

use crate::identity::{NameLedger, Row};
use crate::lifecycle::{Decision, Lifecycle, Record, Wake};
use crate::requeue::Timers;
use crate::time::Timestamp;
use crate::verdict::Verdict;
use crate::visibility::Observation;

/// One kind of record, as its context plugs it into the skeleton. Every reconciler is a
/// [`Lifecycle`].
pub trait Reconciler {
    /// What the row says about itself.
    type State: Clone + PartialEq;
    /// One snapshot of the outside.
    type Observed: Observation;
    /// A verb that may be repeated, with the names it needs.
    type Effect;
    /// What is emitted when a crossing is committed.
    type Event;
    /// Why this verdict and no other, from a closed set.
    type Reason: Copy + PartialEq;
    /// The phases of the table.
    type Phase: Copy;
    /// What a verdict changes in the record beside the phase.
    type Change: Copy;
    /// The effects of the table.
    type EffectKind: Copy;
    /// The events of the table.
    type EventKind: Copy;

    /// Evaluates the rules, and writes their verdict into the row. `name_ledger` is the name ledger
    /// after this snapshot.
    fn reconcile(
        &self,
        record: &Record<Self::State>,
        name_ledger: &NameLedger,
        seen: &Self::Observed,
        now: Timestamp,
    ) -> Reconciled<Self>;

    /// Gives an effect the names it needs, from the rows as of the end of this step. An effect
    /// whose object is not recorded as ours is not applied.
    fn address(
        &self,
        kind: Self::EffectKind,
        record: &Record<Self::State>,
        after: (&Self::State, &NameLedger),
        seen: &Self::Observed,
    ) -> Option<Self::Effect>;

    /// Gives an event its content.
    fn event(
        &self,
        kind: Self::EventKind,
        before: &Self::State,
        next: &Self::State,
        seen: &Self::Observed,
    ) -> Option<Self::Event>;

    /// What the times of the next step are counted from.
    fn timers(&self, next: &Self::State, seen: &Self::Observed) -> Timers;

    /// Whether an effect writes the object that holds the record itself. It moves the version that
    /// the commit compares, so the sightings of the snapshot are committed before.
    fn writes_record(_: Self::EffectKind) -> bool {
        false
    }
}

/// The verdict of a kind's rules.
pub type VerdictOf<R> = Verdict<
    <R as Reconciler>::EffectKind,
    <R as Reconciler>::Phase,
    <R as Reconciler>::Change,
    <R as Reconciler>::EventKind,
    <R as Reconciler>::Reason,
>;

/// A verdict written into the row.
pub struct Reconciled<R: Reconciler + ?Sized> {
    /// What the rules answered.
    pub verdict: VerdictOf<R>,
    /// The row as it shall be.
    pub next: R::State,
    /// Names to record beside what was seen.
    pub rows: Vec<Row>,
}

impl<R: Reconciler> Lifecycle for R {
    type State = R::State;
    type Observed = R::Observed;
    type Effect = R::Effect;
    type Event = R::Event;
    type Reason = R::Reason;

    fn decide(
        &self,
        record: &Record<Self::State>,
        seen: &Self::Observed,
        now: Timestamp,
    ) -> Decision<Self> {
        let (name_ledger, mut rows) = seen.absorbed(&record.name_ledger);
        let Reconciled { verdict, next, rows: added } =
            self.reconcile(record, &name_ledger, seen, now);
        rows.extend(added);
        let address = |kind| self.address(kind, record, (&next, &name_ledger), seen);
        let effect = verdict.effect.and_then(address);
        let event = verdict.event.and_then(|kind| self.event(kind, &record.state, &next, seen));
        let requeue = verdict.requeue.with_snapshot(seen.is_incomplete());
        let wake = requeue.wake(&self.timers(&next, seen), now);
        let reason = verdict.reason;
        let records = !rows.is_empty() || next != record.state;
        if effect.is_some() && records && verdict.effect.is_some_and(R::writes_record) {
            return Decision { next, rows, effect: None, event, wake: Wake::Now, reason };
        }
        Decision { next, rows, effect, event, wake, reason }
    }
}
