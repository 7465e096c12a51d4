//! The events of a direct resource: one per transition, in the commit of that transition.

use serde::{Deserialize, Serialize};

use super::proof::Outcome;
use crate::object::closed::closed_set;

closed_set! {
    /// The stable discriminators.
    "direct event type" EventType {
        /// An object was accepted.
        Accepted = "direct.ResourceAccepted",
        /// The cloud object is as declared.
        Ready = "direct.ResourceReady",
        /// Deletion was seen.
        Deleting = "direct.ResourceDeleting",
        /// It was released.
        Deleted = "direct.ResourceDeleted",
    }
}

/// One event about one direct resource.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Event {
    /// An object was accepted.
    Accepted,
    /// The cloud object is as declared.
    Ready,
    /// Deletion was seen.
    Deleting,
    /// It was released.
    Deleted {
        /// How.
        outcome: Outcome,
    },
}

impl Event {
    /// Its discriminator.
    pub const fn event_type(&self) -> EventType {
        match self {
            Self::Accepted => EventType::Accepted,
            Self::Ready => EventType::Ready,
            Self::Deleting => EventType::Deleting,
            Self::Deleted { .. } => EventType::Deleted,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_discriminators_are_the_contract() {
        let outcome = Outcome::Deleted;
        let cases = [
            (Event::Accepted, "direct.ResourceAccepted"),
            (Event::Ready, "direct.ResourceReady"),
            (Event::Deleting, "direct.ResourceDeleting"),
            (Event::Deleted { outcome }, "direct.ResourceDeleted"),
        ];
        assert_eq!(cases.len(), EventType::ALL.len());
        for (event, word) in cases {
            assert_eq!(event.event_type().as_str(), word);
        }
        let words: Vec<_> = Outcome::ALL.iter().map(|it| it.as_str()).collect();
        let outcomes = ["Deleted", "AlreadyAbsent", "Abandoned", "OrphanReleased", "NotOurs"];
        assert_eq!(words, outcomes);
    }
}
