//! Everything that can go wrong in the world of Usages.

use crate::fault::faults;

faults! {
    /// An object cannot be read.
    Unreachable = "object unreachable",
    /// An object may not be read.
    Forbidden = "object forbidden",
    /// The other Usages cannot be listed.
    ListFails = "usages cannot be listed",
    /// A read comes from a replica that lags behind.
    Lagging = "lagging read",
    /// The cluster was rebuilt and answers 404 to everything.
    Rebuilt = "cluster rebuilt",
    /// Much seems absent or made again, and the mass-deletion guard has tripped.
    Guarded = "much absent or replaced while the guard holds",
    /// The clock jumps ahead.
    ClockJump = "clock jump",
    /// The watch is down for a while; a listing replaces what was missed.
    WatchDown = "watch down",
    /// The index of a webhook lags far behind.
    IndexLags = "index of a webhook lags",
    /// Every webhook is down for a while.
    WebhookDown = "webhook down",
    /// The index cannot catch up, so that a request is denied.
    NoBarrier = "index cannot catch up",
    /// What was denied is not recorded.
    RecordLost = "record of a denial lost",
    /// The collector does nothing for a while.
    CollectorAsleep = "collector asleep",
    /// Another client takes a mark off through the API server.
    Stripped = "mark taken off by an update",
    /// Another client takes a mark off past admission.
    ForcedStrip = "mark taken off past admission",
    /// Another client writes nonsense over a mark.
    Scribbled = "mark overwritten",
    /// Another client takes our finalizer off a Usage.
    FinalizerStripped = "finalizer taken off a usage",
    /// A kind is removed with all its objects, and reappears.
    KindRemoved = "kind removed",
    /// Another client deletes a used object.
    TargetDeleted = "used object deleted from outside",
    /// Another client deletes a user.
    UserDeleted = "user deleted from outside",
    /// Another client deletes a Usage.
    UsageDeleted = "usage deleted from outside",
    /// A dry run of a deletion.
    DryRun = "deletion tried in a dry run",
    /// Another client breaks the glass.
    BreakGlass = "glass broken",
    /// An object that is gone is made again under its name.
    Recreated = "object made again under its name",
    /// A restored copy carries the mark of the object that was.
    Restored = "restored copy carries a mark",
    /// The declaration of a Usage refers to something else.
    Edited = "declaration edited",
    /// A recorded deletion is withdrawn.
    Withdrawn = "recorded deletion withdrawn",
    /// The owners of a used object change.
    OwnersChanged = "owners of a used object changed",
    /// A namespace is deleted.
    NamespaceDeleted = "namespace deleted",
    /// One of Crossplane's Usages blocks a used object for a while.
    Crossplane = "usage of Crossplane blocks",
    /// Two Usages that close a circle are admitted at the same time.
    Circle = "circle admitted by a race",
}
