//! Everything that can go wrong in the broker's world.

use crate::fault::faults;

faults! {
    /// A part of the world does not answer.
    Unreachable = "part unreachable",
    /// A part of the world may not be read.
    Forbidden = "part forbidden",
    /// A read comes from a replica that lags behind.
    Lagging = "lagging read",
    /// The cluster was rebuilt and answers 404 to everything.
    Rebuilt = "cluster rebuilt",
    /// Every read shows an empty world for a while, although every object exists.
    EmptyReads = "everything absent for a while",
    /// Another client deletes our XR.
    XrDeleted = "XR deleted from outside",
    /// Another client deletes our anchor.
    AnchorDeleted = "anchor deleted from outside",
    /// Another client deletes something our XR composed; the composer makes it again.
    PartDeleted = "composed object deleted from outside",
    /// Another client deletes our ProviderConfig.
    ConfigDeleted = "ProviderConfig deleted from outside",
    /// Another owner's object takes our XR's name.
    ForeignXr = "foreign object under the XR's name",
    /// A restored copy, with our labels and not under our anchor, takes our XR's name.
    RestoredXr = "restored copy under the XR's name",
    /// Another client takes the labels off an object on record.
    Stripped = "labels taken off an object on record",
    /// Another owner's object takes our anchor's name.
    ForeignAnchor = "foreign object under the anchor's name",
    /// The namespace is not ready for a while.
    NamespaceNotReady = "namespace not ready",
    /// The clock jumps ahead.
    ClockJump = "clock jump",
    /// The collector does not see a kind for a while.
    BlindCollector = "collector blind to a kind",
    /// The XR vanishes while its children live.
    XrBeforeChildren = "XR gone before its children",
    /// The composer creates a child of an XR that is gone.
    LateComposer = "child composed after its XR was gone",
    /// A kind is removed from the cluster for a while.
    KindRemoved = "composed kind removed",
    /// An agent boots late.
    AgentLate = "agent late",
    /// An agent never boots.
    AgentNever = "agent never boots",
    /// The agent of an old generation tries to enrol.
    OldAgent = "old generation's agent enrols late",
    /// An agent enrolled and its answer is lost.
    EnrolmentAnswerLost = "answer of an enrolment lost",
    /// The clock jumps so far ahead that every bootstrap token has run out.
    DayJump = "clock jump beyond a token's lifetime",
    /// No heartbeat of a node is received for a while.
    NodeLost = "node lost",
    /// Another client removes the node from the mesh.
    NodeRemoved = "node removed from outside",
    /// Another client guards the XR for a while.
    Guarded = "XR guarded by another",
    /// The watch is down for a while; a listing replaces what was missed.
    WatchDown = "watch down",
    /// Everything in the world vanishes at once.
    MassVanish = "mass disappearance",
    /// The composition declares the attempt hopeless.
    Hopeless = "composition declares failure",
    /// A ready XR is not ready for a moment.
    Flap = "XR not ready for a moment",
    /// The labels change after the XR was rendered.
    Drift = "labels changed",
}
