//! Labels as the tags of a provider: kept as they are, or skipped with a reason.
//!
//! Nothing is shortened or respelled: a tag that differs from its label cannot be searched for.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use usher_kernel::words;

use crate::object::label::{LabelKey, LabelValue};
use crate::object::provider::{Provider, TagRules, TagSyntax};

words! {
    /// Why a label did not become a tag.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    pub enum Reason {
        /// The key is longer than the provider allows.
        KeyTooLong = "key_too_long",
        /// The key is empty or holds what the provider does not allow.
        KeySyntax = "key_syntax",
        /// The provider keeps such keys for itself.
        KeyReserved = "key_reserved",
        /// To the provider the key is the same as an earlier one.
        KeyCollision = "key_collision",
        /// The value is longer than the provider allows.
        ValueTooLong = "value_too_long",
        /// The value holds what the provider does not allow.
        ValueSyntax = "value_syntax",
        /// The object already carries as many tags as the provider allows.
        TooMany = "too_many",
    }
}

/// A label that did not become a tag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    pub key: String,
    /// Why.
    pub reason: Reason,
}

/// The tags of an object, and what could not become one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct Tags {
    /// What is written.
    pub tags: BTreeMap<String, String>,
    /// What is not, sorted by key.
    pub skipped: Vec<Skipped>,
}

/// The tags that these labels make on this provider; the first keys win when there are too many.
pub fn tags<'a>(labels: impl IntoIterator<Item = (&'a str, &'a str)>, provider: Provider) -> Tags {
    let rules = provider.tag_rules();
    let labels: BTreeMap<&str, &str> = labels.into_iter().collect();
    let mut made = Tags::default();
    let mut taken = BTreeSet::new();
    for (key, value) in labels {
        let fault = fault(key, value, &rules).or_else(|| {
            let same = if rules.case_sensitive { key.to_owned() } else { key.to_lowercase() };
            if taken.contains(&same) {
                return Some(Reason::KeyCollision);
            }
            if rules.count_max.is_some_and(|max| made.tags.len() >= max) {
                return Some(Reason::TooMany);
            }
            taken.insert(same);
            None
        });
        match fault {
            Some(reason) => made.skipped.push(Skipped { key: key.to_owned(), reason }),
            None => {
                made.tags.insert(key.to_owned(), value.to_owned());
            }
        }
    }
    made
}

fn fault(key: &str, value: &str, rules: &TagRules) -> Option<Reason> {
    let too_long = |text: &str, max: Option<usize>| max.is_some_and(|it| text.chars().count() > it);
    let folded = key.to_lowercase();
    if too_long(key, rules.key_max) {
        return Some(Reason::KeyTooLong);
    }
    if rules.reserved.iter().any(|it| folded.starts_with(it)) {
        return Some(Reason::KeyReserved);
    }
    if key.is_empty() || !is_key(key, rules.syntax) {
        return Some(Reason::KeySyntax);
    }
    if too_long(value, rules.value_max) {
        return Some(Reason::ValueTooLong);
    }
    (!is_value(value, rules.syntax)).then_some(Reason::ValueSyntax)
}

fn is_key(key: &str, syntax: TagSyntax) -> bool {
    match syntax {
        TagSyntax::Aws => key.chars().all(aws),
        TagSyntax::Azure => !key.contains(|c: char| c.is_control() || "<>%&\\?/".contains(c)),
        TagSyntax::Gcp => key.starts_with(|c: char| c.is_ascii_lowercase()) && key.chars().all(gcp),
        TagSyntax::Kubernetes => key.parse::<LabelKey>().is_ok(),
        TagSyntax::Openstack => {
            key.chars().all(|c| c.is_ascii_alphanumeric() || "-_:. ".contains(c))
        }
        TagSyntax::Any => true,
    }
}

fn is_value(value: &str, syntax: TagSyntax) -> bool {
    match syntax {
        TagSyntax::Aws => value.chars().all(aws),
        TagSyntax::Gcp => value.chars().all(gcp),
        TagSyntax::Kubernetes => value.parse::<LabelValue>().is_ok(),
        TagSyntax::Azure | TagSyntax::Openstack => !value.contains(char::is_control),
        TagSyntax::Any => true,
    }
}

fn aws(c: char) -> bool {
    c.is_alphanumeric() || " _.:/=+-@".contains(c)
}

fn gcp(c: char) -> bool {
    c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == '-'
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn verdict(provider: Provider, key: &str, value: &str) -> Option<Reason> {
        let made = tags([(key, value)], provider);
        match made.skipped.as_slice() {
            [] => {
                assert_eq!(made.tags.get(key).map(String::as_str), Some(value));
                None
            }
            [one] => {
                assert!(made.tags.is_empty());
                assert_eq!(one.key, key);
                Some(one.reason)
            }
            more => panic!("one label, {} skipped", more.len()),
        }
    }

    fn check(provider: Provider, cases: &[(&str, &str, Option<Reason>)]) {
        for (key, value, expected) in cases {
            assert_eq!(verdict(provider, key, value), *expected, "{provider} {key:?} {value:?}");
        }
    }

    // Requirement: R-16
    #[test]
    fn aws_takes_its_own_characters_and_keeps_its_prefix() {
        check(
            Provider::Aws,
            &[
                ("usher.dev/team", "a b_.:/=+-@é", None),
                (&"k".repeat(128), &"v".repeat(256), None),
                (&"é".repeat(128), &"é".repeat(256), None),
                (&"k".repeat(129), "", Some(Reason::KeyTooLong)),
                ("k", &"v".repeat(257), Some(Reason::ValueTooLong)),
                ("", "v", Some(Reason::KeySyntax)),
                ("k#", "v", Some(Reason::KeySyntax)),
                ("k", "v#", Some(Reason::ValueSyntax)),
                ("aws:k", "v", Some(Reason::KeyReserved)),
                ("AWS:k", "v", Some(Reason::KeyReserved)),
                ("aws", "v", None),
            ],
        );
    }

    // Requirement: R-16
    #[test]
    fn azure_forbids_its_path_characters_in_keys() {
        check(
            Provider::Azure,
            &[
                (&"k".repeat(512), &"v".repeat(256), None),
                (&"k".repeat(513), "", Some(Reason::KeyTooLong)),
                ("k", &"v".repeat(257), Some(Reason::ValueTooLong)),
                ("k", "<>%&\\?/", None),
                ("k", "a\nb", Some(Reason::ValueSyntax)),
                ("k\n", "v", Some(Reason::KeySyntax)),
                ("azure-team", "v", Some(Reason::KeyReserved)),
                ("Microsoft", "v", Some(Reason::KeyReserved)),
                ("windows.x", "v", Some(Reason::KeyReserved)),
            ],
        );
        for forbidden in "<>%&\\?/".chars() {
            let key = format!("k{forbidden}");
            assert_eq!(verdict(Provider::Azure, &key, ""), Some(Reason::KeySyntax), "{key}");
        }
    }

    #[test]
    fn keys_that_differ_in_case_only_are_one_key_to_azure() {
        let labels = [("Team", "a"), ("team", "b")];
        let azure = tags(labels, Provider::Azure);
        assert_eq!(azure.tags, BTreeMap::from([("Team".to_owned(), "a".to_owned())]));
        let lost = Skipped { key: "team".to_owned(), reason: Reason::KeyCollision };
        assert_eq!(azure.skipped, [lost]);
        let others = [Provider::Aws, Provider::Hetzner, Provider::Openstack, Provider::Local];
        for provider in others {
            assert_eq!(tags(labels, provider).tags.len(), 2, "{provider}");
        }
    }

    // Requirement: R-16
    #[test]
    fn gcp_is_lowercase_and_begins_with_a_letter() {
        check(
            Provider::Gcp,
            &[
                ("team_a-1", "", None),
                (&"k".repeat(63), &"v".repeat(63), None),
                (&"k".repeat(64), "", Some(Reason::KeyTooLong)),
                ("k", &"v".repeat(64), Some(Reason::ValueTooLong)),
                ("1k", "v", Some(Reason::KeySyntax)),
                ("_k", "v", Some(Reason::KeySyntax)),
                ("", "v", Some(Reason::KeySyntax)),
                ("Team", "v", Some(Reason::KeySyntax)),
                ("usher.dev", "v", Some(Reason::KeySyntax)),
                ("k", "V", Some(Reason::ValueSyntax)),
                ("k", "_1-", None),
            ],
        );
    }

    // Requirement: R-16
    #[test]
    fn hetzner_takes_what_kubernetes_takes() {
        check(
            Provider::Hetzner,
            &[
                ("usher.dev/team", "a.b", None),
                (&"k".repeat(63), &"v".repeat(63), None),
                (&"k".repeat(64), "v", Some(Reason::KeySyntax)),
                ("k", &"v".repeat(64), Some(Reason::ValueTooLong)),
                ("k", "v-", Some(Reason::ValueSyntax)),
                ("hetzner.cloud/k", "v", Some(Reason::KeyReserved)),
            ],
        );
    }

    // Requirement: R-16
    #[test]
    fn openstack_keys_hold_no_slash() {
        check(
            Provider::Openstack,
            &[
                (&"k".repeat(255), &"v".repeat(255), None),
                (&"k".repeat(256), "", Some(Reason::KeyTooLong)),
                ("k", &"v".repeat(256), Some(Reason::ValueTooLong)),
                ("a-_:. Z9", "é/", None),
                ("usher.dev/team", "v", Some(Reason::KeySyntax)),
                ("é", "v", Some(Reason::KeySyntax)),
                ("k", "\u{7}", Some(Reason::ValueSyntax)),
            ],
        );
    }

    #[test]
    fn this_machine_takes_everything_that_has_a_key() {
        check(
            Provider::Local,
            &[
                (&"k".repeat(5000), &"v".repeat(5000), None),
                ("a b\n/é", "\0", None),
                ("", "v", Some(Reason::KeySyntax)),
            ],
        );
    }

    // Requirement: R-16
    #[test]
    fn the_first_keys_win_when_there_are_too_many() {
        let keys: Vec<String> = (0..200).map(|n| format!("k{n:03}")).collect();
        let caps = Provider::ALL.map(|provider| {
            let labels = keys.iter().rev().map(|key| (key.as_str(), "v"));
            let made = tags(labels, provider);
            let kept: Vec<&String> = made.tags.keys().collect();
            assert_eq!(kept, keys.iter().take(kept.len()).collect::<Vec<_>>());
            assert!(made.skipped.iter().all(|it| it.reason == Reason::TooMany));
            assert_eq!(made.tags.len() + made.skipped.len(), 200);
            made.tags.len()
        });
        assert_eq!(caps, [50, 50, 64, 64, 128, 200]);
    }

    #[test]
    fn a_skipped_label_takes_no_place() {
        let mut labels: Vec<(String, String)> =
            (0..50).map(|n| (format!("k{n:02}"), "v".into())).collect();
        labels.push(("a#".into(), "v".into()));
        let made = tags(labels.iter().map(|(k, v)| (k.as_str(), v.as_str())), Provider::Aws);
        assert_eq!(made.tags.len(), 50);
        assert_eq!(made.skipped, [Skipped { key: "a#".into(), reason: Reason::KeySyntax }]);
    }

    // Requirement: R-15
    #[test]
    fn reasons_have_words() {
        assert_eq!(
            Reason::ALL.map(Reason::as_str),
            [
                "key_too_long",
                "key_syntax",
                "key_reserved",
                "key_collision",
                "value_too_long",
                "value_syntax",
                "too_many",
            ]
        );
    }

    proptest! {
        // Requirement: R-15
        #[test]
        fn every_label_is_kept_whole_or_skipped_with_a_reason(
            labels in prop::collection::btree_map(".{0,24}", ".{0,24}", 0..70),
        ) {
            for provider in Provider::ALL {
                let pairs = || labels.iter().map(|(k, v)| (k.as_str(), v.as_str()));
                let made = tags(pairs(), provider);
                prop_assert_eq!(&made, &tags(pairs().rev(), provider));
                prop_assert_eq!(made.tags.len() + made.skipped.len(), labels.len());
                for (key, value) in &made.tags {
                    prop_assert_eq!(labels.get(key), Some(value));
                }
            }
        }
    }
}
