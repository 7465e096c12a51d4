//! Placements: the world and namespace of a project, and whether the namespace exists.

use serde::{Deserialize, Serialize};
use usher_kernel::words;

use crate::object::closed::read_words;
use crate::object::id::ProjectId;
use crate::object::name;
use crate::object::occupancy::{Occupancy, Occupied};

words! {
    /// How far a project's namespace is.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    pub enum NamespacePhase {
        /// Not begun.
        Pending = "Pending",
        /// Being made.
        Provisioning = "Provisioning",
        /// There.
        Ready = "Ready",
        /// There, with something missing.
        Degraded = "Degraded",
        /// Going.
        Terminating = "Terminating",
        /// Gone.
        Deleted = "Deleted",
    }
}

read_words! { "namespace phase" NamespacePhase }

impl NamespacePhase {
    /// Whether something may be applied into the namespace.
    pub const fn ready(self) -> bool {
        match self {
            Self::Ready => true,
            Self::Pending
            | Self::Provisioning
            | Self::Degraded
            | Self::Terminating
            | Self::Deleted => false,
        }
    }
}

/// The place of a project.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placement {
    pub project: ProjectId,
    /// The world it was placed on.
    pub world: String,
    /// How far its namespace is.
    pub phase: NamespacePhase,
}

impl Placement {
    /// The namespace, derived.
    pub fn namespace(&self) -> String {
        name::namespace(self.project)
    }

    /// Whether something may be applied into the namespace.
    pub const fn ready(&self) -> bool {
        self.phase.ready()
    }

    /// The placement once its end was requested; a repeated request changes nothing.
    pub fn terminate(&self, occupancy: Occupancy) -> Result<Self, Occupied> {
        let phase = match self.phase {
            NamespacePhase::Terminating | NamespacePhase::Deleted => self.phase,
            NamespacePhase::Pending
            | NamespacePhase::Provisioning
            | NamespacePhase::Ready
            | NamespacePhase::Degraded => {
                occupancy.vacate()?;
                NamespacePhase::Terminating
            }
        };
        Ok(Self { phase, ..self.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use uuid::Uuid;

    fn placement(phase: NamespacePhase) -> Placement {
        let project = ProjectId::from_uuid(Uuid::from_u128(1));
        Placement { project, world: "local".into(), phase }
    }

    // Requirement: N-4, C-7
    #[test]
    fn only_a_ready_namespace_is_ready() {
        let ready = NamespacePhase::ALL.map(|it| placement(it).ready());
        assert_eq!(ready, [false, false, true, false, false, false]);
        let namespace = placement(NamespacePhase::Ready).namespace();
        assert_eq!(namespace, "usher-project-00000000-0000-0000-0000-000000000001");
    }

    // Requirement: A-20
    #[test]
    fn a_lived_in_namespace_does_not_end() {
        let empty = Occupancy::default();
        let after = NamespacePhase::ALL.map(|it| placement(it).terminate(empty).unwrap().phase);
        let [.., terminating, deleted] = NamespacePhase::ALL;
        assert_eq!(after[..5], [terminating; 5]);
        assert_eq!(after[5], deleted);
        let lived_in = Occupancy { rows: 1, tombstones: 0 };
        for phase in NamespacePhase::ALL {
            let refused = placement(phase).terminate(lived_in).is_err();
            assert_eq!(refused, phase != terminating && phase != deleted, "{phase}");
        }
    }

    // Requirement: C-7
    #[test]
    fn phases_have_words() {
        let words = NamespacePhase::ALL.map(NamespacePhase::as_str);
        let expected = ["Pending", "Provisioning", "Ready", "Degraded", "Terminating", "Deleted"];
        assert_eq!(words, expected);
        for phase in NamespacePhase::ALL {
            assert_eq!(phase.to_string().parse(), Ok(phase));
            assert_eq!(serde_json::to_string(&phase).unwrap(), format!("\"{phase}\""));
        }
        let refusal = "ready".parse::<NamespacePhase>().unwrap_err();
        assert_eq!(refusal.to_string(), "namespace phase \"ready\" is unknown");
    }

    proptest! {
        // Requirement: C-7
        #[test]
        fn garbage_is_no_phase(text in any::<String>()) {
            if let Ok(phase) = text.parse::<NamespacePhase>() {
                prop_assert_eq!(phase.as_str(), text);
            }
        }
    }
}
