//! The fleet's closed set of refusals: what was wrong, with what, and what to do.

use thiserror::Error;
use usher_kernel::coded;

use super::ident::LENGTH_MAX;

coded! {
    /// Why a record, a need, a row or a command is refused. Each code has a page.
    #[derive(Clone, Debug, PartialEq, Eq, Error)]
    pub enum Refusal {
        /// An invalid name.
        #[error(
            "{what} name \"{text}\" is not 1 to {LENGTH_MAX} visible characters \
             without outer blanks"
        )]
        Name {
            /// What was to be named.
            what: &'static str,
            /// The offending text, shortened.
            text: String,
        } = "fleet_name",
        /// A state that does not exist, or that contradicts the rest of the record.
        #[error("machine state \"{0}\" is not one of 1 (Speculative) to 8 (Failed)")]
        MachineState(String) = "machine_state",
        /// A host that is missing, or present in a state without one.
        #[error("host \"{0}\" does not fit the state of the machine")]
        MachineHost(String) = "machine_host",
        /// A cluster that is missing, or present in a state without one.
        #[error("cluster \"{0}\" does not fit the state of the machine")]
        MachineBinding(String) = "machine_binding",
        /// A field that is missing or too long.
        #[error("field \"{0}\" of the machine is missing or too long")]
        MachineField(&'static str) = "machine_field",
        /// A quantity that cannot be parsed, is negative, or is too large.
        #[error("quantity \"{0}\" is not a Kubernetes quantity such as 500m, 2 or 4Gi")]
        Quantity(String) = "quantity",
        /// A price that is negative or not finite.
        #[error("price \"{0}\" is not a finite number of at least 0")]
        Price(String) = "price",
        /// A probability outside of 0 and 1.
        #[error("interruption probability \"{0}\" is not within 0 and 1")]
        Probability(String) = "interruption_probability",
        /// A penalty outside of its buckets.
        #[error("penalty \"{0}\" is not a bucket within 0 and 27")]
        Penalty(String) = "penalty",
        /// A requirement with an invalid key, operator or values.
        #[error(
            "requirement \"{0}\" is not a label key with In, NotIn (values) or Exists, DoesNotExist"
        )]
        Requirement(String) = "need_requirement",
        /// A need that must be met in one domain.
        #[error("gang placement by \"{0}\" is not supported")]
        Gang(String) = "gang_unsupported",
        /// A need that must be spread over domains.
        #[error("spreading over \"{0}\" is not supported")]
        Spread(String) = "spread_unsupported",
        /// A need without resources.
        #[error("the need asks for no resources")]
        NeedEmpty = "need_empty",
        /// A roll-up with more needs than are kept.
        #[error("{count} needs of one cluster are more than {max}")]
        DemandTooLong {
            /// How many there were.
            count: usize,
            /// How many there may be.
            max: usize,
        } = "demand_too_long",
        /// A stored row breaks the rules of the machine.
        #[error("field \"{0}\" of the machine row is empty or does not fit its phase")]
        InvalidInput(&'static str) = "invalid_input",
        /// A resource holds the machine.
        #[error("machine \"{0}\" is held")]
        MachineHeld(String) = "machine_held",
        /// The machine is not held by the resource that releases it.
        #[error("machine \"{0}\" is not held by this resource")]
        MachineNotHeld(String) = "machine_not_held",
        /// The machine is in use, failed or in a transitional phase.
        #[error("machine \"{what}\" is \"{phase}\" and cannot be held")]
        MachineBusy {
            /// The machine.
            what: String,
            /// Its phase.
            phase: String,
        } = "machine_busy",
        /// Nothing is in dispute.
        #[error("the binding of machine \"{0}\" is not in dispute")]
        NotDisputed(String) = "not_disputed",
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
            (Refusal::MachineState(text()), "machine_state"),
            (Refusal::MachineHost(text()), "machine_host"),
            (Refusal::MachineBinding(text()), "machine_binding"),
            (Refusal::MachineField("zone"), "machine_field"),
            (Refusal::Quantity(text()), "quantity"),
            (Refusal::Price(text()), "price"),
            (Refusal::Probability(text()), "interruption_probability"),
            (Refusal::Penalty(text()), "penalty"),
            (Refusal::Requirement(text()), "need_requirement"),
            (Refusal::Gang(text()), "gang_unsupported"),
            (Refusal::Spread(text()), "spread_unsupported"),
            (Refusal::NeedEmpty, "need_empty"),
            (Refusal::DemandTooLong { count: 2, max: 1 }, "demand_too_long"),
            (Refusal::InvalidInput("command"), "invalid_input"),
            (Refusal::MachineHeld(what()), "machine_held"),
            (Refusal::MachineNotHeld(what()), "machine_not_held"),
            (Refusal::MachineBusy { what: what(), phase: "Idle".to_owned() }, "machine_busy"),
            (Refusal::NotDisputed(what()), "not_disputed"),
        ]
    }

    /// What each of them says.
    const WORDS: [&str; 19] = [
        "shard name \"x\" is not 1 to 253 visible characters without outer blanks",
        "machine state \"x\" is not one of 1 (Speculative) to 8 (Failed)",
        "host \"x\" does not fit the state of the machine",
        "cluster \"x\" does not fit the state of the machine",
        "field \"zone\" of the machine is missing or too long",
        "quantity \"x\" is not a Kubernetes quantity such as 500m, 2 or 4Gi",
        "price \"x\" is not a finite number of at least 0",
        "interruption probability \"x\" is not within 0 and 1",
        "penalty \"x\" is not a bucket within 0 and 27",
        "requirement \"x\" is not a label key with In, NotIn (values) or Exists, DoesNotExist",
        "gang placement by \"x\" is not supported",
        "spreading over \"x\" is not supported",
        "the need asks for no resources",
        "2 needs of one cluster are more than 1",
        "field \"command\" of the machine row is empty or does not fit its phase",
        "machine \"x\" is held",
        "machine \"x\" is not held by this resource",
        "machine \"x\" is \"Idle\" and cannot be held",
        "the binding of machine \"x\" is not in dispute",
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
