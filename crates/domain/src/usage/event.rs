//! The events of a Usage: one per transition, in the commit of that transition.

use serde::{Deserialize, Serialize};
use usher_kernel::Uid;

use super::attempt::Outcome;
use super::reference::ObjectKey;
use crate::object::closed::closed_set;

closed_set! {
    /// The stable discriminators of the events.
    "usage event type" EventType {
        /// Everything the Usage names is protected.
        Protected = "usage.Protected",
        /// Something that was protected is not any more.
        Exposed = "usage.Exposed",
        /// A denied deletion was done, or will not be done.
        AttemptSettled = "usage.AttemptSettled",
        /// Nothing is held any more.
        Released = "usage.Released",
    }
}

/// One event about one Usage.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Event {
    /// Everything it names is protected, and the server was seen to refuse.
    Protected,
    /// Something that was protected is not any more.
    Exposed,
    /// A denied deletion was done, or will not be done.
    AttemptSettled {
        /// The object.
        object: ObjectKey,
        /// Which incarnation.
        uid: Uid,
        /// What became of it.
        outcome: Outcome,
    },
    /// Nothing is held any more.
    Released,
}

impl Event {
    /// Its discriminator.
    pub const fn event_type(&self) -> EventType {
        match self {
            Self::Protected => EventType::Protected,
            Self::Exposed => EventType::Exposed,
            Self::AttemptSettled { .. } => EventType::AttemptSettled,
            Self::Released => EventType::Released,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::usage::fixture::key;

    #[test]
    fn the_discriminators_are_the_contract() {
        let settled = Event::AttemptSettled {
            object: key("db"),
            uid: Uid::new("a"),
            outcome: Outcome::Deleted,
        };
        let cases = [
            (Event::Protected, "usage.Protected"),
            (Event::Exposed, "usage.Exposed"),
            (settled, "usage.AttemptSettled"),
            (Event::Released, "usage.Released"),
        ];
        assert_eq!(cases.len(), EventType::ALL.len());
        for (event, word) in cases {
            assert_eq!(event.event_type().as_str(), word);
            assert_eq!(word.parse(), Ok(event.event_type()));
        }
    }
}
