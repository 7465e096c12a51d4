//! Why a tombstone does what it does.

use crate::object::reasons::reasons;
use crate::object::unknown::unknown_reasons;

reasons! {
    /// Why a decision did what it did, or why it waits.
    "tombstone reason" Reason {
        NothingReturned: Info "nothing of the deleted resource came back";
        RemovingSubstrate: Info "a substrate came back; its deletion is being requested";
        RemovingAnchor: Info "an anchor came back; its deletion is being requested";
        RecordingComposedResources: Info
            "what came back is recorded before its deletion is requested";
        ReleasingProtection: Info "our own protection of what came back is being released";
        InUse: Warning "what came back is in use by another object"
            => "an object is marked as in use by another",
            "end that use; the deletion goes on by itself";
        WaitingForDeletion: Info "the deletion of what came back was requested and is not done";
        Unreachable: Warning "a dependency does not answer"
            => "the world cannot be read; nothing is taken for absent",
            "bring it back; it goes on by itself";
        Forbidden: Critical "a dependency denies access"
            => "rights are missing; nothing is taken for absent",
            "grant the rights again; it goes on by itself";
        ClusterReplaced: Critical "the world is not the one that was pinned"
            => "it was rebuilt or restored from an older state: absence proves nothing",
            "bring the pinned world back";
        MassDeletionGuardTripped: Critical "too many objects vanished at once"
            => "more objects vanished than the mass-deletion guard allows; none is believed gone",
            "look at the world; if they are gone, reset the guard";
    }
}

unknown_reasons!(Reason);
