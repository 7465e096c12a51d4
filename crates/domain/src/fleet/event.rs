//! The events of a machine: one per transition, however it was learned.

use serde::{Deserialize, Serialize};

use super::ident::ClusterId;
use super::phase::Phase;
use crate::object::closed::closed_set;

closed_set! {
    /// The stable discriminators of the four events.
    "event type" EventType {
        /// It crossed into another phase.
        Moved = "fleet.MachineMoved",
        /// Its provider names another cluster.
        Disputed = "fleet.MachineDisputed",
        /// Its binding is not in dispute any more.
        Settled = "fleet.MachineSettled",
        /// Its provider does not know it any more.
        Gone = "fleet.MachineGone",
    }
}

/// One event about one machine, for the cluster that it is, or was until now, bound to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// What happened.
    pub kind: EventType,
    /// Where it was.
    pub from: Phase,
    /// Where it is.
    pub to: Phase,
    /// The cluster it concerns.
    pub cluster: Option<ClusterId>,
    /// Why it failed.
    pub error: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    // Requirement: F-35
    #[test]
    fn the_discriminators_are_the_contract() {
        let words: Vec<_> = EventType::ALL.iter().map(|it| it.as_str()).collect();
        let expected = [
            "fleet.MachineMoved",
            "fleet.MachineDisputed",
            "fleet.MachineSettled",
            "fleet.MachineGone",
        ];
        assert_eq!(words, expected);
    }
}
