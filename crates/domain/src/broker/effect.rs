//! The effects of a resource, with the names they use. None carries a secret.

use usher_kernel::{Generation, Name, Uid};

use super::verdict::EffectKind;
use crate::object::id::TokenId;

/// One repeatable verb.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Create this anchor; "exists and ours" is success.
    CreateAnchor {
        /// The anchor.
        anchor: Name,
    },
    /// Issue this token unless it was issued or the resource no longer needs it.
    IssueToken {
        /// The token.
        token: TokenId,
        /// The generation it belongs to.
        generation: Generation,
    },
    /// Create the XR under the anchor, or apply it onto the object with this uid.
    Apply {
        /// The XR.
        xr: Name,
        /// The object that was seen; `None` creates.
        uid: Option<Uid>,
        /// The anchor's uid, for the owner reference.
        anchor: Uid,
    },
    /// Show the node that redeemed this token out of the mesh.
    DeregisterNode {
        /// The token.
        token: TokenId,
    },
    /// Release our own guard on the XR with this uid.
    ReleaseProtection {
        /// The XR.
        xr: Name,
        /// The only object whose guard may be released.
        uid: Uid,
    },
    /// Delete the XR with this uid, in the foreground.
    DeleteSubstrate {
        /// The XR.
        xr: Name,
        /// The only object that may be deleted.
        uid: Uid,
    },
    /// Delete the anchor with this uid.
    DeleteAnchor {
        /// The anchor.
        anchor: Name,
        /// The only object that may be deleted.
        uid: Uid,
    },
}

impl Effect {
    /// Which verb this is.
    pub const fn kind(&self) -> EffectKind {
        match self {
            Self::CreateAnchor { .. } => EffectKind::CreateAnchor,
            Self::IssueToken { .. } => EffectKind::IssueToken,
            Self::Apply { .. } => EffectKind::Apply,
            Self::DeregisterNode { .. } => EffectKind::DeregisterNode,
            Self::ReleaseProtection { .. } => EffectKind::ReleaseProtection,
            Self::DeleteSubstrate { .. } => EffectKind::DeleteSubstrate,
            Self::DeleteAnchor { .. } => EffectKind::DeleteAnchor,
        }
    }
}
