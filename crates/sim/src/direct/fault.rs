//! What can go wrong in the direct world.

crate::fault::faults! {
    /// The cloud does not answer.
    Unavailable = "cloud unavailable",
    /// The cloud refuses to be read.
    Forbidden = "cloud forbidden",
    /// The cloud asks us to wait.
    Throttled = "cloud throttled",
    /// A read comes from a replica that lags behind.
    Lagging = "lagging read",
    /// Every read shows an empty cloud for a while, although every cloud object exists.
    EmptyReads = "everything absent for a while",
    /// Every read of the cluster shows no object for a while, although all exist.
    ObjectsAbsent = "every object absent for a while",
    /// It is not said which operations run.
    OperationsUnknown = "operations unknown",
    /// An operation takes long.
    OperationSlow = "operation slow",
    /// An operation fails.
    OperationFails = "operation failed",
    /// A create is delayed in flight, beyond every bound.
    HeldUp = "create held up beyond its bound",
    /// Another owner's cloud object takes our name while it is free.
    NameTaken = "foreign object under the name",
    /// A cloud object of another installation takes our name while it is free.
    OtherInstallation = "another installation's object under the name",
    /// Another client deletes our cloud object.
    CloudDeleted = "cloud object deleted from outside",
    /// Another client deletes our cloud object and puts another one in its place.
    Replaced = "cloud object replaced from outside",
    /// Another client changes our cloud object.
    CloudChanged = "cloud object changed from outside",
    /// The container vanishes with everything in it.
    ContainerDeleted = "container deleted",
    /// A parent object is deleted.
    ParentDeleted = "parent deleted",
    /// A parent object is being deleted for a while.
    ParentTerminating = "parent terminating",
    /// A parent has no identity for a while.
    ParentNotReady = "parent not ready",
    /// The kind of the parents is not installed for a while.
    KindNotInstalled = "kind not installed",
    /// A referenced object may not be read.
    ReferenceForbidden = "reference forbidden",
    /// A referenced object could not be read.
    ReferenceUnavailable = "reference unavailable",
    /// A configuration reference leads nowhere for a while.
    ConfigMissing = "configuration reference missing",
    /// The ledger is restored without the record's row; the status is lost with it.
    LedgerLost = "ledger lost",
    /// The ledger is restored without the record's row, and the object carries no stamp.
    RecordLost = "ledger and stamp lost",
    /// Another client takes the stamp off.
    StampStripped = "stamp taken off",
    /// Another client edits the stamp.
    StampMalformed = "ledger lost and stamp malformed",
    /// An object without a record, or with a lost one, gets a stamp that names another's cloud
    /// object.
    StampForged = "stamp forged",
    /// Another client takes our finalizer off.
    FinalizerStripped = "finalizer taken off",
    /// A restore brings an object back that was released.
    Restored = "object restored after its end",
    /// Another client makes a copy of the object.
    Copied = "object copied",
    /// Two objects declare one cloud object.
    SameIdentity = "two objects with one identity",
    /// The spec is edited so that it declares another identity.
    IdentityEdited = "spec edited to another identity",
    /// The spec is edited.
    SpecEdited = "spec edited",
    /// The policy is edited.
    PolicyEdited = "policy edited",
    /// The policy is misspelt.
    PolicyMisspelt = "policy misspelt",
    /// Another client holds the object for a while.
    Held = "held by another finalizer",
    /// The API server does not answer.
    ObjectUnknown = "object unknown",
    /// The cluster was rebuilt and answers 404 to everything.
    Rebuilt = "cluster rebuilt",
    /// The whole namespace is deleted, parents and children in any order.
    NamespaceDeleted = "namespace deleted",
    /// The clock jumps ahead.
    ClockJump = "clock jump",
    /// The watch is down for a while; a listing replaces what was missed.
    WatchDown = "watch down",
}
