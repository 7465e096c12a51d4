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

/// The rule that each world breaks.
#[derive(Clone, Copy, Debug, Default)]
pub struct Broken {
    /// In the broker's world.
    pub broker: Option<broker::breakage::Breakage>,
    /// In the Usages' world.
    pub usage: Option<usage::breakage::Breakage>,
    /// In the world of direct resources.
    pub direct: Option<direct::breakage::Breakage>,
    /// In the fleet's world.
    pub fleet: Option<fleet::breakage::Breakage>,
}

impl Breakage {
    /// What it breaks in each world; nothing, if it breaks what joins them.
    pub fn in_worlds(self) -> Broken {
        use direct::breakage::Breakage as Direct;
        use {broker::breakage::Breakage as Broker, fleet::breakage::Breakage as Fleet};
        let none = Broken::default();
        match self {
            Self::BypassAdmission | Self::DropFinalizers | Self::KeepMachine => none,
            Self::TrustForeground => Broken { broker: Some(Broker::TrustForeground), ..none },
            Self::SwapTeardown => Broken { broker: Some(Broker::SwapTeardown), ..none },
            Self::LeavingIsGone => {
                Broken { usage: Some(usage::breakage::Breakage::LeavingIsGone), ..none }
            }
            Self::ReleaseOnError => Broken { direct: Some(Direct::ErrorIsAbsent), ..none },
            Self::ReleaseBeforeVerify => {
                Broken { direct: Some(Direct::ReleaseBeforeVerify), ..none }
            }
            Self::ClearOnTransitional => Broken { fleet: Some(Fleet::ClearOnTransitional), ..none },
        }
    }
}
