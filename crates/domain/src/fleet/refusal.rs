//! The fleet's closed set of refusals: what was wrong, with what, and what to do.

use thiserror::Error;

/// Why a record, a need, a row or a command is refused. Each code has a page.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    /// A text that cannot name anything.
    #[error("cannot use {what} name \"{text}\"")]
    Name {
        /// What was to be named.
        what: &'static str,
        /// The offending text, shortened.
        text: String,
    },
    /// A state that does not exist, or that contradicts the rest of the record.
    #[error("cannot accept a machine in state \"{text}\"")]
    MachineState {
        /// The offending state.
        text: String,
    },
    /// A host that is missing, or there although it cannot be.
    #[error("cannot accept host \"{text}\" in that state")]
    MachineHost {
        /// The host, or nothing.
        text: String,
    },
    /// A cluster that is missing, or there although it cannot be.
    #[error("cannot accept cluster \"{text}\" in that state")]
    MachineBinding {
        /// The cluster, or nothing.
        text: String,
    },
    /// A field that must be there or is too long.
    #[error("cannot accept field \"{what}\" of a machine")]
    MachineField {
        /// The field.
        what: &'static str,
    },
    /// A quantity that is none, is negative, or is beyond all measure.
    #[error("cannot read quantity \"{text}\"")]
    Quantity {
        /// The offending text, shortened.
        text: String,
    },
    /// A price that is none.
    #[error("cannot use price \"{text}\"")]
    Price {
        /// The offending figure.
        text: String,
    },
    /// A probability outside of nothing and certainty.
    #[error("cannot use interruption probability \"{text}\"")]
    Probability {
        /// The offending figure.
        text: String,
    },
    /// A penalty that is none.
    #[error("cannot use penalty \"{text}\"")]
    Penalty {
        /// The offending figure.
        text: String,
    },
    /// A requirement that cannot be asked for.
    #[error("cannot ask for requirement \"{text}\"")]
    Requirement {
        /// The offending requirement.
        text: String,
    },
    /// A need that must be met in one domain.
    #[error("cannot place a gang by \"{text}\"")]
    Gang {
        /// The key that its machines would share.
        text: String,
    },
    /// A need that must be spread over domains.
    #[error("cannot spread a need over \"{text}\"")]
    Spread {
        /// The key that it would be spread over.
        text: String,
    },
    /// A need for nothing.
    #[error("cannot meet a need without resources")]
    NeedEmpty,
    /// A roll-up with more needs than are kept.
    #[error("cannot keep \"{count}\" needs of one cluster: the most is \"{max}\"")]
    DemandTooLong {
        /// How many there were.
        count: usize,
        /// How many there may be.
        max: usize,
    },
    /// A stored row breaks the rules of the machine.
    #[error("cannot accept field \"{what}\"")]
    InvalidInput {
        /// The offending field.
        what: &'static str,
    },
    /// Somebody holds the machine.
    #[error("cannot take machine \"{what}\": it is held")]
    MachineHeld {
        /// The machine.
        what: String,
    },
    /// The machine is not held by whoever lets it go.
    #[error("cannot let go of machine \"{what}\": somebody else holds it, or nobody")]
    MachineNotHeld {
        /// The machine.
        what: String,
    },
    /// The machine is in use, broken or on its way.
    #[error("cannot take machine \"{what}\": it is \"{phase}\"")]
    MachineBusy {
        /// The machine.
        what: String,
        /// Its phase.
        phase: String,
    },
    /// Nothing is in dispute.
    #[error("cannot settle machine \"{what}\": its binding is not in dispute")]
    NotDisputed {
        /// The machine.
        what: String,
    },
}

impl Refusal {
    /// The stable code on the wire and the name of the page that explains it.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Name { .. } => "fleet_name",
            Self::MachineState { .. } => "machine_state",
            Self::MachineHost { .. } => "machine_host",
            Self::MachineBinding { .. } => "machine_binding",
            Self::MachineField { .. } => "machine_field",
            Self::Quantity { .. } => "quantity",
            Self::Price { .. } => "price",
            Self::Probability { .. } => "interruption_probability",
            Self::Penalty { .. } => "penalty",
            Self::Requirement { .. } => "need_requirement",
            Self::Gang { .. } => "gang_unsupported",
            Self::Spread { .. } => "spread_unsupported",
            Self::NeedEmpty => "need_empty",
            Self::DemandTooLong { .. } => "demand_too_long",
            Self::InvalidInput { .. } => "invalid_input",
            Self::MachineHeld { .. } => "machine_held",
            Self::MachineNotHeld { .. } => "machine_not_held",
            Self::MachineBusy { .. } => "machine_busy",
            Self::NotDisputed { .. } => "not_disputed",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn codes() -> Vec<(Refusal, &'static str)> {
        let text = || "x".to_owned();
        let what = text;
        vec![
            (Refusal::Name { what: "shard", text: text() }, "fleet_name"),
            (Refusal::MachineState { text: text() }, "machine_state"),
            (Refusal::MachineHost { text: text() }, "machine_host"),
            (Refusal::MachineBinding { text: text() }, "machine_binding"),
            (Refusal::MachineField { what: "zone" }, "machine_field"),
            (Refusal::Quantity { text: text() }, "quantity"),
            (Refusal::Price { text: text() }, "price"),
            (Refusal::Probability { text: text() }, "interruption_probability"),
            (Refusal::Penalty { text: text() }, "penalty"),
            (Refusal::Requirement { text: text() }, "need_requirement"),
            (Refusal::Gang { text: text() }, "gang_unsupported"),
            (Refusal::Spread { text: text() }, "spread_unsupported"),
            (Refusal::NeedEmpty, "need_empty"),
            (Refusal::DemandTooLong { count: 2, max: 1 }, "demand_too_long"),
            (Refusal::InvalidInput { what: "order" }, "invalid_input"),
            (Refusal::MachineHeld { what: what() }, "machine_held"),
            (Refusal::MachineNotHeld { what: what() }, "machine_not_held"),
            (Refusal::MachineBusy { what: what(), phase: "Idle".to_owned() }, "machine_busy"),
            (Refusal::NotDisputed { what: what() }, "not_disputed"),
        ]
    }

    /// What each of them says.
    const WORDS: [&str; 19] = [
        "cannot use shard name \"x\"",
        "cannot accept a machine in state \"x\"",
        "cannot accept host \"x\" in that state",
        "cannot accept cluster \"x\" in that state",
        "cannot accept field \"zone\" of a machine",
        "cannot read quantity \"x\"",
        "cannot use price \"x\"",
        "cannot use interruption probability \"x\"",
        "cannot use penalty \"x\"",
        "cannot ask for requirement \"x\"",
        "cannot place a gang by \"x\"",
        "cannot spread a need over \"x\"",
        "cannot meet a need without resources",
        "cannot keep \"2\" needs of one cluster: the most is \"1\"",
        "cannot accept field \"order\"",
        "cannot take machine \"x\": it is held",
        "cannot let go of machine \"x\": somebody else holds it, or nobody",
        "cannot take machine \"x\": it is \"Idle\"",
        "cannot settle machine \"x\": its binding is not in dispute",
    ];

    // Requirement: F-41
    #[test]
    fn codes_and_words_are_the_contract() {
        for ((refusal, code), words) in codes().iter().zip(WORDS) {
            assert_eq!((refusal.code(), refusal.to_string().as_str()), (*code, words));
        }
    }

    #[test]
    fn no_two_refusals_share_a_code() {
        let unique: std::collections::BTreeSet<_> = codes().iter().map(|it| it.0.code()).collect();
        assert_eq!(unique.len(), codes().len());
    }
}
