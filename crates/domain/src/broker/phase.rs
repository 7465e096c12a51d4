//! The eight phases of a provisioned resource.

use crate::object::closed::closed_set;

closed_set! {
    /// Where a resource is: the shadow of what was seen, not a program counter.
    "phase" Phase {
        /// Declared; nothing of the current generation has been seen outside.
        Pending = "Pending",
        /// The XR exists and is not ready.
        Provisioning = "Provisioning",
        /// The XR is ready and its node has not registered.
        Enrolling = "Enrolling",
        /// The XR is ready and, where the blueprint has one, its node has registered.
        Ready = "Ready",
        /// The composition declared the attempt failed for good; sticky until deletion is
        /// requested.
        Failed = "Failed",
        /// Deletion was requested and the node is being removed from the mesh.
        Deregistering = "Deregistering",
        /// The node is gone and the substrate is being deleted.
        Deprovisioning = "Deprovisioning",
        /// Nothing is left; sticky.
        Deleted = "Deleted",
    }
}

impl Phase {
    /// Whether this is one of the three phases of teardown.
    pub const fn is_leaving(self) -> bool {
        match self {
            Self::Deregistering | Self::Deprovisioning | Self::Deleted => true,
            Self::Pending | Self::Provisioning | Self::Enrolling | Self::Ready | Self::Failed => {
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Requirement: B-3
    #[test]
    fn the_last_three_of_the_eight_words_are_those_of_teardown() {
        let found: Vec<_> = Phase::ALL.iter().map(|it| (it.as_str(), it.is_leaving())).collect();
        let expected = [
            ("Pending", false),
            ("Provisioning", false),
            ("Enrolling", false),
            ("Ready", false),
            ("Failed", false),
            ("Deregistering", true),
            ("Deprovisioning", true),
            ("Deleted", true),
        ];
        assert_eq!(found, expected);
    }
}
