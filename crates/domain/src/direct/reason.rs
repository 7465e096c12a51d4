//! Why a direct resource is where it is: one closed set for conditions, metrics, answers and the
//! runbook.

use crate::object::reasons::reasons;

const RETRIED: &str = "the cloud refused or failed the request; the condition has its message";

reasons! {
    /// Why a decision did what it did, or why it waits.
    "direct reason" Reason {
        ObjectUnreadable: Warning "the Kubernetes object could not be read"
            => "the API server did not answer or denies access; nothing is taken for absent",
            "restore it, or grant the rights; it continues by itself";
        AddingFinalizer: Info "its finalizer is being added";
        RecordingIdentity: Info "the identity is recorded before it is used";
        StampingIdentity: Info "the recorded identity is being written onto the object";
        RecordingObservation: Info "what was seen is recorded before the next effect";
        IdentityForeign: Critical "the object is a copy: its recorded identity is another object's"
            => "it was copied or restored together with the identity of the original",
            "remove the identity annotation, or delete the copy; the original is not touched";
        IdentityMalformed: Critical "the recorded identity on the object cannot be read"
            => "the identity annotation was edited",
            "restore the annotation; nothing is created or deleted until then";
        IdentityChanged: Critical "the spec resolves to another identity than the recorded one"
            => "a field that is part of the cloud object's identity was changed",
            "undo the change, or delete the object and declare it anew";
        OwnershipAmbiguous: Critical "several cloud objects carry our ownership mark"
            => "the recorded identity is lost and more than one object could be meant",
            "remove the mark from all but one of them";
        OwnershipSearchFailed: Warning "the search for our ownership mark was not answered"
            => "the cloud could not list its objects; nothing is taken for absent",
            "it is repeated by itself; check the credential if it lasts";
        NameTakenByAnother: Critical "another owner's cloud object has the name"
            => "the cloud object of this name has no ownership mark of ours",
            "remove or rename that object; nothing that is not ours is touched";
        ParentGone: Critical "the parent that contains the cloud object is gone"
            => "the container was deleted, and nothing can be created in it",
            "create the parent again, or delete the object";
        Creating: Info "the cloud object is being created";
        CreateFailed: Warning "the creation failed and is repeated with a new request"
            => RETRIED, "fix what the message names; it is repeated by itself";
        WaitingForOperation: Info "an operation on the cloud object is running";
        OperationStatusUnknown: Warning "it is not known which operations are running"
            => "the cloud did not answer for its operations",
            "it is queried again by itself; check the credential if it lasts";
        CorrectingDrift: Info "the cloud object differs from what was declared; it is updated";
        UpdateFailed: Warning "the update failed and is repeated"
            => RETRIED, "fix what the message names; it is repeated by itself";
        DeletedByAnother: Warning "the cloud object is being deleted from outside"
            => "the deletion was requested outside Usher; it cannot be undone",
            "wait: it is created again once it is gone";
        Recreating: Info "the cloud object is gone and is created again";
        AsDeclared: Info "everything is as declared";
        ReferenceInvalid: Critical "a reference does not lead to an identity"
            => "a reference in the spec is malformed or leads in a circle",
            "correct the reference";
        ReferenceNotFound: Warning "a referenced object does not exist"
            => "nothing has the name that the reference names",
            "create it or correct the reference; it is found by itself";
        ReferenceTerminating: Warning "a referenced object is being deleted"
            => "nothing is created under an object that is being deleted",
            "wait, or correct the reference";
        ReferenceNotReady: Warning "a referenced object has no identity yet"
            => "the referenced object is not created yet",
            "wait; it continues by itself";
        ReferenceKindNotInstalled: Critical "the kind of a referenced object is not installed"
            => "its CustomResourceDefinition is missing",
            "install the kind or correct the reference";
        ReferenceForbidden: Critical "a referenced object may not be read"
            => "rights on the kind are missing",
            "grant get on the kind; it continues by itself";
        ReferenceUnavailable: Warning "a referenced object could not be read"
            => "the API server did not answer",
            "restore it; it continues by itself";
        CloudForbidden: Critical "the cloud denies access"
            => "the credential is invalid or lacks rights; nothing is taken for absent",
            "correct the credential; it continues by itself";
        CloudThrottled: Info "the cloud asks us to slow down";
        CloudUnavailable: Warning "the cloud does not answer"
            => "the cloud's API is down or cannot be reached; nothing is taken for absent",
            "it is queried again by itself";
        CloudLagging: Info "the cloud answered from a replica that lags behind";
        MassDeletionGuardTripped: Critical "too many cloud objects vanished at once"
            => "more objects vanished than the mass-deletion guard allows; none counts as gone",
            "inspect the cloud; if they are gone, reset the guard";
        DeletionRequested: Info "the deletion of the object was requested";
        DeletionTimestampLost: Critical "the object is not being deleted although it was before"
            => "the cluster was restored to a state from before the deletion; nothing is done",
            "delete the object again";
        HeldByFinalizer: Warning "another finalizer holds the object"
            => "a finalizer whose name ends in hold is on the object",
            "its owner has to remove it; the deletion continues by itself";
        DeletionPolicyInvalid: Critical "the deletion policy on the object cannot be read"
            => "the annotation has a value that is not accepted",
            "correct the annotation; nothing is deleted until then";
        DeletingObject: Info "the deletion of the cloud object is being requested";
        DeleteFailed: Warning "the deletion failed and is repeated"
            => RETRIED, "fix what the message names; it is repeated by itself";
        WaitingForDeletion: Info "the deletion of the cloud object was requested and is not done";
        InFlightGrace: Info "an earlier request may still arrive; it waits until none can";
        NamesNotYetGone: Warning "nothing was seen, and the recorded name is not proven gone yet"
            => "no certain answer about the recorded name was received",
            "it is checked again by itself";
        Orphaned: Critical "it is not known which cloud object it is; the policy holds it"
            => "the identity is lost and a parent that it derives from is gone",
            "inspect the cloud account; then set the deletion policy to release or abandon";
        Deleted: Info "we deleted the cloud object, and it is gone";
        AlreadyAbsent: Info "nothing of ours existed when the deletion began";
        Abandoned: Info "the cloud object was left alone because the policy says so";
        OrphanReleased: Warning "it was released without its cloud object being known"
            => "the deletion policy releases what cannot be found; an orphan record was written",
            "inspect the cloud account for what is left";
        OwnedByAnother: Info "the cloud object it names belongs to another owner";
        RemovingFinalizer: Info "its finalizer is being removed";
        DeletingLateCreation: Info "a late request created it again; it is being deleted";
        Gone: Info "nothing is left";
    }
}
