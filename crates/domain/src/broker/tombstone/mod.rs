//! What is left of a deleted resource: it takes away what a late driver brings back.
//!
//! A second, tiny life beside the sticky, silent phase `Deleted`. It rests without a timer and is
//! woken by a change of anything that carries the resource's label.

use std::convert::Infallible;
use std::time::Duration;

use usher_kernel::{Decision, Lifecycle, Record, Timestamp, Wake};

use super::aggregate::Resource;
use super::effect::Effect;
use super::event::Outcome;
use super::facts::{Anchor, Composed, Facts, Protection, Sight, Xr};
use super::life::address;
use super::observe::Observed;
use super::phase::Phase;
use super::verdict::EffectKind;
use crate::object::closed::closed_set;

/// The life of a tombstone, with its figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tombstone {
    /// How soon to look again at something that came back.
    pub interval: Duration,
    /// How long a tombstone is kept; then it hinders nobody any more.
    pub keep: Duration,
}

impl Default for Tombstone {
    fn default() -> Self {
        Self { interval: Duration::from_secs(30), keep: Duration::from_hours(24) }
    }
}

closed_set! {
    /// Why a tombstone does what it does.
    "tombstone reason" Reason {
        /// Nothing came back.
        AtRest = "AtRest",
        /// An XR came back.
        RemovingSubstrate = "RemovingSubstrate",
        /// An anchor came back.
        RemovingAnchor = "RemovingAnchor",
        /// What the XR that came back composed is recorded before it is asked to go.
        Recording = "Recording",
        /// Our own guard came back with it.
        ReleasingProtection = "ReleasingProtection",
        /// Somebody else guards what came back.
        InUse = "InUse",
        /// What came back is on its way out.
        WaitingToGo = "WaitingToGo",
        /// Somebody who must answer did not.
        Unreachable = "Unreachable",
        /// Somebody who must answer would not let us look.
        Forbidden = "Forbidden",
        /// The world is not the one that was pinned.
        ClusterReplaced = "ClusterReplaced",
        /// Too much vanished at once.
        RailTripped = "RailTripped",
    }
}

impl Lifecycle for Tombstone {
    type State = Resource;
    type Observed = Observed;
    type Effect = Effect;
    type Event = Infallible;
    type Reason = Reason;

    fn decide(&self, record: &Record<Resource>, seen: &Observed, now: Timestamp) -> Decision<Self> {
        // What was given up is left alone until somebody adopts it.
        let given_up = record.state.fields().outcome == Some(Outcome::Abandoned);
        let rows = record.book.absorb(&seen.sightings);
        let book = record.book.with(&rows);
        let (effect, reason) = if given_up { (None, Reason::AtRest) } else { rules(seen.facts) };
        let wake = match reason {
            Reason::AtRest => Wake::OnChange,
            Reason::Recording => Wake::Now,
            Reason::RemovingSubstrate
            | Reason::RemovingAnchor
            | Reason::ReleasingProtection
            | Reason::InUse
            | Reason::WaitingToGo
            | Reason::Unreachable
            | Reason::Forbidden
            | Reason::ClusterReplaced
            | Reason::RailTripped => Wake::At(now.after(self.interval)),
        };
        Decision {
            next: record.state.clone(),
            rows,
            effect: effect.and_then(|kind| address(kind, &record.state, &book)),
            event: None,
            wake,
            reason,
        }
    }
}

impl Tombstone {
    /// Whether the tombstone may be put away: it was kept long enough and nothing came back that is
    /// still on record as standing. What was given up is nobody's to look after.
    pub fn is_over(&self, record: &Record<Resource>, now: Timestamp) -> bool {
        let kept = now.since(record.state.fields().phase_since) >= self.keep;
        record.state.phase() == Phase::Deleted && kept && record.book.is_settled()
    }
}

/// The verdict for one cell: substrate before anchor, nothing on what is unknown.
pub fn rules(seen: Facts) -> (Option<EffectKind>, Reason) {
    if seen.sight == Sight::ClusterReplaced {
        return (None, Reason::ClusterReplaced);
    }
    let blind = (None, sightless(seen.sight));
    match seen.xr {
        Xr::Unknown => return blind,
        Xr::Converging | Xr::Ready | Xr::Drifted | Xr::Failed | Xr::Replaced => {
            return remove_substrate(seen, blind.1);
        }
        Xr::Deleting => return (None, Reason::WaitingToGo),
        Xr::Absent | Xr::Foreign => {}
    }
    match seen.anchor {
        Anchor::Unknown => return blind,
        // One that is on its way out is held by our finalizer: the same verb lets it go.
        Anchor::Ours | Anchor::Unrecorded | Anchor::Leaving => {
            return (Some(EffectKind::DeleteAnchor), Reason::RemovingAnchor);
        }
        Anchor::Absent | Anchor::Foreign => {}
    }
    match seen.composed {
        Composed::None => (None, Reason::AtRest),
        Composed::Unknown => blind,
        Composed::Unrecorded | Composed::Present | Composed::KindRemoved => {
            (None, Reason::WaitingToGo)
        }
    }
}

fn remove_substrate(seen: Facts, blind: Reason) -> (Option<EffectKind>, Reason) {
    match seen.protection {
        Protection::Unknown => return (None, blind),
        Protection::Ours => {
            return (Some(EffectKind::ReleaseProtection), Reason::ReleasingProtection);
        }
        Protection::Somebody => return (None, Reason::InUse),
        Protection::None => {}
    }
    match seen.composed {
        Composed::Unknown => (None, blind),
        Composed::Unrecorded => (None, Reason::Recording),
        Composed::None | Composed::Present | Composed::KindRemoved => {
            (Some(EffectKind::DeleteSubstrate), Reason::RemovingSubstrate)
        }
    }
}

fn sightless(sight: Sight) -> Reason {
    match sight {
        Sight::Clear | Sight::Unreachable => Reason::Unreachable,
        Sight::Forbidden => Reason::Forbidden,
        Sight::RailTripped => Reason::RailTripped,
        Sight::ClusterReplaced => Reason::ClusterReplaced,
    }
}

#[cfg(test)]
mod tests;
