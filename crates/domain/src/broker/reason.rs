//! Why a resource is where it is: one closed set for conditions, metrics, answers and the runbook.

use crate::object::reasons::reasons;
use crate::object::unknown::unknown_reasons;

reasons! {
    /// Why a decision did what it did, or why it waits.
    "reason" Reason {
        NamespaceNotReady: Warning "the namespace of its project is not ready"
            => "the placement of the project is not ready; nothing was made and no token issued",
            "wait for the placement, see `usher get placements`; it continues by itself";
        CreatingAnchor: Info "its anchor is being created";
        RecordingAnchor: Info "its anchor is recorded before anything is created under it";
        AnchorNameTakenByAnother: Critical "another owner's object has the name of its anchor"
            => "an object without our labels has a name of ours in world {world}",
            "remove or rename that object; nothing that is not ours is touched";
        AnchorLost: Warning "its anchor is gone, so its substrate will be garbage collected"
            => "the anchor was removed in world {world}",
            "wait: a new generation follows once the substrate is gone";
        IssuingToken: Info "its bootstrap token is being issued";
        WaitingForProviderConfig: Warning "its ProviderConfig does not exist yet"
            => "the ProviderConfig is reconciled on its own; see the blockers",
            "wait; if it lasts, inspect the objects in world {world}";
        CreatingSubstrate: Info "its substrate is being created";
        NameTakenByAnother: Critical "another owner's object has its name"
            => "an object without our labels has a name of ours in world {world}",
            "remove or rename that object; nothing that is not ours is touched";
        RecordingSubstrate: Info "its substrate is recorded before it is written again";
        WaitingForSubstrate: Info "its substrate is being created and is not ready";
        SubstrateTerminating: Warning "its substrate is being deleted from outside"
            => "the deletion was requested outside Usher; it cannot be undone",
            "wait: a new generation with a new node follows by itself";
        SubstrateLost: Warning "its substrate vanished; a new generation follows"
            => "the substrate was deleted outside Usher",
            "wait: it becomes Ready again with a new node; no action is needed";
        SubstrateReplaced: Warning
            "another object took the place of its substrate; a new generation follows"
            => "the substrate was replaced outside Usher",
            "wait: it becomes Ready again with a new node; no action is needed";
        WaitingForNode: Info "its substrate is ready and its node has not registered";
        TokenExpired: Critical "its bootstrap token expired before a node redeemed it"
            => "an expired token is never issued again for the same substrate",
            "`usher retry {name} --replace` for a new substrate with a new token";
        TokenRevoked: Critical "its bootstrap token was revoked before a node redeemed it"
            => "no node can enrol with it any more",
            "`usher retry {name} --replace` for a new substrate with a new token";
        NodeLost: Critical "its node registered and sends no heartbeats any more"
            => "the agent hangs or its machine is down; an agent that ended is started again",
            "inspect the machine; `usher retry {name} --replace` for a new one";
        NodeRemoved: Critical "its node was removed from the mesh"
            => "a node that left cannot rejoin with a used token",
            "`usher retry {name} --replace` for a new one";
        Degraded: Warning "it was ready and its substrate is not at the moment"
            => "the composition repairs it; a transient loss of readiness changes no phase",
            "wait, or `usher retry {name} --replace` for a new substrate";
        CorrectingDrift: Info "its substrate differs from what was declared; it is written again";
        AsDeclared: Info "everything is as declared";
        ProvisioningFailed: Critical "its substrate failed for good: {failure}"
            => "the composition reported a terminal failure; a failed resource stays failed",
            "`usher deprovision {name}`, fix the cause, and declare it anew";
        DrainingNode: Info "its node is being drained and removed from the mesh";
        ReleasingProtection: Info "our own protection of its substrate is being released";
        InUse: Warning "its substrate is in use by another object"
            => "an object in world {world} is marked as in use by another",
            "end that use; the deletion continues by itself";
        RecordingComposedResources: Info
            "its composed resources are recorded before its deletion is requested";
        DeletingSubstrate: Info "the deletion of its substrate is being requested";
        WaitingForDeletion: Info "the deletion of its substrate was requested and is not done";
        WaitingForComposedResources: Info
            "its substrate is gone; some of its composed resources are not";
        KindRemoved: Critical "its composed resources cannot be proven gone"
            => "a kind was removed from world {world}; the cloud may still hold its objects",
            "inspect the cloud account, then `usher abandon {name}`";
        InFlightGrace: Info "an earlier request may still arrive; it waits until none can";
        DeletingAnchor: Info "the deletion of its anchor is being requested";
        NamesNotYetGone: Warning "nothing was seen, and some recorded name is not proven gone yet"
            => "a name was recorded and no certain answer about it was received",
            "see `usher receipt {name}`; it is checked again by itself";
        GenerationReplaced: Info "the old generation is gone and the next one begins";
        Gone: Info "nothing is left";
        Unreachable: Warning "a dependency does not answer"
            => "world {world} cannot be read; nothing is taken for absent",
            "restore it; it continues by itself";
        Forbidden: Critical "a dependency denies access"
            => "rights are missing in world {world}; nothing is taken for absent",
            "grant the rights again; it continues by itself";
        ClusterReplaced: Critical "world {world} is not the one that was pinned"
            => "it was rebuilt or restored from an older state: absence proves nothing",
            "restore the pinned world, or `usher abandon {name}`";
        MassDeletionGuardTripped: Critical "too many objects vanished at once in world {world}"
            => "more objects vanished than the mass-deletion guard allows; none counts as gone",
            "inspect the world; if they are gone, `usher retry --reset-guard {world}`";
        NodeStateUnknown: Warning "it is not known whether its node is registered"
            => "the peers could not be read",
            "restore the database; it continues by itself";
        ProvisioningOverdue: Warning "its substrate takes longer to create than it should"
            => "the composition is slow or retries; that is no failure until it reports one",
            "inspect world {world}; deprovision it if it is not needed any more";
        EnrolmentOverdue: Critical "its node should have registered by now"
            => "the machine did not boot, its agent cannot reach this server, or it is refused",
            "inspect the machine's log; `usher retry {name} --replace` for a new one";
        DrainOverdue: Warning "its node should have left by now"
            => "the node is neither deregistered nor lost; the substrate is not touched before",
            "wait: it is deregistered by force when its grace has passed; see the blockers";
        TeardownOverdue: Critical "what is left of it should be gone by now"
            => "something holds a part of it; see the blockers with their ages",
            "release what holds it; `usher abandon {name}` is the last resort";
    }
}

unknown_reasons!(Reason);

/// What a wait is called once its phase's deadline has passed.
const OVERDUE: [(Reason, Reason); 5] = [
    (Reason::WaitingForSubstrate, Reason::ProvisioningOverdue),
    (Reason::WaitingForNode, Reason::EnrolmentOverdue),
    (Reason::DrainingNode, Reason::DrainOverdue),
    (Reason::WaitingForDeletion, Reason::TeardownOverdue),
    (Reason::WaitingForComposedResources, Reason::TeardownOverdue),
];

impl Reason {
    /// The reason once the phase's deadline has passed. A deadline never changes the phase, and a
    /// reason that already names its cause stays.
    #[must_use]
    pub fn overdue(self) -> Self {
        OVERDUE.iter().find(|(it, _)| *it == self).map_or(self, |(_, overdue)| *overdue)
    }
}
