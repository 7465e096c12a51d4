//! The finite facts a decision may branch on, and nothing else.
//!
//! [`RowFacts`] come from the row (and the clock), [`Facts`] from one observation. Their product
//! is what the transition table covers, cell by cell.

use usher_kernel::Visibility;

use super::phase::Phase;
use crate::blueprint::MeshRole;
use crate::object::closed::closed_set;

/// What the row says about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowFacts {
    pub phase: Phase,
    /// Whether deletion was requested.
    pub intent: Intent,
    /// The progress of the current generation.
    pub generation_state: GenerationState,
    /// Whether a node belongs to the substrate.
    pub role: MeshRole,
    /// How far the row is from being allowed to end.
    pub finalization: Finalization,
}

/// What one observation saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// How far the answers can be trusted.
    pub visibility: Visibility,
    /// The project's namespace.
    pub gate: Gate,
    /// The anchor of the generation (during teardown: of any generation).
    pub anchor: Anchor,
    /// The bootstrap token of the generation.
    pub token: Token,
    /// The state of the ProviderConfig.
    pub config: Config,
    pub xr: Xr,
    /// What the XR composed.
    pub composed: Composed,
    /// The node (during teardown: of any generation).
    pub node: Node,
    /// What guards the XR against deletion.
    pub protection: Protection,
}

closed_set! {
    /// Whether deletion was requested; it wins over every phase.
    "intent" Intent {
        /// The resource is to exist.
        None = "None",
        /// Deletion was recorded.
        Requested = "Requested",
    }

    /// The progress of the current generation.
    "generation_state" GenerationState {
        /// Its XR was never seen: absence means "not made yet".
        Fresh = "Fresh",
        /// Its XR was seen: absence means "lost".
        Live = "Live",
        /// It is being torn down; the next generation follows.
        Leaving = "Leaving",
    }

    /// How far the row is from being allowed to end.
    "finalization" Finalization {
        /// A request from before the teardown may still arrive: absence does not count.
        InFlight = "InFlight",
        /// Some identity row is still open.
        Open = "Open",
        /// Every identity row is gone, foreign or abandoned.
        Settled = "Settled",
    }

    /// The project's namespace.
    "gate" Gate {
        /// It is ready.
        Ready = "Ready",
        /// It is not.
        NotReady = "NotReady",
        /// Unknown.
        Unknown = "Unknown",
    }

    /// An anchor.
    "anchor" Anchor {
        /// There is none.
        Absent = "Absent",
        /// Ours, but its uid is not in the ledger yet.
        Unrecorded = "Unrecorded",
        /// Ours and recorded.
        Ours = "Ours",
        /// Ours and being deleted.
        Leaving = "Leaving",
        /// A foreign object has its name.
        Foreign = "Foreign",
        /// Unknown.
        Unknown = "Unknown",
    }

    /// The bootstrap token of the generation.
    "token" Token {
        /// None was issued.
        None = "None",
        /// Issued: redeemable or already redeemed.
        Issued = "Issued",
        /// It ran out before it was redeemed.
        Expired = "Expired",
        /// It was revoked before it was redeemed.
        Revoked = "Revoked",
    }

    /// The state of the ProviderConfig.
    "config" Config {
        /// Seen and ready to be referred to.
        Ready = "Ready",
        /// Not yet.
        Waiting = "Waiting",
    }

    /// The XR.
    "xr" Xr {
        /// Nothing has its name.
        Absent = "Absent",
        /// Ours, neither ready nor failed.
        Converging = "Converging",
        /// Ours and ready.
        Ready = "Ready",
        /// Ours and ready, but not as it should be rendered.
        Drifted = "Drifted",
        /// Ours, with the deliberate mark of terminal failure.
        Failed = "Failed",
        /// Ours and being deleted.
        Deleting = "Deleting",
        /// Ours by proof, but not the one that was recorded.
        Replaced = "Replaced",
        /// A foreign object has its name.
        Foreign = "Foreign",
        /// Unknown.
        Unknown = "Unknown",
    }

    /// What the XR composed.
    "composed" Composed {
        /// Nothing is left of it.
        None = "None",
        /// Something is there, or announced, that the ledger does not name yet.
        Unrecorded = "Unrecorded",
        /// Something that the ledger names is not proven gone.
        Present = "Present",
        /// A kind was removed from the world: the object is gone, the cloud is not proven empty.
        KindRemoved = "KindRemoved",
        /// Unknown.
        Unknown = "Unknown",
    }

    /// The node.
    "node" Node {
        /// None ever registered.
        None = "None",
        /// Registered.
        Live = "Live",
        /// Registered, without a heartbeat for too long.
        Lost = "Lost",
        /// It was registered and has been deregistered.
        Left = "Left",
        /// Unknown.
        Unknown = "Unknown",
    }

    /// What guards the XR against deletion.
    "protection" Protection {
        /// None.
        None = "None",
        /// Only we.
        Ours = "Ours",
        /// Another party.
        Another = "Another",
        /// Unknown.
        Unknown = "Unknown",
    }
}
