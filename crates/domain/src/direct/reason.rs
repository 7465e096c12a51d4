//! Why a direct resource is where it is: one closed set for conditions, metrics and answers.

use crate::object::closed::closed_set;

closed_set! {
    /// Why a decision did what it did, or why it waits.
    "direct reason" Reason {
        /// The Kubernetes object could not be read.
        ObjectUnknown = "ObjectUnknown",
        /// Our finalizer is being put on the object.
        AddingFinalizer = "AddingFinalizer",
        /// The identity is recorded before it is used.
        RecordingIdentity = "RecordingIdentity",
        /// The recorded identity is being written onto the object.
        Stamping = "Stamping",
        /// What was seen is recorded before the next verb.
        Recording = "Recording",
        /// The object is a copy: its recorded identity is bound to another one.
        IdentityForeign = "IdentityForeign",
        /// The recorded identity on the object cannot be read.
        IdentityMalformed = "IdentityMalformed",
        /// The spec stands for another identity than the one on record.
        IdentityChanged = "IdentityChanged",
        /// Several cloud objects carry our mark.
        OwnershipAmbiguous = "OwnershipAmbiguous",
        /// What carries our mark is unknown.
        SearchUnknown = "SearchUnknown",
        /// A foreign cloud object has the name.
        NameTaken = "NameTaken",
        /// The container of the cloud object is gone.
        ContainerGone = "ContainerGone",
        /// The cloud object is being created.
        Creating = "Creating",
        /// The creation failed and is tried again by a new request.
        CreateFailed = "CreateFailed",
        /// An operation on the cloud object runs.
        WaitingForOperation = "WaitingForOperation",
        /// Which operations run is unknown.
        OperationUnknown = "OperationUnknown",
        /// The cloud object is not as declared; it is being changed.
        Correcting = "Correcting",
        /// The change failed and is tried again.
        UpdateFailed = "UpdateFailed",
        /// Another party asked the cloud object to go.
        LeavingUnasked = "LeavingUnasked",
        /// The cloud object is gone and is made again.
        Recreating = "Recreating",
        /// All is as declared.
        Steady = "Steady",
        /// A reference leads to no identity.
        ReferenceInvalid = "ReferenceInvalid",
        /// A referenced object is not there.
        ReferenceNotFound = "ReferenceNotFound",
        /// A referenced object is on its way out.
        ReferenceTerminating = "ReferenceTerminating",
        /// A referenced object has no identity yet.
        ReferenceNotReady = "ReferenceNotReady",
        /// The kind of a referenced object is not installed.
        ReferenceKindNotInstalled = "ReferenceKindNotInstalled",
        /// A referenced object may not be read.
        ReferenceForbidden = "ReferenceForbidden",
        /// A referenced object could not be read.
        ReferenceUnavailable = "ReferenceUnavailable",
        /// The cloud would not let us look.
        CloudForbidden = "CloudForbidden",
        /// The cloud asks us to wait.
        CloudThrottled = "CloudThrottled",
        /// The cloud did not answer.
        CloudUnavailable = "CloudUnavailable",
        /// A replica that lags answered for the cloud.
        CloudLagging = "CloudLagging",
        /// Too much vanished at once.
        RailTripped = "RailTripped",
        /// Deletion was seen.
        DeletionSeen = "DeletionSeen",
        /// The object is wanted again although its deletion was seen: nothing is done.
        DeletionForgotten = "DeletionForgotten",
        /// Another party holds the object.
        Held = "Held",
        /// The deletion policy cannot be read.
        PolicyUnreadable = "PolicyUnreadable",
        /// The cloud object is being asked to go.
        DeletingObject = "DeletingObject",
        /// The deletion failed and is tried again.
        DeleteFailed = "DeleteFailed",
        /// The cloud object is on its way out.
        WaitingForDeletion = "WaitingForDeletion",
        /// Absence does not count while a request from before may still arrive.
        QuietTime = "QuietTime",
        /// Nothing was seen, but the identity row is still open.
        UnsettledRows = "UnsettledRows",
        /// Which cloud object it is cannot be said; the policy holds it.
        Orphaned = "Orphaned",
        /// We deleted the cloud object, and it is gone.
        Deleted = "Deleted",
        /// Nothing of ours was there when we came.
        AlreadyAbsent = "AlreadyAbsent",
        /// The cloud object was left alone because the policy says so.
        Abandoned = "Abandoned",
        /// It was let go without its cloud object being known.
        OrphanReleased = "OrphanReleased",
        /// What it names is foreign.
        NotOurs = "NotOurs",
        /// Our finalizer is being taken off.
        RemovingFinalizer = "RemovingFinalizer",
        /// A late driver brought it back; it is being taken away.
        RemovingLate = "RemovingLate",
        /// Nothing is left to do.
        Gone = "Gone",
    }
}
