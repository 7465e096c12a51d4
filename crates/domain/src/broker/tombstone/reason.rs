//! Why a tombstone does what it does.

use crate::object::reasons::reasons;
use crate::object::unknown::unknown_reasons;

reasons! {
    /// Why a decision did what it did, or why it waits.
    "tombstone reason" Reason {
        NothingReturned: Info "nothing of the deleted resource reappeared";
        RemovingSubstrate: Info "a substrate reappeared; its deletion is being requested";
        RemovingAnchor: Info "an anchor reappeared; its deletion is being requested";
        RecordingComposedResources: Info
            "what reappeared is recorded before its deletion is requested";
        ReleasingProtection: Info "our own protection of what reappeared is being released";
        InUse: Warning "what reappeared is in use by another object"
            => "an object is marked as in use by another",
            "end that use; the deletion continues by itself";
        WaitingForDeletion: Info "the deletion of what reappeared was requested and is not done";
        Unreachable: Warning "a dependency does not answer"
            => "the world cannot be read; nothing is taken for absent",
            "restore it; it continues by itself";
        Forbidden: Critical "a dependency denies access"
            => "rights are missing; nothing is taken for absent",
            "grant the rights again; it continues by itself";
        ClusterReplaced: Critical "the world is not the one that was pinned"
            => "it was rebuilt or restored from an older state: absence proves nothing",
            "restore the pinned world";
        MassDeletionGuardTripped: Critical "too many objects vanished at once"
            => "more objects vanished than the mass-deletion guard allows; none counts as gone",
            "inspect the world; if they are gone, reset the guard";
    }
}

unknown_reasons!(Reason);
