//! Labels as data: the syntax Kubernetes gives to keys and values.

use std::collections::BTreeMap;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;
use usher_kernel::coded;

use super::offender::shortened;
use super::text::checked_texts;

/// The longest name part of a key, and the longest value.
pub const NAME_MAX: usize = 63;
/// The longest prefix of a key.
pub const PREFIX_MAX: usize = 253;

/// Labels of one object, sorted by key.
pub type Labels = BTreeMap<LabelKey, LabelValue>;

coded! {
    /// A text that is no label key or no label value.
    #[derive(Clone, Debug, PartialEq, Eq, Error)]
    pub enum BadLabel {
        /// The part before the slash is no DNS subdomain.
        #[error("the prefix of label key \"{0}\" is not a DNS subdomain")]
        KeyPrefix(String) = "label_key_prefix",
        /// The name is empty, too long, or holds a character it may not hold.
        #[error("the name of label key \"{0}\" is not 1 to 63 letters, digits, '-', '_' or '.'")]
        KeyName(String) = "label_key_name",
        /// The value is too long or holds a character it may not hold.
        #[error("label value \"{0}\" is not at most 63 letters, digits, '-', '_' or '.'")]
        Value(String) = "label_value",
    }
}

/// The key of a label: `name` or `prefix/name`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct LabelKey(String);

/// The value of a label; may be empty.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct LabelValue(String);

impl FromStr for LabelKey {
    type Err = BadLabel;

    fn from_str(text: &str) -> Result<Self, BadLabel> {
        let name = match text.split_once('/') {
            Some((prefix, _)) if !is_dns_subdomain(prefix) => {
                return Err(BadLabel::KeyPrefix(shortened(text)));
            }
            Some((_, name)) => name,
            None => text,
        };
        if !is_label_name(name) {
            return Err(BadLabel::KeyName(shortened(text)));
        }
        Ok(Self(text.to_owned()))
    }
}

impl FromStr for LabelValue {
    type Err = BadLabel;

    fn from_str(text: &str) -> Result<Self, BadLabel> {
        if !text.is_empty() && !is_label_name(text) {
            return Err(BadLabel::Value(shortened(text)));
        }
        Ok(Self(text.to_owned()))
    }
}

checked_texts!(LabelKey: BadLabel, LabelValue: BadLabel);

/// Whether a text is a label name: 1 to 63 of `[A-Za-z0-9._-]`, alphanumeric at both ends.
pub fn is_label_name(text: &str) -> bool {
    let inner = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    let bytes = text.as_bytes();
    let ends = |end: Option<&u8>| end.is_some_and(u8::is_ascii_alphanumeric);
    bytes.len() <= NAME_MAX
        && ends(bytes.first())
        && ends(bytes.last())
        && bytes.iter().copied().all(inner)
}

/// Whether a text is a DNS label: 1 to 63 of `[a-z0-9-]`, alphanumeric at both ends.
pub fn is_dns_label(text: &str) -> bool {
    is_label_name(text) && !text.bytes().any(|b| b.is_ascii_uppercase() || matches!(b, b'_' | b'.'))
}

/// Whether a text is a DNS subdomain: DNS labels joined by dots, 253 characters at most.
pub fn is_dns_subdomain(text: &str) -> bool {
    text.len() <= PREFIX_MAX && text.split('.').all(is_dns_label)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    // Requirement: N-8
    #[test]
    fn keys_have_a_name_and_perhaps_a_prefix() {
        let long_name = "n".repeat(63);
        let long_prefix = format!("{}.{}", "a".repeat(63), vec!["b".repeat(62); 3].join("."));
        assert_eq!(long_prefix.len(), 252);
        let long_prefix = format!("{long_prefix}b");
        let good = [
            "team".to_owned(),
            "usher.dev/in-use".to_owned(),
            "A_b.c-9".to_owned(),
            format!("{long_prefix}/{long_name}"),
        ];
        for text in good {
            assert_eq!(text.parse::<LabelKey>().unwrap().as_str(), text);
        }
    }

    // Requirement: N-8
    #[test]
    fn a_key_refusal_says_which_part_is_wrong() {
        for text in ["", "-a", "a-", "a b", "usher.dev/", "usher.dev/a/b", &"n".repeat(64), "é"] {
            let refusal = text.parse::<LabelKey>().unwrap_err();
            assert_eq!(refusal, BadLabel::KeyName(shortened(text)), "{text}");
            assert_eq!(refusal.code(), "label_key_name");
        }
        let long_prefix = format!("{}/a", vec!["b".repeat(50); 5].join("."));
        assert_eq!(long_prefix.len(), 254 + 2);
        for text in ["/a", "Usher.dev/a", "usher..dev/a", "u_s/a", &long_prefix] {
            let refusal = text.parse::<LabelKey>().unwrap_err();
            assert_eq!(refusal, BadLabel::KeyPrefix(shortened(text)), "{text}");
            assert_eq!(refusal.code(), "label_key_prefix");
        }
    }

    // Requirement: N-8
    #[test]
    fn values_may_be_empty_and_end_at_sixty_three() {
        for text in ["", "a", "A.b_c-9", &"v".repeat(63)] {
            assert_eq!(text.parse::<LabelValue>().unwrap().as_str(), text);
        }
        for text in [" ", "a b", "a/b", ".a", "a.", &"v".repeat(64)] {
            let refusal = text.parse::<LabelValue>().unwrap_err();
            assert_eq!(refusal, BadLabel::Value(shortened(text)), "{text}");
            assert_eq!(refusal.code(), "label_value");
        }
    }

    #[test]
    fn a_refusal_names_the_offender_in_quotes() {
        let refusal = "a b".parse::<LabelKey>().unwrap_err();
        assert_eq!(
            refusal.to_string(),
            "the name of label key \"a b\" is not 1 to 63 letters, digits, '-', '_' or '.'"
        );
    }

    #[test]
    fn stored_labels_are_checked_again_when_read() {
        let labels: Labels = serde_json::from_str(r#"{"team":"blue"}"#).unwrap();
        assert_eq!(serde_json::to_string(&labels).unwrap(), r#"{"team":"blue"}"#);
        assert!(serde_json::from_str::<Labels>(r#"{"team":"b l"}"#).is_err());
        assert!(serde_json::from_str::<Labels>(r#"{"te am":"b"}"#).is_err());
    }

    #[test]
    fn dns_labels_are_lowercase_without_dots() {
        assert!(is_dns_label("a-1"));
        for text in ["", "A", "aB", "a.b", "a_b", "-a"] {
            assert!(!is_dns_label(text), "{text}");
        }
    }

    proptest! {
        // Requirement: N-8
        #[test]
        fn garbage_is_refused_or_kept_as_it_is(text in any::<String>()) {
            if let Ok(key) = text.parse::<LabelKey>() {
                prop_assert_eq!(key.to_string(), text.clone());
            }
            if let Ok(value) = text.parse::<LabelValue>() {
                prop_assert_eq!(value.to_string(), text);
            }
        }
    }
}
