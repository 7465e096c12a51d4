//! What is left of a deleted resource: it takes away what a late driver brings back.
//!
//! A second, tiny life beside the sticky, silent phase `Deleted`. It rests without a timer and is
//! woken by a change of anything that carries the resource's label.

use std::convert::Infallible;
use std::time::Duration;

use usher_kernel::{Decision, Lifecycle, Record, Timestamp, Wake};

use super::aggregate::Resource;
use super::effect::Effect;
use super::facts::{Anchor, Composed, Facts, Protection, Sight, Xr};
use super::life::address;
use super::observe::Observed;
use super::verdict::EffectKind;
use crate::object::closed::closed_set;

/// The life of a tombstone, with its figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tombstone {
    /// How soon to look again at something that came back.
    pub interval: Duration,
}

impl Default for Tombstone {
    fn default() -> Self {
        Self { interval: Duration::from_secs(30) }
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
        /// Our own guard came back with it.
        ReleasingProtection = "ReleasingProtection",
        /// Somebody else guards what came back.
        InUse = "InUse",
        /// What came back is on its way out.
        WaitingToGo = "WaitingToGo",
        /// Somebody who must answer did not.
        Unreachable = "Unreachable",
    }
}

impl Lifecycle for Tombstone {
    type State = Resource;
    type Observed = Observed;
    type Effect = Effect;
    type Event = Infallible;
    type Reason = Reason;

    fn decide(&self, record: &Record<Resource>, seen: &Observed, now: Timestamp) -> Decision<Self> {
        let rows = record.book.absorb(&seen.sightings);
        let book = record.book.with(&rows);
        let (effect, reason) = rules(seen.facts);
        let wake = match reason {
            Reason::AtRest => Wake::OnChange,
            Reason::RemovingSubstrate
            | Reason::RemovingAnchor
            | Reason::ReleasingProtection
            | Reason::InUse
            | Reason::WaitingToGo
            | Reason::Unreachable => Wake::At(now.after(self.interval)),
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

/// The verdict for one cell: substrate before anchor, nothing on what is unknown.
pub fn rules(seen: Facts) -> (Option<EffectKind>, Reason) {
    if seen.sight == Sight::ClusterReplaced {
        return (None, Reason::Unreachable);
    }
    match seen.xr {
        Xr::Unknown => return (None, Reason::Unreachable),
        Xr::Converging | Xr::Ready | Xr::Drifted | Xr::Failed | Xr::Replaced => {
            return remove_substrate(seen.protection);
        }
        Xr::Deleting => return (None, Reason::WaitingToGo),
        Xr::Absent | Xr::Foreign => {}
    }
    match seen.anchor {
        Anchor::Unknown => return (None, Reason::Unreachable),
        Anchor::Ours | Anchor::Unrecorded => {
            return (Some(EffectKind::DeleteAnchor), Reason::RemovingAnchor);
        }
        Anchor::Leaving => return (None, Reason::WaitingToGo),
        Anchor::Absent | Anchor::Foreign => {}
    }
    match seen.composed {
        Composed::None => (None, Reason::AtRest),
        Composed::Unknown => (None, Reason::Unreachable),
        Composed::Unrecorded | Composed::Present | Composed::KindRemoved => {
            (None, Reason::WaitingToGo)
        }
    }
}

fn remove_substrate(protection: Protection) -> (Option<EffectKind>, Reason) {
    match protection {
        Protection::Unknown => (None, Reason::Unreachable),
        Protection::Ours => (Some(EffectKind::ReleaseProtection), Reason::ReleasingProtection),
        Protection::Somebody => (None, Reason::InUse),
        Protection::None => (Some(EffectKind::DeleteSubstrate), Reason::RemovingSubstrate),
    }
}

#[cfg(test)]
mod tests;
