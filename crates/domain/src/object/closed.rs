//! Closed sets: an enum, its words, and a refusal for every other word.

use thiserror::Error;

use super::offender::shortened;

/// A word that is not in its closed set.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("cannot read {set} \"{word}\"")]
pub struct UnknownWord {
    /// The set that was asked.
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

/// Declares an enum whose variants and words are one closed list.
macro_rules! closed_set {
    (
        $(#[$doc:meta])*
        $set:literal $name:ident {
            $($(#[$variant_doc:meta])* $variant:ident = $word:literal,)+
        }
    ) => {
        $(#[$doc])*
        #[derive(
            Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash,
            serde::Serialize, serde::Deserialize,
        )]
        pub enum $name {
            $($(#[$variant_doc])* #[serde(rename = $word)] $variant,)+
        }

        impl $name {
            /// Every member, in order.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// The word for it, the same in rows, answers and tables.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)+
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::object::closed::UnknownWord;

            fn from_str(word: &str) -> Result<Self, Self::Err> {
                match word {
                    $($word => Ok(Self::$variant),)+
                    _ => Err($crate::object::closed::UnknownWord::new($set, word)),
                }
            }
        }
    };
}

pub(crate) use closed_set;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::UnknownWord;
    use crate::broker::event::EventType;
    use crate::broker::phase::Phase;

    #[test]
    fn every_word_of_a_set_is_read_back() {
        for phase in Phase::ALL {
            assert_eq!(phase.as_str().parse(), Ok(*phase));
            assert_eq!(phase.to_string(), phase.as_str());
        }
        for event in EventType::ALL {
            assert_eq!(event.as_str().parse(), Ok(*event));
        }
    }

    #[test]
    fn another_word_is_refused_by_name() {
        for word in ["", "ready", "READY", " Ready", "Ready\0", "Running"] {
            let refusal = word.parse::<Phase>().unwrap_err();
            assert_eq!(refusal, UnknownWord::new("phase", word));
        }
        let refusal = "Running".parse::<Phase>().unwrap_err();
        assert_eq!(refusal.to_string(), "cannot read phase \"Running\"");
    }

    proptest! {
        #[test]
        fn any_text_is_a_word_or_a_refusal(text in ".*") {
            match text.parse::<Phase>() {
                Ok(phase) => prop_assert_eq!(phase.as_str(), text),
                Err(refusal) => prop_assert!(refusal.word.chars().count() <= 64),
            }
        }
    }
}
