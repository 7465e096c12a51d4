//! The effects of a direct resource, with the names they use. None carries a secret.

use super::aggregate::ObjectKey;
use super::deleter::Precondition;
use super::identity::Identified;
use super::mark::Mark;
use super::proof::Ended;
use super::recorded::Recorded;
use super::verdict::EffectKind;

/// One repeatable verb.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Put our finalizer on the object with this uid.
    AddFinalizer {
        /// The object.
        object: ObjectKey,
    },
    /// Write the recorded identity onto the object, into annotation and status.
    Stamp {
        /// The object.
        object: ObjectKey,
        /// The record.
        recorded: Recorded,
    },
    /// Create the cloud object, marked as ours; the request inside the mark makes it safe to
    /// repeat.
    Create {
        /// Where and what.
        identified: Identified,
        /// Its owner, and the request.
        mark: Mark,
    },
    /// Make the cloud object as declared, if it still is the one that was seen.
    Update {
        /// Where and what.
        identified: Identified,
        /// The only object that may be changed.
        at: Precondition,
    },
    /// Delete the cloud object, if it still is the one that was seen.
    Delete {
        /// Where and what.
        identified: Identified,
        /// The only object that may be deleted.
        at: Precondition,
    },
    /// Take our finalizer off the object with this uid.
    RemoveFinalizer {
        /// The object.
        object: ObjectKey,
        /// Its proof.
        ended: Ended,
    },
}

impl Effect {
    /// Which verb this is.
    pub const fn kind(&self) -> EffectKind {
        match self {
            Self::AddFinalizer { .. } => EffectKind::AddFinalizer,
            Self::Stamp { .. } => EffectKind::Stamp,
            Self::Create { .. } => EffectKind::Create,
            Self::Update { .. } => EffectKind::Update,
            Self::Delete { .. } => EffectKind::Delete,
            Self::RemoveFinalizer { .. } => EffectKind::RemoveFinalizer,
        }
    }
}
