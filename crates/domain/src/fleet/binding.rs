//! What ties a machine to a cluster, and how it is echoed by a provider.
//!
//! The provider keeps a few texts beside a binding and gives them back. Their keys are shared with
//! other shards, so that machines can be handed over in both directions.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::ident::ClusterId;
use super::money::Penalty;

/// What every key of the echo begins with.
const PREFIX: &str = "bigfleet.lucy.sh/";
const KEY_PRIORITY: &str = "assigned-priority";
const KEY_INTERRUPTION: &str = "assigned-interruption-penalty-dollars";
const KEY_RECLAMATION: &str = "assigned-reclamation-penalty-dollars";
const KEY_FINGERPRINT: &str = "assigned-need-fingerprint";
const KEY_GROUP: &str = "assigned-group";

/// A cluster, and for which of its needs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Binding {
    pub cluster: ClusterId,
    /// The need, as far as later decisions ask for it.
    pub assignment: Assignment,
}

/// For which need a machine is bound. It exists only within a [`Binding`].
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Assignment {
    /// The need's priority.
    pub priority: i32,
    /// What an interruption costs it.
    pub interruption_penalty: Penalty,
    /// What a reclamation costs it.
    pub reclamation_penalty: Penalty,
    /// Which need it is.
    pub fingerprint: String,
    /// The group of needs, or nothing.
    pub group: String,
}

impl Assignment {
    /// What the provider keeps.
    pub fn encode(&self) -> BTreeMap<String, String> {
        let pairs = [
            (KEY_PRIORITY, self.priority.to_string()),
            (KEY_INTERRUPTION, self.interruption_penalty.to_string()),
            (KEY_RECLAMATION, self.reclamation_penalty.to_string()),
            (KEY_FINGERPRINT, self.fingerprint.clone()),
            (KEY_GROUP, self.group.clone()),
        ];
        pairs.into_iter().map(|(key, value)| (format!("{PREFIX}{key}"), value)).collect()
    }

    /// What a provider gave back, key by key: what is missing or cannot be read stays as in an
    /// assignment to nothing, and other keys mean nothing.
    pub fn decode(echo: &BTreeMap<String, String>) -> Self {
        let text = |key| echo.get(&format!("{PREFIX}{key}"));
        let penalty = |key| text(key).and_then(|it| it.parse().ok()).unwrap_or_default();
        let words = |key| text(key).filter(|it| it.len() <= super::ident::LENGTH_MAX).cloned();
        Self {
            priority: text(KEY_PRIORITY).and_then(|it| it.parse().ok()).unwrap_or_default(),
            interruption_penalty: penalty(KEY_INTERRUPTION),
            reclamation_penalty: penalty(KEY_RECLAMATION),
            fingerprint: words(KEY_FINGERPRINT).unwrap_or_default(),
            group: words(KEY_GROUP).unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn assignment() -> Assignment {
        Assignment {
            priority: -7,
            interruption_penalty: Penalty::of_bucket(2).unwrap(),
            reclamation_penalty: Penalty::of_bucket(15).unwrap(),
            fingerprint: "f1".to_owned(),
            group: String::new(),
        }
    }

    // Requirement: F-40
    #[test]
    fn the_echo_is_the_contract() {
        let echo: Vec<(String, String)> = assignment().encode().into_iter().collect();
        let expected = [
            ("bigfleet.lucy.sh/assigned-group", ""),
            ("bigfleet.lucy.sh/assigned-interruption-penalty-dollars", "0.5"),
            ("bigfleet.lucy.sh/assigned-need-fingerprint", "f1"),
            ("bigfleet.lucy.sh/assigned-priority", "-7"),
            ("bigfleet.lucy.sh/assigned-reclamation-penalty-dollars", "4096"),
        ];
        assert_eq!(echo, expected.map(|(key, value)| (key.to_owned(), value.to_owned())));
    }

    #[test]
    fn what_cannot_be_read_is_left_out_alone() {
        let mut echo = assignment().encode();
        echo.insert("bigfleet.lucy.sh/assigned-priority".to_owned(), "9999999999".to_owned());
        echo.remove("bigfleet.lucy.sh/assigned-need-fingerprint");
        echo.insert("another/client".to_owned(), "\0".to_owned());
        let expected = Assignment { priority: 0, fingerprint: String::new(), ..assignment() };
        assert_eq!(Assignment::decode(&echo), expected);
        assert_eq!(Assignment::decode(&BTreeMap::new()), Assignment::default());
    }

    // Requirement: F-40
    #[test]
    fn numbers_of_another_shard_are_read_in_their_own_spelling() {
        let key = "bigfleet.lucy.sh/assigned-interruption-penalty-dollars".to_owned();
        for (text, dollars) in [("1.048576e+06", 1_048_576.0), ("8192", 8_192.0), ("-1", 0.0)] {
            let echo = BTreeMap::from([(key.clone(), text.to_owned())]);
            let read = Assignment::decode(&echo).interruption_penalty.get();
            assert!((read - dollars).abs() < 1e-9, "{text}");
        }
        let pinned = Penalty::of_bucket(27).unwrap();
        let echo = Assignment { interruption_penalty: pinned, ..assignment() }.encode();
        assert_eq!(echo[&key], "+Inf");
        assert_eq!(Assignment::decode(&echo).interruption_penalty, pinned);
    }

    proptest! {
        // Requirement: F-40
        #[test]
        fn an_assignment_is_read_back_exactly(
            priority in any::<i32>(),
            (one, other) in (0.0..1e12_f64, 0..=27_i32),
            (fingerprint, group) in (".{0,40}", ".{0,40}"),
        ) {
            let it = Assignment {
                priority,
                interruption_penalty: Penalty::new(one).unwrap(),
                reclamation_penalty: Penalty::of_bucket(other).unwrap(),
                fingerprint,
                group,
            };
            prop_assert_eq!(Assignment::decode(&it.encode()), it);
        }

        // Requirement: F-40
        #[test]
        fn any_echo_is_read(echo in prop::collection::btree_map(".*", ".*", 0..4)) {
            let _ = Assignment::decode(&echo);
        }
    }
}
