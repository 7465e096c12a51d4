//! Why a Usage is where it is: one closed set for conditions, metrics, answers and the runbook.

use crate::object::reasons::reasons;
use crate::object::unknown::unknown_reasons;

reasons! {
    /// Why a decision did what it did, or why it waits.
    "usage reason" Reason {
        AddingFinalizer: Info "its finalizer is added before anything else is done";
        ResolvingReferences: Info "what its references mean is being recorded";
        ReferencesInvalid: Critical "its references cannot be used"
            => "a reference names a kind, a namespace or a selector that is not accepted",
            "correct the spec of the Usage";
        NoMatchingObject: Warning "no object matches its reference to what is used"
            => "the selector matches nothing, so nothing is protected",
            "create the object or correct the selector; it is found by itself";
        TargetNotFound: Warning "the used object does not exist"
            => "nothing has the name that the Usage refers to, so nothing is protected",
            "create the object or correct the reference; it is found by itself";
        TargetTerminating: Warning "the used object is being deleted already"
            => "its deletion was accepted before it was protected; that cannot be undone",
            "wait: a new object under the same name is protected again";
        RecordingTarget: Info "the uid of the used object is recorded before it is marked";
        Marking: Info "the used object is being marked as in use";
        Probing: Warning "it is not known yet whether the deletion of the used object is refused"
            => "the dry-run deletion that proves the protection was not answered",
            "if it lasts, check whether the webhook can be reached by the API server";
        DeletionNotRefused: Critical "the used object is marked and its deletion would be allowed"
            => "the webhook is not called for this kind, or its configuration is gone",
            "install the webhook configuration again; until then nothing protects the object";
        InUse: Info "the used object is in use and protected";
        ProtectedForReason: Info "the used object is protected for the reason in the spec";
        UserNotFound: Warning "the used object is protected, and its user was never seen"
            => "nothing has the name of the user that the Usage refers to",
            "create the user, or delete the Usage";
        UserTerminating: Info "the user is being deleted and still exists";
        UserGone: Info "the user is gone, so the use is over";
        UserRecreated: Info "another user exists where one was gone";
        UsageDeleted: Info "the Usage was deleted and the object is not in use";
        KindRemoved: Warning "a kind that the Usage refers to is not installed any more"
            => "its CustomResourceDefinition was removed, together with all objects of the kind",
            "install the kind again, or delete the Usage";
        UnblockingUsageOwners: Info "the owners of the Usage are released from waiting for it";
        UnblockingTargetOwners: Info
            "the owners of the used object are released from waiting for it";
        Unmarking: Info "a mark is being removed from an object that is not used any more";
        HandingOverDeletion: Info
            "a recorded deletion is handed over to another Usage of the same object";
        RecordingReplay: Info "the replay of a recorded deletion is recorded before it is sent";
        ReplayingDeletion: Info "a recorded deletion is being replayed";
        DeletionAttemptSettled: Info "a recorded deletion was replayed, or is not due any more";
        DeletionAttemptRecorded: Info "a deletion was denied after the Usage had released";
        Released: Info "nothing is held any more";
        DeletingUsage: Info "the use is over: the deletion of the Usage itself is requested";
        RemovingFinalizer: Info "its finalizer is being removed";
        Unreachable: Warning "an object that decides cannot be read"
            => "the API server or the other Usages of the object could not be read",
            "restore the API server; it continues by itself";
        Forbidden: Critical "an object that decides may not be read"
            => "rights on the kind are missing",
            "grant get, list, watch, patch and delete on the kind; it continues by itself";
        ClusterReplaced: Critical "the cluster is not the one that was pinned"
            => "it was rebuilt or restored from an older state: absence proves nothing",
            "restore the pinned cluster, or delete the Usage with its finalizer";
        MassDeletionGuardTripped: Critical "too many objects vanished at once"
            => "more objects vanished than the mass-deletion guard allows; none counts as gone",
            "inspect the cluster; if they are gone, reset the guard";
    }
}

unknown_reasons!(Reason);
