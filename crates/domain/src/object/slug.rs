//! What people call things in commands and paths: a DNS label that never changes.

use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::label::is_dns_label;
use super::offender::shortened;
use super::text::checked_texts;

/// What a blueprint, a cloud or a credential is called: a DNS label.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Slug(String);

/// A text that is no DNS label.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("name \"{text}\" is not a DNS label (lower case, digits, '-'; at most 63)")]
pub struct BadSlug {
    /// The offending text, shortened.
    pub text: String,
}

impl BadSlug {
    /// The code of the refusal.
    pub const fn code(&self) -> &'static str {
        "slug_invalid"
    }
}

impl FromStr for Slug {
    type Err = BadSlug;

    fn from_str(text: &str) -> Result<Self, BadSlug> {
        if !is_dns_label(text) {
            return Err(BadSlug { text: shortened(text) });
        }
        Ok(Self(text.to_owned()))
    }
}

checked_texts!(Slug: BadSlug);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_slug_is_a_dns_label() {
        for text in ["a", "local-node", &"a".repeat(63)] {
            assert_eq!(text.parse::<Slug>().unwrap().as_str(), text);
        }
        for text in ["", "Local", "a_b", "-a", "a.b", "a\n", &"a".repeat(64)] {
            let refusal = text.parse::<Slug>().unwrap_err();
            assert_eq!(refusal, BadSlug { text: shortened(text) });
            assert_eq!(refusal.code(), "slug_invalid");
            assert!(serde_json::from_value::<Slug>(text.into()).is_err());
        }
    }

    proptest! {
        #[test]
        fn garbage_is_refused_or_kept(text in any::<String>()) {
            if let Ok(slug) = text.parse::<Slug>() {
                prop_assert_eq!(slug.as_str(), text.as_str());
            }
        }
    }
}
