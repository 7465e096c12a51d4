//! External names in a fleet: machines, clusters and shards.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::refusal::Refusal;
use crate::object::offender::shortened;
use crate::object::text::checked_texts;

/// The longest name, in bytes.
pub const LENGTH_MAX: usize = 253;

macro_rules! names {
    ($($(#[$doc:meta])* $name:ident: $what:literal,)+) => {
        $(
            $(#[$doc])*
            #[derive(
                Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
            )]
            #[serde(try_from = "String", into = "String")]
            pub struct $name(String);

            impl FromStr for $name {
                type Err = Refusal;

                fn from_str(text: &str) -> Result<Self, Refusal> {
                    if !is_name(text) {
                        return Err(Refusal::Name { what: $what, text: shortened(text) });
                    }
                    Ok(Self(text.to_owned()))
                }
            }
        )+
        checked_texts!($($name: Refusal),+);
    };
}

names! {
    /// A machine: the provider's own name for it, unchanged for as long as it exists.
    MachineId: "machine",
    /// A cluster that machines are bound to.
    ClusterId: "cluster",
    /// A shard: the only sender of verbs to its machines.
    ShardId: "shard",
}

fn is_name(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= LENGTH_MAX
        && text.trim() == text
        && !text.chars().any(char::is_control)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_empty_padded_split_or_endless_is_no_name() {
        let long = "a".repeat(LENGTH_MAX + 1);
        for text in ["", " a", "a ", "a\nb", "a\0", long.as_str()] {
            assert!(text.parse::<MachineId>().is_err(), "{text:?}");
        }
        let longest = "a".repeat(LENGTH_MAX);
        assert_eq!(longest.parse::<ClusterId>().unwrap().as_str(), longest);
    }

    #[test]
    fn a_refusal_says_what_was_to_be_named() {
        let refusal = "a\nb".parse::<ShardId>().unwrap_err();
        assert!(refusal.to_string().starts_with("shard name \"a\u{fffd}b\" is not 1 to 253"));
    }

    proptest! {
        // Requirement: F-37
        #[test]
        fn any_text_is_a_name_or_a_refusal(text in ".*") {
            if let Ok(name) = text.parse::<MachineId>() {
                prop_assert_eq!(String::from(name), text);
            }
        }
    }
}
