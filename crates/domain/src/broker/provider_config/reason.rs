//! Why a ProviderConfig is where it is.

use crate::object::reasons::reasons;
use crate::object::unknown::unknown_reasons;

reasons! {
    /// Why a decision did what it did, or why it waits.
    "provider config reason" Reason {
        NamespaceNotReady: Warning "its namespace is not ready"
            => "the placement of the project is not ready; nothing was made",
            "wait for the placement, see `usher get placements`; it continues by itself";
        CreatingAnchor: Info "its anchor is being created";
        RecordingIdentity: Info "what was seen is recorded before the next effect";
        AnchorNameTakenByAnother: Critical "another owner's object has the name of its anchor"
            => "an object without our labels has a name of ours",
            "remove or rename that object; nothing that is not ours is touched";
        AnchorLost: Warning "its anchor is gone, so what is under it will be garbage collected"
            => "the anchor was removed outside Usher",
            "wait: a new generation follows";
        Creating: Info "the ProviderConfig and its Secret are being created";
        CorrectingDrift: Info "it differs from what was declared; it is written again";
        NameTakenByAnother: Critical "another owner's object has its name"
            => "an object without our labels has a name of ours",
            "remove or rename that object; nothing that is not ours is touched";
        DeletedByAnother: Warning "it is being deleted from outside"
            => "the deletion was requested outside Usher; it cannot be undone",
            "wait: a new generation follows";
        AsDeclared: Info "everything is as declared";
        NoUsers: Info "no resource uses it any more";
        Deleting: Info "its deletion is being requested";
        WaitingForDeletion: Info "its deletion was requested and is not done";
        InFlightGrace: Info "an earlier request may still arrive; it waits until none can";
        DeletingAnchor: Info "the deletion of its anchor is being requested";
        NamesNotYetGone: Warning "nothing was seen, and some recorded name is not proven gone yet"
            => "a name was recorded and no certain answer about it was received",
            "it is checked again by itself";
        GenerationReplaced: Info "the old generation is gone and a resource needs a new one";
        Gone: Info "nothing is left";
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
