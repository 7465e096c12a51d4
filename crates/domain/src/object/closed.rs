//! Closed sets: an enum, its words, and a refusal for every other word.

use thiserror::Error;

use super::offender::shortened;

/// A word that is not in its closed set.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{set} \"{word}\" is unknown")]
pub struct UnknownWord {
    /// The closed set.
    pub set: &'static str,
    /// The offending word, shortened.
    pub word: String,
}

impl UnknownWord {
    /// A refusal that names the offender, shortened.
    pub fn new(set: &'static str, word: &str) -> Self {
        Self { set, word: shortened(word) }
    }
}

/// Declares enums, the variants and words of each of which are one closed list.
macro_rules! closed_set {
    ($(
        $(#[$doc:meta])*
        $set:literal $name:ident {
            $($(#[$variant_doc:meta])* $variant:ident = $word:literal,)+
        }
    )+) => {$(
        $(#[$doc])*
        #[derive(
            Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash,
            serde::Serialize, serde::Deserialize,
        )]
        pub enum $name {
            $($(#[$variant_doc])* #[serde(rename = $word)] $variant,)+
        }

        $crate::object::closed::closed_words! {
            $set $name { $($variant = $word,)+ }
        }
    )+};
}

/// The words of an enum that is one closed list.
macro_rules! closed_words {
    ($set:literal $name:ident { $($variant:ident = $word:expr,)+ }) => {
        impl $name {
            /// Every member, in order.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];
        }

        usher_kernel::words! { for $name { $($variant = $word,)+ } }
        $crate::object::closed::read_words! { $set $name }
    };
}

/// Reads the words of an enum, and refuses every other word.
macro_rules! read_words {
    ($set:literal $name:ident) => {
        impl std::str::FromStr for $name {
            type Err = $crate::object::closed::UnknownWord;

            fn from_str(word: &str) -> Result<Self, Self::Err> {
                let found = Self::ALL.iter().find(|it| it.as_str() == word);
                found.copied().ok_or_else(|| $crate::object::closed::UnknownWord::new($set, word))
            }
        }
    };
}

pub(crate) use {closed_set, closed_words, read_words};

#[cfg(test)]
#[expect(unreachable_pub, reason = "the macro declares public sets")]
mod tests {
    use proptest::prelude::*;

    use super::UnknownWord;

    closed_set! {
        /// A set of two.
        "size" Size {
            /// Small.
            Small = "small",
            /// Large.
            Large = "very-large",
        }
    }

    #[test]
    fn every_word_of_a_set_is_read_back() {
        assert_eq!(Size::ALL, [Size::Small, Size::Large]);
        for size in Size::ALL {
            assert_eq!(size.as_str().parse(), Ok(*size));
            assert_eq!(size.to_string(), size.as_str());
        }
    }

    // Requirement: B-4
    #[test]
    fn another_word_is_refused_by_name() {
        for word in ["", "Small", "SMALL", " small", "small\0", "large"] {
            let refusal = word.parse::<Size>().unwrap_err();
            assert_eq!(refusal, UnknownWord::new("size", word));
        }
        let refusal = "large".parse::<Size>().unwrap_err();
        assert_eq!(refusal.to_string(), "size \"large\" is unknown");
    }

    proptest! {
        // Requirement: B-4
        #[test]
        fn any_text_is_a_word_or_a_refusal(text in ".*") {
            match text.parse::<Size>() {
                Ok(size) => prop_assert_eq!(size.as_str(), text),
                Err(refusal) => prop_assert!(refusal.word.chars().count() <= 64),
            }
        }
    }
}
