//! Why a resource is where it is: one closed set for conditions, metrics and answers.

use crate::object::closed::closed_set;
use crate::object::unknown::unknown_reasons;

closed_set! {
    /// Why a decision did what it did, or why it waits.
    "reason" Reason {
        /// The project's namespace is not ready.
        NamespaceNotReady = "NamespaceNotReady",
        /// The anchor of the generation is being created.
        CreatingAnchor = "CreatingAnchor",
        /// The anchor's uid is recorded before anything is created under it.
        RecordingAnchor = "RecordingAnchor",
        /// A foreign object has the anchor's name.
        AnchorNameTaken = "AnchorNameTaken",
        /// The anchor is gone: the substrate under it will be collected.
        AnchorLost = "AnchorLost",
        /// The bootstrap token of the generation is being issued.
        IssuingToken = "IssuingToken",
        /// The ProviderConfig is not there yet.
        WaitingForProviderConfig = "WaitingForProviderConfig",
        /// The XR is being created.
        CreatingSubstrate = "CreatingSubstrate",
        /// A foreign object has the XR's name.
        NameTaken = "NameTaken",
        /// The XR is recorded as seen before it is written again.
        RecordingSubstrate = "RecordingSubstrate",
        /// The XR exists and is not ready.
        WaitingForSubstrate = "WaitingForSubstrate",
        /// The XR was deleted from outside and is on its way out.
        SubstrateLeaving = "SubstrateLeaving",
        /// The XR vanished: the generation is torn down and a new one follows.
        SubstrateLost = "SubstrateLost",
        /// Another object took the XR's place: the generation is torn down.
        SubstrateReplaced = "SubstrateReplaced",
        /// The substrate is ready and its node has not registered.
        WaitingForNode = "WaitingForNode",
        /// The bootstrap token ran out before a node redeemed it.
        TokenExpired = "TokenExpired",
        /// The bootstrap token was revoked before a node redeemed it.
        TokenRevoked = "TokenRevoked",
        /// The node registered and is not heard any more.
        NodeLost = "NodeLost",
        /// The node registered and was removed from the mesh.
        NodeRemoved = "NodeRemoved",
        /// The XR was ready and is not at the moment.
        Degraded = "Degraded",
        /// The XR is ready but not as it should be rendered; it is written again.
        Correcting = "Correcting",
        /// All is as declared.
        Steady = "Steady",
        /// The composition declared the attempt hopeless.
        ProvisioningFailed = "ProvisioningFailed",
        /// The node is being torn down of the mesh.
        DrainingNode = "DrainingNode",
        /// Our own guard on the XR is being released.
        ReleasingProtection = "ReleasingProtection",
        /// Another party guards the XR.
        InUse = "InUse",
        /// What the XR composed is recorded before its deletion is asked for.
        RecordingComposed = "RecordingComposed",
        /// The XR's deletion is being asked for.
        DeletingSubstrate = "DeletingSubstrate",
        /// The XR is on its way out.
        WaitingForDeletion = "WaitingForDeletion",
        /// The XR is gone; something that it composed is not.
        WaitingForComposed = "WaitingForComposed",
        /// A composed kind was removed from the world, so its objects cannot be proven gone.
        KindRemoved = "KindRemoved",
        /// Absence does not count before the quiet time has passed.
        QuietTime = "QuietTime",
        /// The anchor's deletion is being asked for.
        DeletingAnchor = "DeletingAnchor",
        /// Nothing was seen, but some identity row is still open.
        UnsettledRows = "UnsettledRows",
        /// The old generation is gone and the next one begins.
        GenerationReplaced = "GenerationReplaced",
        /// Nothing is left.
        Gone = "Gone",
        /// An authority that must answer did not.
        Unreachable = "Unreachable",
        /// An authority that must answer refused access.
        Forbidden = "Forbidden",
        /// The world is not the one that was pinned: absence proves nothing.
        ClusterReplaced = "ClusterReplaced",
        /// Too much vanished at once: absence is held until an operator opens the rail.
        RailTripped = "RailTripped",
        /// The peers could not be asked.
        NodeUnknown = "NodeUnknown",
        /// The XR has not become ready within its deadline.
        ProvisioningOverdue = "ProvisioningOverdue",
        /// The node has not registered within its deadline.
        EnrolmentOverdue = "EnrolmentOverdue",
        /// The node has not left within its deadline.
        DrainOverdue = "DrainOverdue",
        /// The substrate has not gone within its deadline.
        TeardownOverdue = "TeardownOverdue",
    }
}

unknown_reasons!(Reason);

impl Reason {
    /// The reason once the phase's deadline has passed. A deadline never changes the phase, and a
    /// reason that already names its cause stays.
    #[must_use]
    pub const fn overdue(self) -> Self {
        match self {
            Self::WaitingForSubstrate => Self::ProvisioningOverdue,
            Self::WaitingForNode => Self::EnrolmentOverdue,
            Self::DrainingNode => Self::DrainOverdue,
            Self::WaitingForDeletion | Self::WaitingForComposed => Self::TeardownOverdue,
            Self::NamespaceNotReady
            | Self::CreatingAnchor
            | Self::RecordingAnchor
            | Self::AnchorNameTaken
            | Self::AnchorLost
            | Self::IssuingToken
            | Self::WaitingForProviderConfig
            | Self::CreatingSubstrate
            | Self::NameTaken
            | Self::RecordingSubstrate
            | Self::SubstrateLeaving
            | Self::SubstrateLost
            | Self::SubstrateReplaced
            | Self::TokenExpired
            | Self::TokenRevoked
            | Self::NodeLost
            | Self::NodeRemoved
            | Self::Degraded
            | Self::Correcting
            | Self::Steady
            | Self::ProvisioningFailed
            | Self::ReleasingProtection
            | Self::InUse
            | Self::RecordingComposed
            | Self::DeletingSubstrate
            | Self::KindRemoved
            | Self::QuietTime
            | Self::DeletingAnchor
            | Self::UnsettledRows
            | Self::GenerationReplaced
            | Self::Gone
            | Self::Unreachable
            | Self::Forbidden
            | Self::ClusterReplaced
            | Self::RailTripped
            | Self::NodeUnknown
            | Self::ProvisioningOverdue
            | Self::EnrolmentOverdue
            | Self::DrainOverdue
            | Self::TeardownOverdue => self,
        }
    }
}
