//! The events of a resource: one per transition, in the commit of that transition.

use serde::{Deserialize, Serialize};

use crate::object::closed::closed_set;

closed_set! {
    /// The stable discriminators of the five events.
    "event type" EventType {
        /// A declaration was accepted.
        Requested = "broker.ProvisionedResourceRequested",
        /// The resource crossed into `Ready`.
        Ready = "broker.ProvisionedResourceReady",
        /// The resource crossed into `Failed`.
        Failed = "broker.ProvisionedResourceFailed",
        /// Deletion was accepted.
        Deleting = "broker.ProvisionedResourceDeleting",
        /// The resource crossed into `Deleted`.
        Deleted = "broker.ProvisionedResourceDeleted",
    }

    /// How a resource ended.
    "outcome" Outcome {
        /// Everything it ever had is proven gone or was never ours.
        Removed = "removed",
        /// An operator gave it up; the orphan record names what may be left.
        Abandoned = "abandoned",
    }
}

/// One event about one resource.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Event {
    /// A declaration was accepted.
    Requested,
    /// The resource is ready.
    Ready,
    /// The attempt failed for good.
    Failed {
        /// The message of the XR's own condition, bounded.
        message: String,
    },
    /// Deletion was accepted.
    Deleting,
    /// Nothing is left, or it was abandoned.
    Deleted {
        /// Which of the two.
        outcome: Outcome,
    },
}

impl Event {
    /// Its discriminator.
    pub const fn event_type(&self) -> EventType {
        match self {
            Self::Requested => EventType::Requested,
            Self::Ready => EventType::Ready,
            Self::Failed { .. } => EventType::Failed,
            Self::Deleting => EventType::Deleting,
            Self::Deleted { .. } => EventType::Deleted,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Requirement: V-1
    #[test]
    fn the_discriminators_are_the_contract() {
        let outcome = Outcome::Removed;
        let cases = [
            (Event::Requested, "broker.ProvisionedResourceRequested"),
            (Event::Ready, "broker.ProvisionedResourceReady"),
            (Event::Failed { message: String::new() }, "broker.ProvisionedResourceFailed"),
            (Event::Deleting, "broker.ProvisionedResourceDeleting"),
            (Event::Deleted { outcome }, "broker.ProvisionedResourceDeleted"),
        ];
        assert_eq!(cases.len(), EventType::ALL.len());
        for (event, word) in cases {
            assert_eq!(event.event_type().as_str(), word);
            assert_eq!(word.parse(), Ok(event.event_type()));
        }
        let words: Vec<_> = Outcome::ALL.iter().map(|it| it.as_str()).collect();
        assert_eq!(words, ["removed", "abandoned"]);
    }
}
