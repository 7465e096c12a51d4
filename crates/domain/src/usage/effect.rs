//! The effects of a Usage, with the names they use.
//!
//! A verb on the Usage itself insists on the revision at which the record was read.

use usher_kernel::Uid;

use super::attempt::{Attempt, Propagation};
use super::reference::{ObjectKey, UsageKey};
use super::verdict::EffectKind;

/// One repeatable verb.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Put our finalizer on the Usage.
    AddFinalizer,
    /// Write the mark onto the object with this uid.
    Mark {
        /// The object.
        object: ObjectKey,
        /// The only object that may be marked.
        uid: Uid,
        /// The mark: it names the Usage.
        mark: String,
    },
    /// Let no owner of the Usage wait for it.
    Yield,
    /// Let no owner of the object with this uid wait for it.
    Unblock {
        /// The object.
        object: ObjectKey,
        /// The only object whose references may be written.
        uid: Uid,
    },
    /// Take this mark, and no other, off the object with this uid.
    Unmark {
        /// The object.
        object: ObjectKey,
        /// The only object whose mark may be removed.
        uid: Uid,
        /// The only mark that may be taken off.
        mark: String,
    },
    /// Record the deletion with another Usage.
    HandOver {
        /// Which.
        to: UsageKey,
        /// Which incarnation of it.
        uid: Uid,
        /// The deletion.
        attempt: Attempt,
    },
    /// Delete the object with this uid, with the options of the denied request.
    Replay {
        /// The object.
        object: ObjectKey,
        /// The only object that may be deleted.
        uid: Uid,
        /// What happens to what it owns.
        propagation: Propagation,
        /// The only revision that may be deleted, where its owners matter.
        revision: Option<String>,
    },
    /// Delete the Usage itself.
    Retire,
    /// Take our finalizer off the Usage.
    RemoveFinalizer,
}

impl Effect {
    /// Which verb this is.
    pub const fn kind(&self) -> EffectKind {
        match self {
            Self::AddFinalizer => EffectKind::AddFinalizer,
            Self::Mark { .. } => EffectKind::Mark,
            Self::Yield => EffectKind::Yield,
            Self::Unblock { .. } => EffectKind::Unblock,
            Self::Unmark { .. } => EffectKind::Unmark,
            Self::HandOver { .. } => EffectKind::HandOver,
            Self::Replay { .. } => EffectKind::Replay,
            Self::Retire => EffectKind::Retire,
            Self::RemoveFinalizer => EffectKind::RemoveFinalizer,
        }
    }
}
