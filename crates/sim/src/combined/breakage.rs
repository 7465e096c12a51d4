//! Rules broken on purpose in one world, noticed in all of them together.

use crate::words::words;
use crate::{broker, direct, fleet, usage};

words! {
    /// A rule broken on purpose.
    Breakage {
        /// A part is deleted without asking admission.
        BypassAdmission = "bypass-admission",
        /// A part is removed before the record behind it releases it.
        DropFinalizers = "drop-finalizers",
        /// The machine of a part is never released.
        KeepMachine = "keep-machine",
        /// The broker takes what was composed for gone once the XR is.
        TrustForeground = "trust-foreground",
        /// The broker deletes the substrate first, the node afterwards.
        SwapTeardown = "swap-teardown-branches",
        /// A Usage lets go once its user is being deleted.
        LeavingIsGone = "leaving-user-is-gone",
        /// A direct resource is released on any error of a reference.
        ReleaseOnError = "error-is-absent",
        /// A direct resource is released before it was seen to be gone.
        ReleaseBeforeVerify = "release-before-verify",
        /// A machine loses its binding on an answer that is only a beginning.
        ClearOnTransitional = "clear-on-transitional-answer",
    }
}

impl Breakage {
    /// What it breaks in the broker's world.
    pub fn of_broker(self) -> Option<broker::breakage::Breakage> {
        match self {
            Self::TrustForeground => Some(broker::breakage::Breakage::TrustForeground),
            Self::SwapTeardown => Some(broker::breakage::Breakage::SwapTeardown),
            Self::BypassAdmission
            | Self::DropFinalizers
            | Self::KeepMachine
            | Self::LeavingIsGone
            | Self::ReleaseOnError
            | Self::ReleaseBeforeVerify
            | Self::ClearOnTransitional => None,
        }
    }

    /// What it breaks in the Usages' world.
    pub fn of_usage(self) -> Option<usage::breakage::Breakage> {
        match self {
            Self::LeavingIsGone => Some(usage::breakage::Breakage::LeavingIsGone),
            Self::BypassAdmission
            | Self::DropFinalizers
            | Self::KeepMachine
            | Self::TrustForeground
            | Self::SwapTeardown
            | Self::ReleaseOnError
            | Self::ReleaseBeforeVerify
            | Self::ClearOnTransitional => None,
        }
    }

    /// What it breaks in the world of direct resources.
    pub fn of_direct(self) -> Option<direct::breakage::Breakage> {
        match self {
            Self::ReleaseOnError => Some(direct::breakage::Breakage::ErrorIsAbsent),
            Self::ReleaseBeforeVerify => Some(direct::breakage::Breakage::ReleaseBeforeVerify),
            Self::BypassAdmission
            | Self::DropFinalizers
            | Self::KeepMachine
            | Self::TrustForeground
            | Self::SwapTeardown
            | Self::LeavingIsGone
            | Self::ClearOnTransitional => None,
        }
    }

    /// What it breaks in the fleet's world.
    pub fn of_fleet(self) -> Option<fleet::breakage::Breakage> {
        match self {
            Self::ClearOnTransitional => Some(fleet::breakage::Breakage::ClearOnTransitional),
            Self::BypassAdmission
            | Self::DropFinalizers
            | Self::KeepMachine
            | Self::TrustForeground
            | Self::SwapTeardown
            | Self::LeavingIsGone
            | Self::ReleaseOnError
            | Self::ReleaseBeforeVerify => None,
        }
    }
}
