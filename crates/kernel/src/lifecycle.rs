//! What a reconciled kind must define, and the two ports it runs between.

use crate::id::Version;
use crate::identity::{NameLedger, Row};
use crate::time::Timestamp;
use crate::trouble::Trouble;

/// The rules of one kind; the value holds its settings, never its state.
///
/// *Guarantees*: total (every record and every observation has an answer), pure, repeatable.
pub trait Lifecycle {
    /// What the row says about itself.
    type State: Clone + PartialEq;
    /// One snapshot of the outside: facts to branch on, sightings to record.
    type Observed;
    /// A verb that may be repeated.
    type Effect;
    /// The event of a committed transition.
    type Event;
    /// Why this decision and no other, from a closed set.
    type Reason: Copy + PartialEq;

    /// What to do next, from one record and one observation.
    fn decide(
        &self,
        record: &Record<Self::State>,
        seen: &Self::Observed,
        now: Timestamp,
    ) -> Decision<Self>;
}

/// One record as it was read: state, every outside name it ever had, and the version of both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record<S> {
    /// The version to compare at the commit.
    pub version: Version,
    /// The row.
    pub state: S,
    /// Its part of the identity ledger.
    pub name_ledger: NameLedger,
}

/// What to do next, in full: the worker has no choices left to make.
pub struct Decision<L: Lifecycle + ?Sized> {
    /// The row as it shall be.
    pub next: L::State,
    /// The identity rows that this observation changed.
    pub rows: Vec<Row>,
    /// At most one verb.
    pub effect: Option<L::Effect>,
    /// At most one event, and then no effect.
    pub event: Option<L::Event>,
    /// When to requeue.
    pub wake: Wake,
    /// Why.
    pub reason: L::Reason,
}

/// When an item is requeued. An external change always wakes it earlier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// At once: this step only recorded what the next one needs.
    Now,
    /// At this time.
    At(Timestamp),
    /// Only when something changed: a requeue without a timer.
    OnChange,
    /// It is finished.
    Never,
}

/// The outside: one snapshot, and verbs that may be repeated without harm.
///
/// *Guarantees*: an answer that is missing is `Unknown` in the snapshot or [`Trouble`] as a whole,
/// never absence.
pub trait World<L: Lifecycle> {
    /// Observes everything the record names, once.
    fn observe(
        &self,
        record: &Record<L::State>,
    ) -> impl Future<Output = Result<L::Observed, Trouble>>;

    /// Does one verb. What it made is learned by the next observation.
    fn apply(
        &self,
        record: &Record<L::State>,
        effect: &L::Effect,
    ) -> impl Future<Output = Result<(), Trouble>>;
}

/// Why a record is in its state, and why its last step failed, as an operator reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition<R> {
    /// The reason of the last decision; `None` before the first one.
    pub reason: Option<R>,
    /// The trouble that ended the last step, in its own words.
    pub trouble: Option<String>,
}

/// The inside: one record, changed only through `commit`.
pub trait Ledger<L: Lifecycle> {
    /// Reads the record; `None` if it is gone, and with it the reason to requeue it.
    fn load(&self) -> impl Future<Output = Result<Option<Record<L::State>>, Trouble>>;

    /// Writes state, identity rows, event and reason in one transaction if the version still holds
    /// and the worker was not overtaken, else nothing and [`Trouble::Conflict`].
    ///
    /// The version alone is not enough: a newer lease holder may have written nothing and wait for
    /// a change, and an overtaken worker cannot set the time of the next step. A record that is an
    /// object of a cluster knows no claims; there the watch wakes the holder of a late write.
    fn commit(
        &self,
        version: Version,
        decision: &Decision<L>,
    ) -> impl Future<Output = Result<(), Trouble>>;

    /// What the ledger shows of the record that was loaded; `None` if it keeps no condition, or
    /// writes it with the lease in any case.
    fn condition(&self) -> Option<Condition<L::Reason>> {
        None
    }

    /// Writes a condition that differs from the one shown, although nothing else changed.
    fn report(&self, _: &Condition<L::Reason>) -> impl Future<Output = Result<(), Trouble>> {
        std::future::ready(Ok(()))
    }
}
