//! Marks that no Usage accounts for: what a late request wrote, and what was left by a Usage that
//! was deleted by force.
//!
//! A tiny reconciler beside the Usages: it observes one marked object and removes the mark if no
//! Usage holds the object. A Usage that is about to hold it has said so before it relies on the
//! mark, and writes its own over one that it cannot rely on, so that the verb here never takes off
//! a mark that counts.

use std::convert::Infallible;
use std::time::Duration;

use usher_kernel::{
    NameLedger, Observation, Reconciled, Reconciler, Record, Requeue, Sighting, Timers, Timestamp,
    Uid, Visibility,
};

use super::reference::ObjectKey;
use super::snapshot::Reading;
use crate::object::authority::Authority;
use crate::object::closed::closed_set;
use crate::object::reasons::reasons;
use crate::object::unknown::unknown_reasons;

/// A marked object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Marked {
    pub object: ObjectKey,
    /// Which incarnation.
    pub uid: Uid,
}

closed_set! {
    /// The mark on the object.
    "stray mark" Mark {
        /// There is none, or the object is gone.
        Off = "Off",
        /// It is there.
        On = "On",
        /// Unknown.
        Unknown = "Unknown",
    }

    /// The holders of the object.
    "holders" Holders {
        /// None.
        None = "None",
        /// At least one.
        Some = "Some",
        /// Unknown.
        Unknown = "Unknown",
    }

    /// The only effect.
    "stray effect" EffectKind {
        /// Take the mark off.
        Unmark = "Unmark",
    }
}

reasons! {
    /// Why a mark is where it is.
    "stray reason" Reason {
        InUse: Info "a Usage holds the marked object";
        Unmarking: Info "no Usage holds the object: its mark is being removed";
        Unmarked: Info "the object has no mark";
        Unreachable: Warning "the object or its Usages cannot be read"
            => "the API server does not answer; the mark stays",
            "restore it; it continues by itself";
        Forbidden: Critical "the object or its Usages may not be read"
            => "rights on the kind are missing; the mark stays",
            "grant the rights; it continues by itself";
        ClusterReplaced: Critical "the cluster is not the one that was pinned"
            => "it was rebuilt or restored from an older state: absence proves nothing",
            "restore the pinned cluster";
        MassDeletionGuardTripped: Critical "too many objects vanished at once"
            => "more objects vanished than the mass-deletion guard allows; none counts as gone",
            "inspect the cluster; if they are gone, reset the guard";
    }
}

unknown_reasons!(Reason);

/// What one observation saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// How far the answers can be trusted.
    pub visibility: Visibility,
    pub mark: Mark,
    /// The holders of the object.
    pub holders: Holders,
}

/// The unjudged answers of one snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// Whether the world is the pinned one.
    pub authority: Authority,
    /// Whether too much vanished at once.
    pub guard_tripped: bool,
    /// The mark on the object with the recorded uid, read before the holders; none if it is gone.
    pub mark: Reading<Option<String>>,
    /// Whether any Usage holds the object, by an index that has caught up since.
    pub is_held: Reading<bool>,
}

/// One observation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observed {
    /// The only part a decision branches on.
    pub facts: Facts,
    pub mark: Option<String>,
}

/// Take this mark, and no other, off the object with the recorded uid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unmark {
    pub object: ObjectKey,
    /// The only object whose mark may be removed.
    pub uid: Uid,
    /// The only mark that may be taken off.
    pub mark: String,
}

/// The reconciler of a marked object, with its configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StrayReconciler {
    /// The longest requeue delay while something is waited for.
    pub interval: Duration,
}

impl Default for StrayReconciler {
    fn default() -> Self {
        Self { interval: Duration::from_secs(30) }
    }
}

/// Judges one snapshot.
pub fn fold(snapshot: &Snapshot) -> Observed {
    let worst = snapshot.mark.as_ref().err().max(snapshot.is_held.as_ref().err());
    let replaced = snapshot.authority == Authority::Replaced;
    let visibility = Visibility::judge(replaced, snapshot.guard_tripped, worst.copied());
    let (mark, value) = match &snapshot.mark {
        Err(_) => (Mark::Unknown, None),
        Ok(None) => (Mark::Off, None),
        Ok(Some(value)) => (Mark::On, Some(value.clone())),
    };
    let holders = match snapshot.is_held {
        Err(_) => Holders::Unknown,
        Ok(true) => Holders::Some,
        Ok(false) => Holders::None,
    };
    Observed { facts: Facts { visibility, mark, holders }, mark: value }
}

/// What the rules answer. Nothing is recorded of a mark, and no event emitted.
pub type Verdict = usher_kernel::Verdict<EffectKind, (), Infallible, Infallible, Reason>;

/// The verdict for one cell of the table.
pub fn rules(seen: Facts) -> Verdict {
    let wait = |requeue, reason| Verdict::wait((), requeue, reason);
    if seen.visibility == Visibility::ClusterReplaced {
        return wait(Requeue::Poll, Reason::ClusterReplaced);
    }
    match (seen.mark, seen.holders) {
        (Mark::Off, Holders::None | Holders::Some | Holders::Unknown) => {
            wait(Requeue::Never, Reason::Unmarked)
        }
        (Mark::On, Holders::None) => Verdict::act(EffectKind::Unmark, (), Reason::Unmarking),
        (Mark::On, Holders::Some) => wait(Requeue::OnChange, Reason::InUse),
        (Mark::Unknown, Holders::None | Holders::Some | Holders::Unknown)
        | (Mark::On, Holders::Unknown) => wait(Requeue::Poll, seen.visibility.unknown_reason()),
    }
}

impl Observation for Observed {
    fn sightings(&self) -> &[Sighting] {
        &[]
    }

    fn visibility(&self) -> Visibility {
        self.facts.visibility
    }
}

impl Reconciler for StrayReconciler {
    type State = Marked;
    type Observed = Observed;
    type Effect = Unmark;
    type Event = Infallible;
    type Reason = Reason;
    type Phase = ();
    type Change = Infallible;
    type EffectKind = EffectKind;
    type EventKind = Infallible;

    fn reconcile(
        &self,
        record: &Record<Marked>,
        _: &NameLedger,
        seen: &Observed,
        _: Timestamp,
    ) -> Reconciled<Self> {
        Reconciled { verdict: rules(seen.facts), next: record.state.clone(), rows: vec![] }
    }

    fn address(
        &self,
        kind: EffectKind,
        record: &Record<Marked>,
        _: (&Marked, &NameLedger),
        seen: &Observed,
    ) -> Option<Unmark> {
        let Marked { object, uid } = record.state.clone();
        match kind {
            EffectKind::Unmark => Some(Unmark { object, uid, mark: seen.mark.clone()? }),
        }
    }

    fn event(&self, never: Infallible, _: &Marked, _: &Marked, _: &Observed) -> Option<Infallible> {
        match never {}
    }

    fn timers(&self, _: &Marked, _: &Observed) -> Timers {
        Timers { interval: self.interval, ..Timers::default() }
    }
}
